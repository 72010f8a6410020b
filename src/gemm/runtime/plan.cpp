#include "gemm/runtime/plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace lathe::gemm {
namespace {

constexpr std::array kLayouts = {"nn", "tn", "nt", "tt"};
constexpr std::array kSkeletons = {"direct", "mma", "wgmma"};
constexpr std::int64_t kMaxGridY = 65535;
constexpr std::array kEdges = {"whole", "vectors", "any"};

std::int64_t cdiv(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t tiles_down(const Plan& plan, const Problem& p) {
  return cdiv(plan.transposed ? p.n : p.m, plan.rows);
}
std::int64_t tiles_across(const Plan& plan, const Problem& p) {
  return cdiv(plan.transposed ? p.m : p.n, plan.columns);
}

/// As in GemmPartials.
int slice_bytes(const Plan& plan) { return 4 * plan.rows * (plan.columns + 8); }
int staging_bytes(const Plan& plan) {
  return plan.slices * plan.split > 1 ? plan.slices * slice_bytes(plan) : 0;
}
int received_bytes(const Plan& plan) {
  if (plan.split == 1 || plan.gathers) return 0;
  return plan.skeleton == Skeleton::kWgmma ? 4 * plan.rows * plan.columns : slice_bytes(plan) + 16;
}

template <std::size_t kCount>
int index_of(const std::array<const char*, kCount>& names, const std::string& name) {
  for (std::size_t i = 0; i < kCount; ++i)
    if (name == names[i]) return static_cast<int>(i);
  return -1;
}

/// Terms of K that one block adds.
double terms_of_block(const Plan& plan, const Problem& problem) {
  const double steps = static_cast<double>(cdiv(problem.k, plan.depth));
  return std::max(1.0, std::ceil(steps / plan.split)) * plan.depth;
}

/// Clusters of `size` blocks that fit a GPU, `fit` blocks a multiprocessor. A cluster lies in one
/// of the groups of multiprocessors, which have 16 or 18, some fewer: of an H200's 132, at one a
/// multiprocessor, 66 clusters of 2, 30 of 4, 15 of 8 and 7 of 16, and no more of 16 where two
/// blocks fit a multiprocessor.
double clusters_that_fit(int size, double fit, int sm_count) {
  if (size == 1) return sm_count * fit;
  if (size > 8) fit = 1;
  const double usable = size == 2 ? 1 : size <= 8 ? 0.91 : 0.85;
  return std::max(1.0, std::floor(sm_count * usable / size)) * fit;
}

constexpr double kGhz = 1.85;

/// Of things that go on at once: the longest counts, others nearly as long too.
double overlapped(std::initializer_list<double> times_ns) {
  double sum = 0;
  for (const double ns : times_ns) sum += ns * ns * ns * ns;
  return std::sqrt(std::sqrt(sum));
}

/// wgmma: a block's time for 64 terms, `together` blocks sharing a multiprocessor: arithmetic, what
/// arrives at a multiprocessor, the latency of a ring's loads, and issuing the products, of which
/// the beginning of a step is a part. far: the operands fill more than the half of the L2 that is
/// near. The numbers here and below were fitted to 2850 times on an H200, those of issuing and of
/// clusters that share K estimated since.
double wgmma_step_ns(const Plan& plan, double together, bool far) {
  constexpr double kToOne = 224, kLatency = 320, kFarLatency = 1350, kBegin = 50, kIssue = 55,
                   kIssueOfTwo = 45;
  const double units = plan.depth / 64.0;
  const double share_of_peak = tall_of(plan) * plan.columns >= 64 ? 0.87 : 0.5;
  const double math = 2.0 * 64 * plan.rows * plan.columns / 4096 / kGhz / share_of_peak;
  const double arriving = 128.0 * (plan.rows + plan.columns);
  return overlapped({together * math, together * arriving / kToOne,
                     (far ? kFarLatency : kLatency) / (plan.stages * units),
                     kBegin / units + (plan.slices > 1 ? kIssueOfTwo : kIssue)});
}

/// Of adding the sums of blocks that share K.
double split_ns(const Plan& plan, double blocks) {
  const double tile_bytes = 4.0 * plan.rows * plan.columns;
  if (plan.split == 1) return 0;
  if (plan.skeleton != Skeleton::kWgmma) return 1100 + tile_bytes / 20;
  return plan.gathers ? 1800 + tile_bytes * blocks / 1480 : 900 + tile_bytes / 16;
}

}  // namespace

const char* name_of(Layout layout) { return kLayouts[static_cast<std::size_t>(layout)]; }

bool layout_of(const std::string& name, Layout& layout) {
  const int index = index_of(kLayouts, name);
  if (index >= 0) layout = static_cast<Layout>(index);
  return index >= 0;
}

std::string name_of(const Track& track) {
  return std::string(name_of(track.layout)) + (track.half_sums ? "_fp16" : "_fp32");
}

std::string name_of(const Plan& p) {
  std::string name = kSkeletons[static_cast<std::size_t>(p.skeleton)];
  const auto knob = [&](const char* prefix, unsigned value) { name += prefix + std::to_string(value); };
  name += std::string("_") + name_of(p.layout);
  knob("_", p.rows), knob("x", p.columns), knob("x", p.depth);
  knob("_w", p.down), knob("x", p.across), knob("_g", p.slices), knob("_s", p.stages);
  knob("_c", p.split), knob("_m", p.share_b), knob("_n", p.share_a), knob("_b", p.band), knob("_o", p.blocks),
      knob("_k", p.steps);
  if (p.persistent) name += "_persistent";
  if (p.plain_store) name += "_plain";
  if (p.in_turn) name += "_turns";
  if (p.gathers) name += "_gathers";
  if (p.transposed) name += "_transposed";
  if (p.half_sums) name += "_half";
  return name + "_" + kEdges[static_cast<std::size_t>(p.edges)];
}

bool plan_of(const std::string& name, Plan& plan) {
  char skeleton[8], layout[8], rest[64];
  unsigned rows, columns, depth, down, across, slices, stages, split, share_b, share_a, band, blocks, steps;
  if (std::sscanf(name.c_str(), "%7[a-z]_%7[a-z]_%ux%ux%u_w%ux%u_g%u_s%u_c%u_m%u_n%u_b%u_o%u_k%u_%63s",
                  skeleton, layout, &rows, &columns, &depth, &down, &across, &slices, &stages, &split,
                  &share_b, &share_a, &band, &blocks, &steps, rest) != 16)
    return false;
  std::string edges = rest;
  const auto take = [&](const std::string& word) {
    const bool there = edges.rfind(word, 0) == 0;
    if (there) edges.erase(0, word.size());
    return there;
  };
  plan = {};
  plan.persistent = take("persistent_");
  plan.plain_store = take("plain_");
  plan.in_turn = take("turns_");
  plan.gathers = take("gathers_");
  plan.transposed = take("transposed_");
  plan.half_sums = take("half_");
  const int of_skeleton = index_of(kSkeletons, skeleton), of_layout = index_of(kLayouts, layout),
            of_edges = index_of(kEdges, edges);
  if (of_skeleton < 0 || of_layout < 0 || of_edges < 0) return false;
  plan.skeleton = static_cast<Skeleton>(of_skeleton);
  plan.layout = static_cast<Layout>(of_layout);
  plan.edges = static_cast<Edges>(of_edges);
  plan.rows = static_cast<std::uint16_t>(rows), plan.columns = static_cast<std::uint16_t>(columns);
  plan.depth = static_cast<std::uint16_t>(depth);
  plan.down = static_cast<std::uint8_t>(down), plan.across = static_cast<std::uint8_t>(across);
  plan.slices = static_cast<std::uint8_t>(slices), plan.stages = static_cast<std::uint8_t>(stages);
  plan.split = static_cast<std::uint8_t>(split), plan.share_b = static_cast<std::uint8_t>(share_b),
  plan.share_a = static_cast<std::uint8_t>(share_a);
  plan.band = static_cast<std::uint8_t>(band), plan.blocks = static_cast<std::uint8_t>(blocks);
  plan.steps = steps;
  return name == name_of(plan);
}

int threads_of(const Plan& p) {
  switch (p.skeleton) {
    case Skeleton::kDirect:
      return 32 * p.slices;
    case Skeleton::kMma:
      return 32 * p.down * p.across * p.slices;
    case Skeleton::kWgmma:
      return 128 * p.down + (p.down > 1 ? 128 : 32);
  }
  return 0;
}

int shared_bytes_of(const Plan& p) {
  const auto slab = [&](bool along_k, int extent) {
    return along_k ? extent * (p.depth + 8) : p.depth * (extent + 8);
  };
  switch (p.skeleton) {
    case Skeleton::kDirect:
      return staging_bytes(p) + received_bytes(p);
    case Skeleton::kMma: {
      const int ring =
          2 * p.stages * (slab(a_along_k(p.layout), p.rows) + slab(b_along_k(p.layout), p.columns));
      return std::max(ring, staging_bytes(p)) + received_bytes(p);
    }
    case Skeleton::kWgmma: {
      const int ring = p.stages * 2 * p.depth * (p.rows + p.columns),
                result = p.split > 1 || p.plain_store ? 16 : 2 * p.down * 64 * 2 * stored_columns_of(p);
      return ring + result + std::max(16, received_bytes(p)) + 16 * p.stages + 48;
    }
  }
  return 0;
}

bool serves(const Plan& plan, const Problem& p) {
  if (plan.layout != p.layout || (plan.half_sums && !p.half_sums)) return false;
  if (plan.edges != Edges::kAny && (!p.aligned || p.k == 0)) return false;
  const std::int64_t terms = std::int64_t{plan.steps} * plan.depth * plan.split;
  switch (plan.skeleton) {
    case Skeleton::kDirect:
      return p.k == terms * plan.slices;
    case Skeleton::kMma:
      if (plan.steps > 0 && p.k != terms) return false;
      return plan.edges != Edges::kWhole || (p.m % plan.rows == 0 && p.n % plan.columns == 0 &&
                                             p.k % (std::int64_t{plan.depth} * plan.split) == 0);
    case Skeleton::kWgmma: {
      const std::int64_t tiles = tiles_down(plan, p) * tiles_across(plan, p);
      if (cdiv(p.k, plan.depth) < plan.split || (maps_k_in_64s(plan) && p.k % 64 != 0)) return false;
      if (plan.band == 0 && tiles_across(plan, p) / plan.share_a > kMaxGridY) return false;
      if (plan.gathers &&
          (!p.workspace || tiles > kCounterBytes / 8 || workspace_bytes_of(plan, p) > kWorkspaceBytes))
        return false;
      return (p.aligned_c || !maps_c(plan)) && tiles * plan.split * cluster_of(plan) < (1 << 30);
    }
  }
  return false;
}

std::int64_t workspace_bytes_of(const Plan& plan, const Problem& p) {
  return kCounterBytes +
         4 * tiles_down(plan, p) * tiles_across(plan, p) * plan.split * plan.rows * plan.columns;
}

Grid grid_of(const Plan& plan, const Problem& p, int sm_count) {
  const std::int64_t down = tiles_down(plan, p), across = tiles_across(plan, p);
  if (plan.skeleton == Skeleton::kWgmma) {
    const std::int64_t clusters_down = cdiv(down, plan.share_b), clusters_across = cdiv(across, plan.share_a);
    if (plan.band == 0)
      return {static_cast<unsigned>(clusters_down * plan.share_a * plan.share_b * plan.split),
              static_cast<unsigned>(clusters_across), 1};
    std::int64_t clusters = clusters_down * clusters_across;
    if (plan.persistent)
      clusters = std::min<std::int64_t>(clusters, sm_count * plan.blocks / (plan.share_b * plan.share_a));
    return {static_cast<unsigned>(clusters * plan.share_a * plan.share_b * plan.split), 1, 1};
  }
  const std::int64_t z = std::max<std::int64_t>(1, cdiv(across, kMaxGridY));
  return {static_cast<unsigned>(down * plan.split), static_cast<unsigned>(cdiv(across, z)),
          static_cast<unsigned>(z)};
}

double model_ns(const Plan& plan, const Problem& p, int sm_count) {
  constexpr double kSharedPerSm = 227 * 1024;
  // What the L2 delivers to all, and to one multiprocessor, in bytes a ns.
  constexpr double kL2 = 8500, kL2ToOne = 72;
  const double clusters = static_cast<double>(cdiv(tiles_down(plan, p), plan.share_b) *
                                              cdiv(tiles_across(plan, p), plan.share_a));
  const double blocks = clusters * plan.share_a * plan.share_b * plan.split;
  const double fit = std::max(
      1.0, std::floor(std::min({kSharedPerSm / (shared_bytes_of(plan) + 1024), 2048.0 / threads_of(plan),
                                plan.skeleton == Skeleton::kWgmma ? 1.0 * plan.blocks : 8.0})));
  const double at_once = cluster_of(plan) * clusters_that_fit(cluster_of(plan), fit, sm_count);
  const double waves = std::ceil(blocks / at_once);
  const double terms = terms_of_block(plan, p);

  const double operand_bytes = 2.0 * static_cast<double>((p.m + p.n) * p.k);
  const double stored_bytes = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n);
  double latency_ns = 0, work_ns = 0, store_ns = stored_bytes / 3500, share_ns = 0;
  if (plan.skeleton == Skeleton::kWgmma) {
    const bool far = operand_bytes > 20e6;
    const double active = std::min(blocks, at_once), together = std::ceil(active / sm_count);
    // The last of several waves need not be full: its blocks then have a multiprocessor for
    // themselves.
    const double full = std::floor(blocks / at_once), rest = blocks - full * at_once;
    const double steps = terms / 64;
    work_ns = steps * full * wgmma_step_ns(plan, together, far);
    if (rest > 0) work_ns += steps * wgmma_step_ns(plan, std::ceil(rest / sm_count), far);
    latency_ns = (plan.plain_store ? 2770 : 2170) - (plan.band == 0 ? 100 : 0);
    if (!plan.persistent) latency_ns += std::min(1280 * (waves - 1), work_ns + 700);
    if (plan.share_a * plan.share_b > 1) share_ns = 160 + 0.08 * work_ns;
    if (far) work_ns = overlapped({work_ns, operand_bytes / 7850});
    store_ns = stored_bytes / 4400 * (plan.in_turn ? 0.6 : plan.persistent ? 0.87 : 1);
  } else {
    const double per_sm = std::min(std::ceil(blocks / sm_count), waves * fit);
    const bool direct = plan.skeleton == Skeleton::kDirect;
    const double flops_per_clock = direct ? 800 : 1400;
    latency_ns = direct ? 1150 : 1900;
    const double step_ns = direct ? 380 : 300 + 8.0 * plan.depth / plan.slices * 3 / (plan.stages + 1);
    const double math_ns = 2.0 * plan.rows * plan.columns * terms / flops_per_clock / kGhz;
    const double bytes = 2.0 * terms * (plan.rows + plan.columns);
    const double load_ns = std::max(bytes * std::min<double>(blocks, sm_count) / kL2, bytes / kL2ToOne);
    const double steps = std::ceil(terms / plan.depth / (direct ? plan.slices : 1));
    const double chain_ns = step_ns * (direct ? std::ceil(steps / plan.stages) : steps);
    work_ns = std::max(chain_ns * waves, per_sm * std::max(math_ns, load_ns));
  }
  // Operands that the L2 does not hold come from memory.
  if (operand_bytes > 60e6) work_ns = std::max(work_ns, operand_bytes / 4300);
  const double slices_ns = plan.slices > 1 && plan.skeleton != Skeleton::kWgmma
                               ? 150 + 4.0 * plan.rows * plan.columns * plan.slices / 100 / kGhz
                               : 0;
  const double edges_ns = plan.skeleton == Skeleton::kWgmma ? 0
                          : plan.edges == Edges::kAny       ? 0.3 * work_ns
                          : plan.edges == Edges::kVectors   ? 0.03 * work_ns
                                                            : 0;
  return latency_ns + work_ns + edges_ns + slices_ns + split_ns(plan, blocks) + share_ns + store_ns;
}

}  // namespace lathe::gemm

#include "gemm/runtime/plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace lathe::gemm {
namespace {

constexpr std::array kLayouts = {"nn", "tn", "nt", "tt"};
constexpr std::array kSkeletons = {"direct", "mma", "wgmma"};
constexpr std::array kEdges = {"whole", "vectors", "any"};

std::int64_t cdiv(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t tiles_down(const Plan& plan, const Problem& p) { return cdiv(p.m, plan.rows); }
std::int64_t tiles_across(const Plan& plan, const Problem& p) { return cdiv(p.n, plan.columns); }

/// As in GemmPartials.
int slice_bytes(const Plan& plan) { return 4 * plan.rows * (plan.columns + 8); }
int staging_bytes(const Plan& plan) {
  return plan.slices * plan.split > 1 ? plan.slices * slice_bytes(plan) : 0;
}
int received_bytes(const Plan& plan) { return plan.split > 1 ? slice_bytes(plan) + 16 : 0; }

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

/// Clusters of `size` blocks that fit a GPU, `fit` blocks a multiprocessor. A cluster lies in one of the
/// groups of multiprocessors, of which some have fewer than 16.
double clusters_that_fit(int size, double fit, int sm_count) {
  if (size == 1) return sm_count * fit;
  const double usable = size == 2 ? 1 : size == 4 ? 0.95 : size == 8 ? 0.85 : 0.75;
  return std::max(1.0, std::floor(sm_count * usable * fit / size));
}

}  // namespace

const char* name_of(Layout layout) { return kLayouts[static_cast<std::size_t>(layout)]; }

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
  return name + "_" + kEdges[static_cast<std::size_t>(p.edges)];
}

bool plan_of(const std::string& name, Plan& plan) {
  char skeleton[8], layout[8], rest[32];
  unsigned rows, columns, depth, down, across, slices, stages, split, share_b, share_a, band, blocks, steps;
  if (std::sscanf(name.c_str(), "%7[a-z]_%7[a-z]_%ux%ux%u_w%ux%u_g%u_s%u_c%u_m%u_n%u_b%u_o%u_k%u_%31s",
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
      const int ring = p.stages * 128 * (p.rows + p.columns),
                result = p.split > 1 || p.plain_store ? 16 : 2 * p.down * 64 * 128;
      return ring + result + std::max(16, received_bytes(p)) + 16 * p.stages;
    }
  }
  return 0;
}

bool serves(const Plan& plan, const Problem& p) {
  if (plan.layout != p.layout) return false;
  if (plan.edges != Edges::kAny && (!p.aligned || p.k == 0)) return false;
  const std::int64_t terms = std::int64_t{plan.steps} * plan.depth * plan.split;
  switch (plan.skeleton) {
    case Skeleton::kDirect:
      return p.k == terms * plan.slices;
    case Skeleton::kMma:
      if (plan.steps > 0 && p.k != terms) return false;
      return plan.edges != Edges::kWhole || (p.m % plan.rows == 0 && p.n % plan.columns == 0 &&
                                             p.k % (std::int64_t{plan.depth} * plan.split) == 0);
    case Skeleton::kWgmma:
      return p.aligned_c && tiles_down(plan, p) * tiles_across(plan, p) * cluster_of(plan) < (1 << 30);
  }
  return false;
}

Grid grid_of(const Plan& plan, const Problem& p, int sm_count) {
  const std::int64_t down = tiles_down(plan, p), across = tiles_across(plan, p);
  if (plan.skeleton == Skeleton::kWgmma) {
    std::int64_t clusters = cdiv(down, plan.share_b) * cdiv(across, plan.share_a);
    if (plan.persistent)
      clusters = std::min<std::int64_t>(clusters, sm_count * plan.blocks / (plan.share_b * plan.share_a));
    return {static_cast<unsigned>(clusters * cluster_of(plan)), 1, 1};
  }
  constexpr std::int64_t kMaxY = 65535;
  const std::int64_t z = std::max<std::int64_t>(1, cdiv(across, kMaxY));
  return {static_cast<unsigned>(down * plan.split), static_cast<unsigned>(cdiv(across, z)),
          static_cast<unsigned>(z)};
}

double model_ns(const Plan& plan, const Problem& p, int sm_count) {
  constexpr double kGhz = 1.7, kSharedPerSm = 227 * 1024;
  // What the L2 delivers to all, and to one multiprocessor, in bytes a ns.
  constexpr double kL2 = 8500, kL2ToOne = 72;
  const double clusters = static_cast<double>(cdiv(tiles_down(plan, p), plan.share_b) *
                                              cdiv(tiles_across(plan, p), plan.share_a));
  const double blocks = clusters * cluster_of(plan);
  const double fit = std::max(
      1.0, std::floor(std::min({kSharedPerSm / (shared_bytes_of(plan) + 1024), 2048.0 / threads_of(plan),
                                plan.skeleton == Skeleton::kWgmma ? 1.0 * plan.blocks : 8.0})));
  const double waves = std::ceil(clusters / clusters_that_fit(cluster_of(plan), fit, sm_count));
  const double per_sm = std::min(std::ceil(blocks / sm_count), waves * fit);
  const double terms = terms_of_block(plan, p);

  double flops_per_clock = 0, latency_ns = 0, step_ns = 0;
  switch (plan.skeleton) {
    case Skeleton::kDirect:
      flops_per_clock = 800, latency_ns = 1500, step_ns = 350;
      break;
    case Skeleton::kMma:
      flops_per_clock = 1400, latency_ns = 1900, step_ns = 180 + 2.5 * plan.depth / plan.slices;
      break;
    case Skeleton::kWgmma:
      flops_per_clock = plan.columns >= 128 ? 3600 : plan.columns >= 64 ? 2600 : 1500;
      latency_ns = 2500, step_ns = 80;
      break;
  }
  const double math_ns = 2.0 * plan.rows * plan.columns * terms / flops_per_clock / kGhz;
  const double bytes = 2.0 * terms * (1.0 * plan.rows / plan.share_a + 1.0 * plan.columns / plan.share_b);
  const double arriving = 2.0 * terms * (plan.rows + plan.columns);
  const double load_ns = std::max(bytes * std::min<double>(blocks, sm_count) / kL2, arriving / kL2ToOne);
  const double steps = std::ceil(terms / plan.depth / (plan.skeleton == Skeleton::kDirect ? plan.slices : 1));
  const double chain_ns =
      step_ns * (plan.skeleton == Skeleton::kDirect ? std::ceil(steps / plan.stages) : steps);
  // A short ring of short steps does not hide the latency of loads.
  const double stalls =
      plan.skeleton == Skeleton::kWgmma
          ? 1 + 1.2 / (plan.stages * plan.stages) * std::min(1.0, 8192.0 / (plan.rows * plan.columns))
          : 1;
  const double work_ns = stalls * std::max(chain_ns * waves, per_sm * std::max(math_ns, load_ns));
  const double store_ns = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) / 3500.0;
  const double tile_bytes = 4.0 * plan.rows * plan.columns;
  const double slices_ns = plan.slices > 1 ? 150 + tile_bytes * plan.slices / 100 / kGhz : 0;
  const double split_ns = plan.split > 1 ? waves * (800 + tile_bytes / 11 / kGhz) : 0;
  const double share_ns = plan.share_a * plan.share_b > 1 ? 300 : 0;
  const double edges_ns = plan.edges == Edges::kAny       ? 0.3 * work_ns
                          : plan.edges == Edges::kVectors ? 0.03 * work_ns
                                                          : 0;
  const double overlap = plan.persistent ? 0.5 : 1;
  return latency_ns + work_ns + edges_ns + slices_ns + split_ns + share_ns + store_ns * overlap;
}

}  // namespace lathe::gemm

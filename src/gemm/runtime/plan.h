#pragma once

#include <compare>
#include <cstdint>
#include <string>

// Which kernel computes which product, and how it is launched. Without dependencies, like the whole
// folder: it is also the source of the exported library.

namespace lathe::gemm {

/// How A and B lie in memory; see lathe_gemm.h.
enum class Layout : std::uint8_t { kNN, kTN, kNT, kTT };
inline bool a_along_k(Layout layout) { return layout == Layout::kNN || layout == Layout::kTN; }
inline bool b_along_k(Layout layout) { return layout == Layout::kTN || layout == Layout::kTT; }
const char* name_of(Layout layout);
/// "nn", "tn", "nt" or "tt". False where it is none.
bool layout_of(const std::string& name, Layout& layout);

/// What is tuned and looked up apart: the operands' layout, and whether sums in fp16 will do.
struct Track {
  Layout layout = Layout::kTN;
  bool half_sums = false;

  friend auto operator<=>(const Track&, const Track&) = default;
};
/// "tn_fp32", "nt_fp16", ...
std::string name_of(const Track& track);

/// The skeletons of device/lathe/cuda: gemm_direct.cuh, gemm_mma.cuh, gemm_wgmma.cuh.
enum class Skeleton : std::uint8_t { kDirect, kMma, kWgmma };

/// What a kernel may rely on, as GemmEdges of gemm_mma.cuh.
enum class Edges : std::uint8_t { kWhole, kVectors, kAny };

/// A skeleton and its knobs. A knob that a skeleton lacks is 1 (steps: 0).
struct Plan {
  Skeleton skeleton = Skeleton::kMma;
  Layout layout = Layout::kTN;
  Edges edges = Edges::kVectors;
  bool persistent = false;   ///< wgmma
  bool plain_store = false;  ///< wgmma: without TMA
  bool in_turn = false;      ///< wgmma: two warpgroups take tiles alternately
  bool gathers = false;      ///< wgmma: blocks that share K add through a workspace, and are no cluster
  bool transposed = false;   ///< wgmma: computes the transpose of C: a tile's rows lie along N
  bool half_sums = false;    ///< wgmma: the tensor cores sum in fp16
  std::uint16_t rows = 64;   ///< of a block's tile
  std::uint16_t columns = 64;
  std::uint16_t depth = 64;  ///< terms of a step
  std::uint8_t stages = 3;   ///< of the ring; direct: steps loaded ahead
  std::uint8_t down = 1;     ///< warps, or warpgroups, over the tile's rows
  std::uint8_t across = 1;   ///< warps over its columns
  std::uint8_t slices = 1;   ///< groups of warps that share a step, direct: all of K; wgmma: chains of sums
  std::uint8_t split = 1;    ///< blocks, of a cluster unless it gathers, that share K
  std::uint8_t share_b = 1;  ///< blocks of a cluster, one above the other, that share their loads of B
  std::uint8_t share_a = 1;  ///< blocks of a cluster, side by side, that share their loads of A
  std::uint8_t band = 1;     ///< wgmma: rows of clusters that are taken together; 0: the grid is the tiles
  std::uint8_t blocks = 1;   ///< that fit a multiprocessor, at least
  std::uint32_t steps = 0;   ///< of a block (direct: of a warp), compiled in; 0: any

  friend bool operator==(const Plan&, const Plan&) = default;
};

/// All knobs in one word: "mma_tn_64x64x64_w2x2_g1_s4_c8_k4_whole".
std::string name_of(const Plan& plan);
/// The plan of such a name. False where it is none.
bool plan_of(const std::string& name, Plan& plan);

int threads_of(const Plan& plan);
int shared_bytes_of(const Plan& plan);
inline int cluster_of(const Plan& p) { return (p.gathers ? 1 : p.split) * p.share_b * p.share_a; }
/// wgmma: rows of a warpgroup, in 64s.
inline int tall_of(const Plan& p) { return p.rows / 64 / (p.in_turn ? 1 : p.down); }
/// wgmma: columns that are stored at once.
inline int stored_columns_of(const Plan& p) { return p.columns % 64 == 0 ? 64 : 32; }
/// wgmma: whether operands that are contiguous along K are mapped with K in 64s, as a third axis.
inline bool maps_k_in_64s(const Plan& p) { return p.depth > 64; }

/// wgmma: C goes through a tensor map, which wants its rows aligned.
inline bool maps_c(const Plan& p) { return p.split == 1 && !p.plain_store; }

/// What kernels that gather need besides: zero before the first product, and zero again after each.
inline constexpr std::int64_t kCounterBytes = 4096 * 8, kWorkspaceBytes = std::int64_t{32} << 20;

/// A product as far as kernels are chosen by it.
struct Problem {
  Layout layout = Layout::kTN;
  std::int64_t m = 0, n = 0, k = 0;
  bool aligned = true;     ///< A and B and their rows, to 16 bytes
  bool aligned_c = true;   ///< C and its rows, to 16 bytes
  bool workspace = true;   ///< there is one of kWorkspaceBytes
  bool half_sums = false;  ///< sums in fp16 will do

  friend bool operator==(const Problem&, const Problem&) = default;
};

/// Whether the kernel computes this product; that the device has its instructions is not asked.
bool serves(const Plan& plan, const Problem& problem);

/// What a product of a kernel that gathers needs of a workspace.
std::int64_t workspace_bytes_of(const Plan& plan, const Problem& problem);

struct Grid {
  unsigned x = 1, y = 1, z = 1;
};
Grid grid_of(const Plan& plan, const Problem& problem, int sm_count);

/// A model of the kernel's time in ns on a warm L2, from the chip's clock and bandwidths. It ranks
/// plans, no more: see docs/gemm.md for its errors.
double model_ns(const Plan& plan, const Problem& problem, int sm_count);

}  // namespace lathe::gemm

#include "gemm/catalogue.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace lathe::gemm {
namespace {

constexpr int kMaxShared = 227 * 1024;

class Enumeration {
 public:
  Enumeration(const Problem& problem, int sm_count) : problem_(problem), sm_count_(sm_count) {
    if (problem.layout == Layout::kTN) add_direct();
    add_mma();
    add_wgmma();
    std::stable_sort(found_.begin(), found_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  std::vector<Plan> plans() const {
    std::vector<Plan> plans;
    for (const auto& [ns, plan] : found_) plans.push_back(plan);
    return plans;
  }

 private:
  void add(Plan plan) {
    plan.layout = problem_.layout;
    if (!serves(plan, problem_) || shared_bytes_of(plan) > kMaxShared) return;
    // Blocks far beyond what one wave holds need no help from clusters; large tiles need enough
    // work.
    const double blocks =
        static_cast<double>(problem_.m / plan.rows + 1) * static_cast<double>(problem_.n / plan.columns + 1);
    if (plan.split > 1 && blocks > sm_count_) return;
    // Sums in fp16 take no longer, and less power.
    plan.half_sums = problem_.half_sums && plan.skeleton == Skeleton::kWgmma && plan.slices == 1;
    found_.emplace_back(model_ns(plan, problem_, sm_count_), plan);
  }

  void add_direct() {
    for (const auto& [rows, columns] :
         {std::pair{16, 8}, {16, 16}, {32, 16}, {16, 32}, {32, 32}, {64, 32}, {32, 64}})
      for (const int warps : {1, 2, 4, 8, 16})
        for (const int split : {1, 2, 4, 8, 16}) {
          const std::int64_t each = 32 * warps * split;
          if (problem_.k % each != 0 || rows % split != 0) continue;
          // 16 warps of large tiles have too few registers.
          if (warps == 16 && rows * columns > 1024) continue;
          const std::int64_t steps = problem_.k / each;
          if (steps > 16 || (steps > 1 && warps < 4)) continue;
          for (const int ahead : {1, 2, 4, 8}) {
            // Fragments loaded ahead live in registers.
            if (steps % ahead != 0 || ahead * (rows + columns) / 2 > 140) continue;
            if (ahead < 4 && steps % (2 * ahead) == 0 && ahead * (rows + columns) <= 140) continue;
            Plan plan;
            plan.skeleton = Skeleton::kDirect;
            plan.rows = static_cast<std::uint16_t>(rows), plan.columns = static_cast<std::uint16_t>(columns);
            plan.depth = 32;
            plan.slices = static_cast<std::uint8_t>(warps), plan.split = static_cast<std::uint8_t>(split);
            plan.stages = static_cast<std::uint8_t>(ahead);
            plan.steps = static_cast<std::uint32_t>(steps);
            add(plan);
          }
        }
  }

  void add_mma() {
    struct Tile {
      int rows, columns, down, across;
    };
    constexpr Tile kTiles[] = {{32, 32, 2, 2},   {32, 64, 2, 2},   {64, 32, 2, 2},  {64, 64, 2, 2},
                               {128, 64, 4, 2},  {64, 128, 2, 4},  {64, 128, 2, 2}, {128, 64, 2, 2},
                               {128, 128, 2, 2}, {128, 128, 4, 2}, {64, 64, 4, 2}};
    for (const Tile& tile : kTiles)
      for (const int depth : {32, 64, 128})
        for (const int slices : {1, 2, 4})
          for (const int split : {1, 2, 4, 8, 16})
            for (const int stages : {2, 3, 4, 6, 8}) {
              Plan plan;
              plan.skeleton = Skeleton::kMma;
              plan.rows = static_cast<std::uint16_t>(tile.rows),
              plan.columns = static_cast<std::uint16_t>(tile.columns);
              plan.depth = static_cast<std::uint16_t>(depth);
              plan.down = static_cast<std::uint8_t>(tile.down),
              plan.across = static_cast<std::uint8_t>(tile.across);
              plan.slices = static_cast<std::uint8_t>(slices), plan.split = static_cast<std::uint8_t>(split);
              plan.stages = static_cast<std::uint8_t>(stages);
              if (depth / slices < 32 || threads_of(plan) > 512 || tile.rows % split != 0) continue;
              const std::int64_t steps = problem_.k / (std::int64_t{depth} * split);
              // A ring deeper than the steps is of no use.
              if (stages > std::max<std::int64_t>(2, steps)) continue;
              plan.edges = Edges::kWhole;
              if (!serves(plan, problem_)) {
                plan.edges = Edges::kVectors;
                add(plan);
                continue;
              }
              if (steps <= 8) plan.steps = static_cast<std::uint32_t>(steps);
              add(plan);
            }
  }

  struct WgmmaTile {
    int consumers, rows, columns;
    bool in_turn;
  };

  void add_wgmma() {
    constexpr WgmmaTile kTiles[] = {
        {1, 64, 32, false},   {1, 64, 64, false},   {1, 64, 96, false},   {1, 64, 128, false},
        {1, 64, 160, false},  {1, 64, 192, false},  {1, 64, 256, false},  {1, 128, 64, false},
        {2, 128, 32, false},  {2, 128, 64, false},  {2, 128, 96, false},  {2, 128, 128, false},
        {2, 128, 160, false}, {2, 128, 192, false}, {2, 128, 256, false}, {2, 256, 64, false},
        {2, 256, 128, false}, {2, 256, 96, false},  {2, 128, 128, true},  {2, 128, 160, true},
        {2, 128, 192, true},  {2, 192, 128, true},  {2, 128, 96, true},   {2, 64, 256, true},
        {2, 64, 192, true},   {2, 64, 128, true}};
    // More sums than registers in fp32.
    if (problem_.half_sums)
      for (const int stages : {2, 3}) add_wgmma(WgmmaTile{2, 256, 256, false}, 64, stages);
    for (const WgmmaTile& tile : kTiles)
      for (const int depth : {64, 128}) {
        // Long steps are for products that few instructions make.
        if (depth > 64 && (tile.in_turn || tile.rows * tile.columns > 128 * 128)) continue;
        for (const int stages : {2, 3, 4, 5, 6, 7, 8, 10, 12}) {
          if (stages < (depth > 64 ? 2 : 3)) continue;
          add_wgmma(tile, depth, stages);
        }
      }
  }

  void add_wgmma(const WgmmaTile& tile, int depth, int stages) {
    Plan plan;
    plan.skeleton = Skeleton::kWgmma;
    plan.edges = Edges::kVectors;
    plan.rows = static_cast<std::uint16_t>(tile.rows);
    plan.columns = static_cast<std::uint16_t>(tile.columns);
    plan.depth = static_cast<std::uint16_t>(depth);
    plan.down = static_cast<std::uint8_t>(tile.consumers);
    plan.stages = static_cast<std::uint8_t>(stages);
    plan.in_turn = tile.in_turn, plan.persistent = tile.in_turn;
    for (const bool transposed : {false, true}) {
      // Else the other orientation has the same tiles.
      if (transposed && (problem_.m == problem_.n || tile.rows == tile.columns)) continue;
      plan.transposed = transposed;
      for (const auto& [share_a, share_b] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {1, 4}})
        for (const int split : {1, 2, 4, 8, 16}) add_wgmma(plan, split, share_a, share_b, false);
      for (const auto& [share_a, share_b] : {std::pair{1, 1}, {2, 1}, {1, 2}})
        for (const int split : {2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24, 32})
          add_wgmma(plan, split, share_a, share_b, true);
    }
  }

  void add_wgmma(Plan plan, int split, int share_a, int share_b, bool gathers) {
    if (!gathers && split * share_a * share_b > 16) return;
    if (plan.in_turn && split > 1) return;
    // Units of 128 sums, of which blocks of a cluster own as many each; those that gather transpose
    // them in pairs of lanes.
    if ((!gathers || plan.transposed) && plan.rows * plan.columns / 128 % split != 0) return;
    const std::int64_t steps = problem_.k / plan.depth / split;
    if (plan.stages > std::max<std::int64_t>(plan.depth > 64 ? 2 : 3, plan.in_turn ? 2 * steps : steps))
      return;
    plan.split = static_cast<std::uint8_t>(split);
    plan.share_a = static_cast<std::uint8_t>(share_a), plan.share_b = static_cast<std::uint8_t>(share_b);
    plan.gathers = gathers;
    plan.band = 8;
    if (plan.down == 1 && plan.rows * plan.columns <= 8192 &&
        2 * (shared_bytes_of(plan) + 1024) <= kMaxShared + 1024)
      plan.blocks = 2;
    add_if_sharing_pays(plan);
    if (plan.down * plan.rows * plan.columns > 64 * 64) return;
    plan.slices = 2;
    add_if_sharing_pays(plan);
  }

  /// Blocks share loads of tiles that there are, and only where the loads are long.
  void add_if_sharing_pays(Plan plan) {
    const auto cdiv = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
    const std::int64_t down = cdiv(plan.transposed ? problem_.n : problem_.m, plan.rows);
    const std::int64_t across = cdiv(plan.transposed ? problem_.m : problem_.n, plan.columns);
    if (down % plan.share_b != 0 || across % plan.share_a != 0) return;
    const int share = plan.share_a * plan.share_b;
    if (share > 1 && problem_.k < 512) return;
    const bool a = a_along_k(problem_.layout), b = b_along_k(problem_.layout);
    const bool rows_along_k = plan.transposed ? b : a, columns_along_k = plan.transposed ? a : b;
    if (!columns_along_k && (plan.columns % 64 != 0 || plan.columns / 64 % plan.share_b != 0)) return;
    if (!rows_along_k && plan.rows / 64 % plan.share_a != 0) return;
    const std::int64_t tiles = down * across;
    if (plan.gathers && tiles * plan.split > 2 * sm_count_) return;
    if (plan.in_turn && tiles <= sm_count_) return;
    const bool is_large = tiles > 8 * sm_count_;
    if (!plan.in_turn) {
      // So few need no order in which they share the L2.
      if (tiles * plan.split <= 2 * sm_count_) plan.band = 0;
      add(plan);
      if (plan.split > 1) return;
      if (plan.down == 1 && !plan.transposed && share == 1 && tiles <= sm_count_) {
        Plan plain = plan;
        plain.plain_store = true;
        add(plain);
      }
      if (plan.down == 1 || plan.columns * plan.rows < 128 * 128 || plan.depth > 64 || tiles <= sm_count_)
        return;
    }
    plan.persistent = true;
    for (const int band : {4, 8, 16}) {
      plan.band = static_cast<std::uint8_t>(band);
      if (band == 8 || is_large) add(plan);
    }
  }

  const Problem& problem_;
  int sm_count_;
  std::vector<std::pair<double, Plan>> found_;
};

}  // namespace

std::vector<Plan> ranked_plans(const Problem& problem, int sm_count) {
  return Enumeration(problem, sm_count).plans();
}

std::vector<Plan> shortlist(const Problem& problem, int sm_count, std::size_t count) {
  std::map<std::tuple<Skeleton, int, int, int, int, int, int, bool, bool, bool, bool>, std::size_t> of_a_kind;
  // Of a skeleton and a way to share K: none may fill the list.
  std::map<std::tuple<Skeleton, bool, bool>, std::size_t> of_a_way;
  std::vector<Plan> chosen;
  const std::vector<Plan> ranked = ranked_plans(problem, sm_count);
  if (ranked.empty()) return chosen;
  // So wrong is the model of what fits the size at all.
  const double far_ns = 1.6 * model_ns(ranked.front(), problem, sm_count);
  std::vector<bool> taken(ranked.size());
  // More of a kind where there are few kinds.
  for (const std::size_t most : {std::max<std::size_t>(1, count / 30), std::max<std::size_t>(3, count / 15)})
    for (std::size_t i = 0; i < ranked.size(); ++i) {
      const Plan& plan = ranked[i];
      if (chosen.size() == count ||
          (chosen.size() >= count / 3 && model_ns(plan, problem, sm_count) > far_ns))
        break;
      auto& alike = of_a_kind[{plan.skeleton, plan.rows, plan.columns, plan.down, plan.depth, plan.split,
                               plan.share_a * plan.share_b, plan.gathers, plan.in_turn, plan.plain_store,
                               plan.transposed}];
      const bool shares_k = plan.skeleton == Skeleton::kWgmma && plan.split > 1;
      auto& same = of_a_way[{plan.skeleton, shares_k, plan.gathers}];
      if (taken[i] || alike >= most || same >= std::max<std::size_t>(1, (shares_k ? 4 : 7) * count / 10))
        continue;
      ++alike, ++same;
      taken[i] = true;
      chosen.push_back(plan);
    }
  return chosen;
}

std::vector<Plan> general_plans(Layout layout) {
  Plan small;
  small.layout = layout;
  small.rows = small.columns = 64, small.depth = 32;
  small.down = small.across = 2;
  small.stages = 4;
  small.edges = Edges::kVectors;
  Plan large = small;
  large.rows = large.columns = 128;
  large.down = 4;
  Plan any = small;
  any.edges = Edges::kAny;
  any.stages = 3;
  Plan any_large = any;
  any_large.rows = any_large.columns = 128;
  any_large.down = 4;
  Plan any_tiny = any;
  any_tiny.rows = any_tiny.columns = 32, any_tiny.depth = 64;
  return {large, small, any_large, any_tiny, any};
}

std::vector<Plan> broad_plans(Layout layout) {
  struct Knobs {
    int consumers, rows, columns, stages, blocks = 1, split = 1;
    bool persistent = false, plain_store = false;
  };
  constexpr Knobs kKnobs[] = {{2, 128, 256, 4, 1, 1, true},
                              {2, 128, 128, 6, 1, 1, true},
                              {2, 128, 128, 6},
                              {1, 64, 128, 8},
                              {1, 64, 64, 6, 2},
                              {1, 64, 64, 12},
                              {2, 128, 256, 4, 1, 1, true, true},
                              {2, 128, 128, 6, 1, 1, false, true},
                              {1, 64, 64, 12, 1, 1, false, true},
                              {2, 128, 128, 7, 1, 2},
                              {2, 128, 128, 7, 1, 4},
                              {2, 128, 128, 7, 1, 8},
                              {1, 64, 128, 8, 1, 4},
                              {1, 64, 64, 12, 1, 2},
                              {1, 64, 64, 12, 1, 4},
                              {1, 64, 64, 12, 1, 8}};
  std::vector<Plan> plans;
  for (const Knobs& knobs : kKnobs) {
    Plan plan;
    plan.skeleton = Skeleton::kWgmma;
    plan.layout = layout;
    plan.edges = Edges::kVectors;
    plan.persistent = knobs.persistent;
    plan.plain_store = knobs.plain_store;
    plan.gathers = knobs.split > 1;
    plan.rows = static_cast<std::uint16_t>(knobs.rows);
    plan.columns = static_cast<std::uint16_t>(knobs.columns);
    plan.down = static_cast<std::uint8_t>(knobs.consumers);
    plan.stages = static_cast<std::uint8_t>(knobs.stages),
    plan.split = static_cast<std::uint8_t>(knobs.split);
    plan.blocks = static_cast<std::uint8_t>(knobs.blocks);
    plan.band = 8;
    plans.push_back(plan);
  }
  Plan tiny;
  tiny.layout = layout;
  tiny.edges = Edges::kVectors;
  tiny.rows = tiny.columns = 32, tiny.depth = 64;
  tiny.down = tiny.across = 2;
  tiny.stages = 4;
  plans.push_back(tiny);
  tiny.split = 8;
  plans.push_back(tiny);
  return plans;
}

}  // namespace lathe::gemm

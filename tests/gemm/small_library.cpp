// The library's table for tests, in place of an exported one.

#include <vector>

#include "gemm/catalogue.h"
#include "gemm/runtime/library.h"

namespace lathe::gemm {

namespace {

/// Machine code that is never loaded.
constexpr unsigned char kCode[1] = {};

struct Table {
  std::vector<Image> images;
  std::vector<Entry> entries;

  Table() {
    for (const Layout layout : {Layout::kNN, Layout::kTN, Layout::kNT, Layout::kTT}) {
      for (const Plan& plan : general_plans(layout)) images.push_back({plan, kCode, kCode});
      for (const Plan& plan : broad_plans(layout)) images.push_back({plan, kCode, nullptr});
    }
    Plan tuned;
    plan_of("direct_tn_16x16x32_w1x1_g2_s1_c1_m1_n1_b1_o1_k1_vectors", tuned);
    images.push_back({tuned, kCode, nullptr});
    entries.push_back({{Layout::kTN, false}, 64, 64, 64, static_cast<std::uint32_t>(images.size() - 1)});
    plan_of("mma_tn_64x64x64_w2x2_g1_s2_c4_m1_n1_b1_o1_k0_whole", tuned);
    images.push_back({tuned, kCode, nullptr});
    entries.push_back({{Layout::kTN, false}, 64, 64, 8192, static_cast<std::uint32_t>(images.size() - 1)});
    plan_of("wgmma_tn_64x64x64_w1x1_g1_s6_c4_m1_n1_b0_o1_k0_half_vectors", tuned);
    images.push_back({tuned, kCode, nullptr});
    entries.push_back({{Layout::kTN, true}, 64, 64, 8192, static_cast<std::uint32_t>(images.size() - 1)});
  }
};
const Table& table() {
  static const Table made;
  return made;
}

}  // namespace

const Library& library() {
  static const Library made{table().images.data(), table().images.size(), table().entries.data(),
                            table().entries.size()};
  return made;
}

}  // namespace lathe::gemm

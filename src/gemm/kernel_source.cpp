#include "gemm/kernel_source.h"

#include <fmt/format.h>

namespace lathe::gemm {
namespace {

const char* text_of(Edges edges) {
  switch (edges) {
    case Edges::kWhole:
      return "GemmEdges::kWhole";
    case Edges::kVectors:
      return "GemmEdges::kVectors";
    case Edges::kAny:
      return "GemmEdges::kAny";
  }
  return "";
}

std::string skeleton_of(const Plan& p, const char* type) {
  const bool a = a_along_k(p.layout), b = b_along_k(p.layout);
  const bool rows = p.transposed ? b : a, columns = p.transposed ? a : b;
  const auto major = [](bool along_k) { return along_k ? "kAlongK" : "kAlongMN"; };
  switch (p.skeleton) {
    case Skeleton::kDirect:
      return fmt::format("DirectGemm<{}, {}, {}, {}, {}, {}, {}>", type, p.rows, p.columns, p.slices, p.split,
                         p.steps, p.stages);
    case Skeleton::kMma:
      return fmt::format("MmaGemm<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}>", type, a, b, p.rows,
                         p.columns, p.depth, p.stages, p.down, p.across, p.slices, p.split, p.steps,
                         text_of(p.edges));
    case Skeleton::kWgmma:
      return fmt::format(
          "WgmmaGemm<{}, {}, {},\n    WgmmaKnobs{{.consumers = {}, .tall = {}, .columns = {}, .depth = {}, "
          ".stages = {}, .share_a = {}, .share_b = {}, .split = {},\n    .chains = {}, .band = {}, .blocks = "
          "{}, "
          ".persistent = {}, .in_turn = {}, .gathers = {}, .plain_store = {}, .transposed = {}, .half_sums = "
          "{}}}>",
          type, major(rows), major(columns), p.down, tall_of(p), p.columns, p.depth, p.stages, p.share_a,
          p.share_b, p.split, p.slices, p.band, p.blocks, p.persistent, p.in_turn, p.gathers, p.plain_store,
          p.transposed, p.half_sums);
  }
  return {};
}

}  // namespace

std::string kernel_source(const Plan& plan, Element element) {
  constexpr const char* kHeaders[] = {"direct", "mma", "wgmma"};
  const bool maps = plan.skeleton == Skeleton::kWgmma;
  return fmt::format(
      "#include <lathe/cuda/gemm_{}.cuh>\n\n"
      "using namespace lathe;\n"
      "using Product = {};\n\n"
      "extern \"C\" __global__ void __launch_bounds__({}, {})\n"
      "    gemm(const __grid_constant__ GemmCall call{}) {{\n"
      "  Product::run(call{});\n"
      "}}\n",
      kHeaders[static_cast<int>(plan.skeleton)],
      skeleton_of(plan, element == Element::kBf16 ? "bfloat16" : "half"), threads_of(plan), int{plan.blocks},
      maps ? ", const __grid_constant__ GemmMaps maps" : "", maps ? ", maps" : "");
}

bool is_portable(const Plan& plan) { return plan.skeleton != Skeleton::kWgmma && cluster_of(plan) == 1; }

}  // namespace lathe::gemm

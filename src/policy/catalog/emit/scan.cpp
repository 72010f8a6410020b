#include "policy/catalog/emit/lines.h"
#include "policy/catalog/emit/patterns.h"

namespace lathe::catalog {
namespace {

/// Along a row: a prefix inside each vector, and the last lane carried on.
constexpr std::string_view kScanRows = R"(
f32v carry($start);
int64_t j = 0;
for (; j + kLanes <= $n; j += kLanes) {
  const f32v t = $prefix(load($x + item * $n + j));
  store($y + item * $n + j, t $join carry);
  carry = broadcast_last(t) $join carry;
}
if (j < $n) {
  const maskv lanes = first_lanes($n - j);
  store($y + item * $n + j, $prefix(load($x + item * $n + j, lanes)) $join carry, lanes);
}
)";

/// Along columns: a block of neighbouring columns an item, each lane by itself.
constexpr std::string_view kScanColumns = R"(
const int64_t outer = item / cdiv($inner, kBlock), j0 = item % cdiv($inner, kBlock) * kBlock;
f32v carry[kBlock / kLanes];
for (f32v& c : carry) c = f32v($start);
for (int64_t i = 0; i < $n; ++i) {
  #pragma $unroll 16
  for (int u = 0; u < kBlock / kLanes; ++u) {
    const int64_t j = j0 + u * kLanes;
    const maskv lanes = first_lanes($inner - j);
    const int64_t at = (outer * $n + i) * $inner + j;
    carry[u] = carry[u] $join load($x + at, lanes);
    store($y + at, carry[u], lanes);
  }
}
)";

}  // namespace

Status emit_scan(const Site& site, Program& program) {
  const Primitive& node = site.node();
  const Lines lines = lines_along(node.type.shape, node.axes[0]);
  const bool sum = node.how == "sum", rows = is_one(lines.inner);
  program.add_pattern("scan");
  program.add_work(copying_work(site));
  Holes holes = {{"x", program.parameter(node.in[0])},
                 {"y", program.parameter(node.out)},
                 {"n", factor(lines.extent)},
                 {"join", sum ? "+" : "*"},
                 {"start", sum ? "0.0f" : "1.0f"}};
  Kernel kernel{.name = site.prefix + "_scan", .items = lines.outer, .written = {program.buffer(node.out)}};
  if (rows) {
    holes.emplace_back("prefix", sum ? "prefix_sum" : "prefix_product");
  } else {
    const int block = site.target.block_floats(site.knob("unroll", {1, 2, 4, 8}, 4));
    kernel.items = kernel.items * Expr::apply("cdiv", lines.inner, Expr::constant(block));
    kernel.before = "constexpr int64_t kBlock = " + std::to_string(block) + ";\n";
    holes.emplace_back("inner", factor(lines.inner));
  }
  kernel.body = expand(rows ? kScanRows : kScanColumns, holes, program.words());
  program.launch(kernel);
  return Ok{};
}

}  // namespace lathe::catalog

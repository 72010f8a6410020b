#include <algorithm>
#include <array>

#include "policy/catalog/emit/lines.h"
#include "policy/catalog/emit/loops.h"
#include "policy/catalog/emit/patterns.h"
#include "policy/catalog/emit/terms.h"

namespace lathe::catalog {
namespace {

/// Along a row: a prefix inside each vector, and the last lane carried on.
constexpr std::string_view kScanRows = R"(
f32v carry($start);
$declare_total
$first
int64_t j = 0;
for (; j + kLanes <= $n; j += kLanes) {
  const f32v t = $prefix(load($x + item * $n + j));
  store($y + item * $n + j$shift, $joined_t$whole);
  carry = $joined_last;
  $end_part
}
if (j < $n) {
  const maskv lanes = first_lanes($n - j);
  const f32v t = $prefix(load($x + item * $n + j, lanes));
  store($y + item * $n + j$shift, $joined_t, $left);
}
)";

/// The same for y = a y + x: a vector's lanes know what becomes of any number before them.
constexpr std::string_view kLinearRows = R"(
f32v carry(0.0f);
for (int64_t j = 0; j < $n; j += kLanes) {
  const maskv lanes = first_lanes($n - j);
  f32v factor = load($a + item * $n + j, lanes), t = load($x + item * $n + j, lanes);
  prefix_linear(factor, t);
  t = fma(factor, carry, t);
  store($y + item * $n + j, t, lanes);
  carry = broadcast_last(t);
}
)";

/// Along columns: a block of neighbouring columns an item, each lane by itself.
constexpr std::string_view kScanColumns = R"(
const int64_t outer = item / cdiv($inner, kBlock), j0 = item % cdiv($inner, kBlock) * kBlock;
f32v carry[kBlock / kLanes];
for (f32v& c : carry) c = f32v($start);
$declare_total
for (int64_t i = 0; i < $n; ++i) {
  #pragma $unroll 16
  for (int u = 0; u < kBlock / kLanes; ++u) {
    const int64_t j = j0 + u * kLanes;
    const maskv lanes = first_lanes($inner - j);
    const int64_t at = (outer * $n + $i) * $inner + j;
    const f32v x = load($x + at, lanes);
    $before
    carry[u] = $joined_column;
    $after
    $end_part
  }
}
)";

constexpr std::string_view kEndRowPart = R"(
if ((j + kLanes) % ($part * kLanes) == 0) {
  total = total + carry;
  carry = f32v(0.0f);
}
)";

constexpr std::string_view kEndColumnPart = R"(
if ((i + 1) % $part == 0) {
  total[u] = total[u] + carry[u];
  carry[u] = f32v(0.0f);
}
)";

/// In the values' own type, a strip of columns an item.
constexpr std::string_view kScanExactly = R"(
const int64_t outer = item / cdiv($inner, $strip), j = item % cdiv($inner, $strip) * $strip;
const int64_t columns = min(int64_t{$strip}, $inner - j);
$type carry[$strip], total[$strip] = {};
for ($type& c : carry) c = $start;
for (int64_t i = 0; i < $n; ++i) {
  const int64_t row = (outer * $n + $i) * $inner + j;
  for (int64_t k = 0; k < columns; ++k) {
    const int64_t at = row + k;
    const $type x = $x[at];
    $before
    carry[k] = $joined;
    $after
    $end_part
  }
}
)";

constexpr std::string_view kEndExactPart = R"(
if ((i + 1) % $part == 0) {
  total[k] += carry[k];
  carry[k] = 0;
}
)";

struct Join {
  std::string_view how, prefix, start, pattern;

  std::string of(const std::string& a, const std::string& b) const {
    return expand(pattern, {{"a", a}, {"b", b}});
  }
};

constexpr std::array<Join, 5> kJoins = {{
    {"sum", "prefix_sum", "0.0f", "$a + $b"},
    {"prod", "prefix_product", "1.0f", "$a * $b"},
    {"max", "prefix_max", "-kInfinity", "max($a, $b)"},
    {"min", "prefix_min", "kInfinity", "min($a, $b)"},
    {"linear", "", "0.0f", ""},
}};

/// Kernels that know nothing of vectors: along rows there is one column.
Status emit_exact_scan(const Site& site, Program& program, const Lines& lines, const Join& join) {
  const Primitive& node = site.node();
  const std::string type = exact_type(node.type.dtype), n = factor(lines.extent);
  const std::string strip = is_one(lines.inner) ? "1" : "64";
  std::string start(join.start.substr(0, 1));
  if (join.how == "max") start = "lowest<" + type + ">()";
  if (join.how == "min") start = "highest<" + type + ">()";
  const bool in_parts =
      node.how == "sum" && node.type.dtype == DType::kF64 && most(site.graph, lines.extent) > kSerialTerms;
  const std::string store =
      program.parameter(node.out) + "[at] = " + (in_parts ? "total[k] + carry[k];" : "carry[k];");
  program.launch(
      {.name = site.prefix + "_scan",
       .items = lines.outer * Expr::apply("cdiv", lines.inner, Expr::constant(std::stoi(strip))),
       .written = {program.buffer(node.out)},
       .body = expand(
           kScanExactly,
           {{"inner", factor(lines.inner)},
            {"strip", strip},
            {"type", type},
            {"start", start},
            {"n", n},
            {"i", node.reverse ? "(" + n + " - 1 - i)" : "i"},
            {"x", program.parameter(node.in[0])},
            {"joined", join.how == "linear" ? program.parameter(node.in[1]) + "[at] * carry[k] + x"
                                            : join.of("carry[k]", "x")},
            {"before", node.exclusive ? store : ""},
            {"after", node.exclusive ? "" : store},
            {"end_part", in_parts ? expand(kEndExactPart, {{"part", std::to_string(kPartTerms)}}) : ""}})});
  return Ok{};
}

}  // namespace

Status emit_scan(const Site& site, Program& program) {
  const Primitive& node = site.node();
  const Lines lines = lines_along(node.type.shape, node.axes[0]);
  const Join& join = *std::ranges::find(kJoins, std::string_view(node.how), &Join::how);
  const bool rows = is_one(lines.inner);
  const std::string n = factor(lines.extent);
  const std::int64_t lanes = rows ? site.target.lanes : 1;
  const bool in_parts = node.how == "sum" && most(site.graph, lines.extent) > kSerialTerms * lanes;
  const Holes part = {{"part", std::to_string(kPartTerms)}};
  program.add_pattern("scan");
  program.add_work(copying_work(site));
  if (is_wide(node.type.dtype)) return emit_exact_scan(site, program, lines, join);
  if (join.how == "linear" && rows) {
    if (site.target.cuda)
      return Error{ErrorCode::kUnavailable, "the catalogue has no linear scan along rows for a GPU"};
    program.launch({.name = site.prefix + "_scan",
                    .items = lines.outer,
                    .written = {program.buffer(node.out)},
                    .body = expand(kLinearRows, {{"n", n},
                                                 {"a", program.parameter(node.in[1])},
                                                 {"x", program.parameter(node.in[0])},
                                                 {"y", program.parameter(node.out)}})});
    return Ok{};
  }
  Holes holes = {{"x", program.parameter(node.in[0])}, {"n", n}, {"start", std::string(join.start)}};
  const std::string y = program.parameter(node.out);
  Kernel kernel{.name = site.prefix + "_scan", .items = lines.outer, .written = {program.buffer(node.out)}};
  if (rows) {
    const std::string left = "first_lanes(" + n + " - 1 - j)";
    const Holes more = {
        {"prefix", std::string(join.prefix)},
        {"declare_total", in_parts ? "f32v total(0.0f);" : ""},
        {"end_part", in_parts ? expand(kEndRowPart, part) : ""},
        {"joined_t", in_parts ? "total + (" + join.of("t", "carry") + ")" : join.of("t", "carry")},
        {"joined_last", join.of("broadcast_last(t)", "carry")},
        {"y", y},
        {"first", node.exclusive ? "store(" + y + " + item * " + n + ", carry, first_lanes(1));" : ""},
        {"shift", node.exclusive ? " + 1" : ""},
        {"whole", node.exclusive ? ", " + left : ""},
        {"left", node.exclusive ? left : "lanes"}};
    holes.insert(holes.end(), more.begin(), more.end());
  } else {
    const int block = site.target.block_floats(site.knob("unroll", {1, 2, 4, 8}, 4));
    kernel.items = kernel.items * Expr::apply("cdiv", lines.inner, Expr::constant(block));
    kernel.before = "constexpr int64_t kBlock = " + std::to_string(block) + ";\n";
    const std::string result = in_parts ? "total[u] + carry[u]" : "carry[u]";
    const std::string store = "store(" + y + " + at, " + result + ", lanes);";
    const Holes more = {{"inner", factor(lines.inner)},
                        {"i", node.reverse ? "(" + n + " - 1 - i)" : "i"},
                        {"joined_column", join.how == "linear" ? "load(" + program.parameter(node.in[1]) +
                                                                     " + at, lanes) * carry[u] + x"
                                                               : join.of("carry[u]", "x")},
                        {"declare_total", in_parts ? "f32v total[kBlock / kLanes] = {};" : ""},
                        {"end_part", in_parts ? expand(kEndColumnPart, part) : ""},
                        {"before", node.exclusive ? store : ""},
                        {"after", node.exclusive ? "" : store}};
    holes.insert(holes.end(), more.begin(), more.end());
  }
  kernel.body = expand(rows ? kScanRows : kScanColumns, holes, program.words());
  program.launch(kernel);
  return Ok{};
}

}  // namespace lathe::catalog

#include <algorithm>

#include "policy/catalog/emit/cpu/tile.h"
#include "policy/catalog/emit/epilogue.h"
#include "policy/catalog/emit/patterns.h"
#include "policy/catalog/emit/product.h"
#include "policy/catalog/emit/terms.h"

namespace lathe::catalog {
namespace {

/// What an item of kBlock rows begins with: its rows, its matrix among the batch, and where A and B
/// start.
constexpr std::string_view kItem = R"(
const int64_t first = item % cdiv($m, kBlock) * kBlock, rows = min(kBlock, $m - first);
$batch
const $type* a = $a;
const $type_of_b* b = $b;
)";

/// Blocks of K from outside in: sums wait in memory between them, and the last one runs the
/// epilogue.
constexpr std::string_view kTiledProduct = R"(
$item
for (int64_t k0 = 0; k0 < $steps; k0 += kDepth) {
  const int64_t depth = min(kDepth, $steps - k0);
  $pack_a
  for (int64_t j0 = 0; j0 < $n; j0 += kW) {
    for (int64_t i = 0; i < rows; i += kR) {
      f32v acc[kR][kV];
      gemm_clear(acc);
      $tile
      if (k0 > 0) gemm_add(acc, $sums, $n, rows - i, $n - j0);
      if (k0 + depth < $steps) {
        gemm_suspend(acc, $sums, $n, rows - i, $n - j0);
        continue;
      }
      $put(acc, rows - i, $n - j0, [&](int64_t r, int64_t c, f32v x, auto lanes) __attribute__((always_inline)) {
        const int64_t row = first + i + r, j = j0 + c;
        $epilogue
      });
    }
  }
}
)";

constexpr std::string_view kPackRows = R"(
for (int64_t i = 0; i < rows; i += kR)
  pack_across<kR>(packed + i * kDepth, rows - i, depth, [&](int64_t r, int64_t k, maskv lanes) {
    return $load;
  });
)";

constexpr std::string_view kPackTransposedRows = R"(
for (int64_t i = 0; i < rows; i += kR)
  pack_side_by_side<kR>(packed + i * kDepth, rows - i, depth, [&](int64_t k, int64_t r, maskv lanes) {
    return $load;
  });
)";

constexpr std::string_view kPackedTile = R"(
$multiply($a, WholeColumns{b + j0 * $depth + k0 * kW, kW}, $count, acc);
)";

constexpr std::string_view kTileInPlace = R"(
if ($n - j0 >= kW) {
  $multiply($a, WholeColumns{b + k0 * $columns + j0, $n}, $count, acc);
} else {
  $multiply($a, MaskedColumns<kV>(b + k0 * $columns + j0, $n, $n - j0), $count, acc);
}
)";

constexpr std::string_view kPairedTileInPlace = R"(
if ($n - j0 >= kW) {
  $multiply($a, PairedColumns{b + 2 * k0 * $columns + j0, $n}, $count, acc);
} else {
  $multiply($a, MaskedPairedColumns<kV>(b + 2 * k0 * $columns + j0, $n, $n - j0), $count, acc);
}
)";

/// B in panels of kW columns, each panel [K][kW].
constexpr std::string_view kPack = R"(
const int64_t first = item % cdiv($n, kW) * kW;
$batch
const $type* b = $b;
$pack
)";

constexpr std::string_view kPackColumns = R"(
pack_side_by_side<kW>($packed + item * kW * $depth, $n - first, $steps, [&](int64_t k, int64_t j, maskv lanes) {
  return $load;
});
)";

constexpr std::string_view kPackTransposedColumns = R"(
pack_across<kW>($packed + item * kW * $depth, $n - first, $steps, [&](int64_t j, int64_t k, maskv lanes) {
  return $load;
});
)";

/// Where columns are few, lanes run along K, and the epilogue gets its columns through the stack.
constexpr std::string_view kFewColumns = R"(
$item
for (int64_t i = 0; i < rows; i += 4) {
  f32v acc[4][1];
  dot_tile<4, $few>(a + (first + i) * $depth, b, $depth, rows - i, $n, acc);
  gemm_put(acc, rows - i, $n, [&](int64_t r, int64_t c, f32v x, auto lanes) __attribute__((always_inline)) {
    const int64_t row = first + i + r, j = c;
    $epilogue
  });
}
)";

/// What packing reads of A's rows and B's columns, and of either where it is transposed.
struct Loads {
  std::string_view rows, transposed_rows, columns, transposed_columns;
};

constexpr Loads kNumbers = {
    "load(a + (first + i + r) * $depth + k0 + k, lanes)", "load(a + (k0 + k) * $rows + first + i + r, lanes)",
    "load(b + k * $columns + first + j, lanes)", "load(b + (first + j) * $depth + k, lanes)"};

constexpr Loads kPairs = {
    "pairs_along(a + (first + i + r) * $depth + 2 * (k0 + k), $k - 2 * (k0 + k))",
    "pairs_across(a + 2 * (k0 + k) * $rows + first + i + r, $rows, $k - 2 * (k0 + k), lanes)",
    "pairs_across(b + 2 * k * $columns + first + j, $columns, $k - 2 * k, lanes)",
    "pairs_along(b + (first + j) * $depth + 2 * k, $k - 2 * k)"};

/// A product whose tiles take a number of K at a time, or two neighbours of bf16.
struct TiledProduct : MatrixProduct {
  bool pairs = false;
  Expr steps;  ///< along K

  const char* type() const { return pairs ? "bfloat16" : "float"; }
  const Loads& loads() const { return pairs ? kPairs : kNumbers; }
  /// What the loads name, and `steps`.
  Holes sizes() const {
    return {{"depth", factor(depth)},
            {"rows", factor(rows)},
            {"columns", factor(columns)},
            {"k", pairs ? factor(depth) : depth.to_string()},
            {"steps", steps.to_string()}};
  }
  std::string steps_factor() const { return pairs ? steps.to_string() : factor(steps); }
};

TiledProduct tiled_product(const Site& site) {
  TiledProduct of{matrix_product(site)};
  of.pairs = site.graph.type_of(of.b.value).dtype == DType::kBF16;
  of.steps = of.pairs ? Expr::apply("cdiv", of.depth, Expr::constant(2)) : of.depth;
  return of;
}

/// How a product is computed. Rows and columns below the thresholds have kernels of their own.
struct ProductPlan {
  Tile tile;
  bool pack_a = true, pack_b = true;  ///< else read in place
  int depth = 256;                    ///< steps of a block of K
  int tiles = 8;                      ///< of rows, in an item
  int few_rows = 0, few_columns = 0;
  bool loops_epilogue = false;  ///< vector by vector, not unrolled
};

/// Where rows are few, B is read once, and packing it would cost more than the product.
ProductPlan for_few_rows(const Site& site, ProductPlan plan) {
  plan.pack_b = false;
  plan.tile = {site.target.lanes >= 16 ? 6 : 2, 4};
  plan.tiles = 3;
  return plan;
}

/// Up to how many columns are dot products; 0: no shape has so few, or they do not lie along K.
int choose_few_columns(const Site& site, const TiledProduct& of) {
  const std::vector<int> choices = of.b.transposed ? std::vector<int>{0, 1, 4} : std::vector<int>{0, 1};
  if (of.a.transposed || least(site.graph, of.columns) > choices.back()) return 0;
  return site.knob("few_columns", choices, choices.back());
}

ProductPlan choose_product(const Site& site, const TiledProduct& of) {
  const double m = static_cast<double>(site.headline(of.rows)),
               n = static_cast<double>(site.headline(of.columns)),
               k = static_cast<double>(site.headline(of.depth));
  ProductPlan plan;
  plan.tile = choose_tile(site, m, n);
  const bool read_in_place = m <= 64 || (k * n <= 32 * 1024 && !of.pairs);
  plan.pack_b = of.b.transposed || site.knob("pack_b", {0, 1}, read_in_place ? 0 : 1) == 1;
  plan.pack_a = of.a.transposed || site.knob("pack_a", {0, 1}, n <= 256 || of.pairs ? 0 : 1) == 1;
  plan.depth = site.knob("kc", {128, 192, 256, 384, 512}, of.pairs ? 512 : 256);
  plan.tiles = site.knob("mc", {1, 2, 4, 8, 12, 16}, 8);
  while (plan.tiles > 1 && plan.tiles * plan.tile.rows * plan.depth > 128 * 1024) --plan.tiles;
  const std::vector<int> thresholds = m <= 64 ? std::vector<int>{0, 16} : std::vector<int>{0, 16, 64};
  if (!of.b.transposed && m > 16) plan.few_rows = site.knob("few_rows", thresholds, thresholds.back());
  plan.few_columns = choose_few_columns(site, of);
  const Terms terms = collect_terms(site.graph, site.group, of.loops, site.node().out);
  plan.loops_epilogue = std::ranges::any_of(terms.list, &Term::heavy) ||
                        site.knob("loop_epilogue", {0, 1}, site.group.nodes.size() > 2 ? 1 : 0) == 1;
  return plan;
}

Work work_of(const Site& site, const TiledProduct& of, const ProductPlan& plan) {
  const double m = static_cast<double>(site.headline(of.rows)),
               n = static_cast<double>(site.headline(of.columns)),
               k = static_cast<double>(site.headline(of.depth)), batch = site.count(of.batch_extents());
  const double reads_of_b = plan.pack_b ? 3 : std::max(1.0, m / (plan.tiles * plan.tile.rows));
  const double width = of.pairs ? 2 : 4, steps = of.pairs ? k / 2 : k;
  return {.bytes = batch * (width * (m * k + n * k * reads_of_b) + 4 * m * n),
          .flops = 2 * batch * steps * tile_cost(plan.tile, site.target.lanes, m, n) * site.target.lanes};
}

/// Two conditions of a plan, either of which may be empty.
std::string both(const std::string& one, const std::string& other) {
  if (one.empty() || other.empty()) return one + other;
  return "(" + one + ") * (" + other + ")";
}

/// The loops of the batch that B runs along: one panel for each of their indices.
struct Panels {
  std::vector<Loop> loops;
  std::vector<std::string> names;
  std::string packed = {};  ///< scratch

  Expr count() const {
    Expr total = Expr::constant(1);
    for (const Loop& loop : loops) total = total * loop.extent;
    return total;
  }
  /// The number of an item's matrix among them: "ix0 * heads + ix1".
  std::string number() const {
    std::string text;
    Expr inner = Expr::constant(1);
    for (std::size_t l = loops.size(); l-- > 0;) {
      text = times(names[l], inner) + (text.empty() ? "" : " + " + text);
      inner = inner * loops[l].extent;
    }
    return text;
  }
};

Panels panels_of(const MatrixProduct& of) {
  Panels panels;
  for (std::size_t l = 0; l < of.batch_loops.size(); ++l) {
    if (element(of.b.shape, of.b.place, {of.batch_loops[l]}, {"x"}) == "0") continue;
    panels.loops.push_back(of.batch_loops[l]);
    panels.names.push_back(of.batch_names[l]);
  }
  return panels;
}

struct MatrixB {
  const char* type;
  std::string text;
};

std::string item_text(Program& program, const TiledProduct& of, const MatrixB& b) {
  const std::string m = of.rows.to_string();
  const std::string batch = "const int64_t outer = item / cdiv(" + m + ", kBlock);\n";
  return expand(
      kItem,
      {{"type", of.type()},
       {"m", m},
       {"batch", of.batch_loops.empty() ? "" : batch + unflatten("outer", of.batch_loops, of.batch_names)},
       {"a", program.parameter(of.a.value) + " + " + of.base(of.a)},
       {"type_of_b", b.type},
       {"b", b.text}});
}

MatrixB b_in_place(Program& program, const TiledProduct& of) {
  return {of.type(), program.parameter(of.b.value) + " + " + of.base(of.b)};
}

void launch_pack(const Site& site, Program& program, const TiledProduct& of, const Tile& tile, Panels& panels,
                 const std::string& when) {
  const int width = tile.columns(site.target.lanes);
  const Expr items = panels.count() * Expr::apply("cdiv", of.columns, Expr::constant(width));
  panels.packed = program.scratch(site.prefix + "_panels", items * Expr::constant(width) * of.steps);
  const std::string n = of.columns.to_string();
  const Holes sizes = of.sizes();
  const std::string load =
      expand(of.b.transposed ? of.loads().transposed_columns : of.loads().columns, {}, sizes);
  const std::string pack = expand(
      of.b.transposed ? kPackTransposedColumns : kPackColumns,
      {{"packed", "p_" + panels.packed}, {"depth", of.steps_factor()}, {"n", n}, {"load", load}}, sizes);
  const std::string batch = "const int64_t outer = item / cdiv(" + n + ", kW);\n";
  program.launch(
      {.name = site.prefix + "_pack",
       .items = items,
       .written = {panels.packed},
       .body = expand(
           kPack,
           {{"type", of.type()},
            {"n", n},
            {"batch", panels.loops.empty() ? "" : batch + unflatten("outer", panels.loops, panels.names)},
            {"b", program.parameter(of.b.value) + " + " +
                      element(of.b.shape, of.b.place, panels.loops, panels.names)},
            {"pack", pack}}),
       .before = tile_constants(tile, site.target.lanes),
       .when = when});
}

/// Where sums wait between blocks of K: in an output that this kernel overwrites at last, or in
/// scratch, which is made on first use.
std::string partial_sums(const Site& site, Program& program, std::string& scratch) {
  for (auto index = site.group.nodes.rbegin(); index != site.group.nodes.rend(); ++index) {
    const Primitive& node = site.graph.nodes[static_cast<std::size_t>(*index)];
    const bool stored = is_needed_outside(site.graph, site.group, node) && node.type.dtype == DType::kF32;
    if (stored && !site.graph.is_input(program.buffer(node.out))) return program.buffer(node.out);
  }
  if (scratch.empty()) scratch = program.scratch(site.prefix + "_sums", product(site.node().type.shape));
  return scratch;
}

MatrixB b_in_panels(const TiledProduct& of, const Panels& panels) {
  if (panels.loops.empty()) return {"float", "p_" + panels.packed};
  const std::string text =
      expand("$packed + ($number) * cdiv($n, kW) * kW * $depth", {{"packed", "p_" + panels.packed},
                                                                  {"number", panels.number()},
                                                                  {"n", of.columns.to_string()},
                                                                  {"depth", of.steps_factor()}});
  return {"float", text};
}

std::string tile_text(const TiledProduct& of, const ProductPlan& plan) {
  const std::string depth = factor(of.depth);
  const std::string_view in_place =
      of.pairs ? "PairedRowsInPlace<kR>(a + (first + i) * $depth + 2 * k0, $depth, rows - i)"
               : "RowsInPlace<kR>(a + (first + i) * $depth + k0, $depth, rows - i)";
  const std::string a =
      plan.pack_a ? "PackedRows{packed + i * kDepth, kR}" : expand(in_place, {{"depth", depth}});
  const bool packed = plan.pack_a && plan.pack_b;
  const std::string left = packed ? "2 * depth" : expand("$k - 2 * k0", {{"k", depth}});
  const Holes names = {{"a", a},
                       {"multiply", of.pairs ? "gemm_pairs" : "gemm_tile"},
                       {"count", of.pairs ? "depth, " + left : "depth"}};
  if (plan.pack_b) return expand(kPackedTile, {{"depth", of.steps_factor()}}, names);
  return expand(of.pairs ? kPairedTileInPlace : kTileInPlace,
                {{"n", of.columns.to_string()}, {"columns", factor(of.columns)}}, names);
}

/// A product kernel's name behind the group's, and when it runs.
struct Variant {
  std::string name, when;
};

void launch_product(const Site& site, Program& program, const TiledProduct& of, const ProductPlan& plan,
                    const Panels& panels, std::string& sums_scratch, const Variant& variant) {
  const Primitive& node = site.node();
  const Epilogue epilogue = emit_epilogue(site, program, of.loops, of.element_indices(), node.out, "x");
  std::vector<std::string> corner = of.batch_names;
  corner.insert(corner.end(), {"(first + i)", "j0"});
  const std::string sums = partial_sums(site, program, sums_scratch);
  std::set<std::string> written = epilogue.written;
  written.insert(sums);
  const Holes sizes = of.sizes();
  const std::string load = expand(of.a.transposed ? of.loads().transposed_rows : of.loads().rows, {}, sizes);
  const std::string pack_a =
      plan.pack_a ? expand(of.a.transposed ? kPackTransposedRows : kPackRows, {{"load", load}}) : "";
  const std::string before =
      expand(R"(
$tile
constexpr int64_t kDepth = $depth, kBlock = kR * $tiles;
$packed
)",
             {{"tile", tile_constants(plan.tile, site.target.lanes)},
              {"depth", std::to_string(plan.depth)},
              {"tiles", std::to_string(plan.tiles)},
              {"packed", plan.pack_a ? "alignas(64) float packed[kBlock * kDepth];" : ""}});
  const Expr block = Expr::constant(std::int64_t{plan.tile.rows} * plan.tiles);
  program.launch(
      {.name = site.prefix + variant.name,
       .items = product(of.batch_extents()) * Expr::apply("cdiv", of.rows, block),
       .written = written,
       .body = expand(
           kTiledProduct,
           {{"item", item_text(program, of, plan.pack_b ? b_in_panels(of, panels) : b_in_place(program, of))},
            {"n", of.columns.to_string()},
            {"pack_a", pack_a},
            {"sums", "p_" + sums + " + (" +
                         element(node.type.shape, site.group.places.at(node.out), of.loops, corner) + ")"},
            {"tile", tile_text(of, plan)},
            {"put", plan.loops_epilogue ? "gemm_put_looped" : "gemm_put"},
            {"epilogue", epilogue.code}},
           sizes),
       .before = before,
       .when = variant.when});
}

void launch_few_columns(const Site& site, Program& program, const TiledProduct& of, int few,
                        const std::string& when) {
  const Epilogue epilogue =
      emit_epilogue(site, program, of.loops, of.element_indices(), site.node().out, "x");
  program.launch({.name = site.prefix + "_few_columns",
                  .items = product(of.batch_extents()) * Expr::apply("cdiv", of.rows, Expr::constant(64)),
                  .written = epilogue.written,
                  .body = expand(kFewColumns, {{"item", item_text(program, of, b_in_place(program, of))},
                                               {"few", std::to_string(few)},
                                               {"depth", factor(of.depth)},
                                               {"n", of.columns.to_string()},
                                               {"epilogue", epilogue.code}}),
                  .before = "constexpr int64_t kBlock = 64;\n",
                  .when = when});
}

}  // namespace

Status emit_cpu_contraction(const Site& site, Program& program) {
  if (is_wide(site.node().type.dtype)) return emit_exact_contraction(site, program);
  const TiledProduct of = tiled_product(site);
  const ProductPlan plan = choose_product(site, of);
  const std::string rows = "(" + to_task(site.graph, of.rows).to_string() + ")";
  const std::string columns = "(" + to_task(site.graph, of.columns).to_string() + ")";
  const std::string few_rows = std::to_string(plan.few_rows), few_columns = std::to_string(plan.few_columns);
  const std::string many_columns = plan.few_columns > 0 ? columns + " > " + few_columns : "";
  const std::string usual = both(many_columns, plan.few_rows > 0 ? rows + " > " + few_rows : "");
  Panels panels = panels_of(of);
  std::string sums;
  if (plan.pack_b) launch_pack(site, program, of, plan.tile, panels, usual);
  launch_product(site, program, of, plan, panels, sums, {"_product", usual});
  if (plan.few_rows > 0)
    launch_product(site, program, of, for_few_rows(site, plan), panels, sums,
                   {"_few_rows", both(many_columns, rows + " <= " + few_rows)});
  if (plan.few_columns > 0)
    launch_few_columns(site, program, of, plan.few_columns, columns + " <= " + few_columns);
  program.add_pattern("contraction");
  program.add_work(work_of(site, of, plan.few_rows > 0 ? for_few_rows(site, plan) : plan));
  return Ok{};
}

}  // namespace lathe::catalog

#include <algorithm>

#include "policy/catalog/emit/cpu/tile.h"
#include "policy/catalog/emit/product.h"

namespace lathe::catalog {
namespace {

class Contraction {
 public:
  explicit Contraction(const Site& site)
      : site_(site), node_(site.node(0)), group_(site.group), of_(matrix_product(site)) {}

  Status run() {
    Program& program = site_.program;
    const double m = static_cast<double>(headline(program.graph(), of_.rows)),
                 n = static_cast<double>(headline(program.graph(), of_.columns));
    const double k = static_cast<double>(headline(program.graph(), of_.depth));
    tile_ = choose_tile(site_, m, n);
    const bool read_in_place = m <= 64 || k * n <= 32 * 1024;
    pack_b_ = of_.b.transposed || site_.knob("pack_b", {0, 1}, read_in_place ? 0 : 1) == 1;
    pack_a_ = of_.a.transposed || site_.knob("pack_a", {0, 1}, n <= 256 ? 0 : 1) == 1;
    step_ = site_.knob("kc", {128, 192, 256, 384, 512}, 256);
    tiles_ = site_.knob("mc", {1, 2, 4, 8, 12, 16}, 8);
    while (tiles_ > 1 && tiles_ * tile_.rows * step_ > 128 * 1024) --tiles_;
    const std::string rows = "(" + to_task(site_.graph(), of_.rows).to_string() + ")";
    const std::vector<int> thresholds = m <= 64 ? std::vector<int>{0, 16} : std::vector<int>{0, 16, 64};
    const int few = of_.b.transposed || m <= 16 ? 0 : site_.knob("few_rows", thresholds, thresholds.back());
    const std::string columns = "(" + to_task(site_.graph(), of_.columns).to_string() + ")";
    const int few_columns = choose_few_columns();
    const std::string many_columns = few_columns > 0 ? columns + " > " + std::to_string(few_columns) : "";
    when_ = both(many_columns, few > 0 ? rows + " > " + std::to_string(few) : "");
    if (pack_b_) emit_pack();
    emit_product("_product");
    if (few > 0) emit_few_rows(both(many_columns, rows + " <= " + std::to_string(few)));
    if (few_columns > 0) emit_few_columns(few_columns, columns + " <= " + std::to_string(few_columns));
    program.add_pattern("contraction");
    const double batch = headline_count(program.graph(), of_.batch_extents());
    Work work;
    work.flops = 2 * batch * k * tile_cost(tile_, program.lanes(), m, n) * program.lanes();
    work.bytes =
        4 * batch * (m * k + n * k * (pack_b_ ? 3 : std::max(1.0, m / (tiles_ * tile_.rows))) + m * n);
    program.add_work(work);
    return Ok{};
  }

 private:
  /// Where rows are few, B is read once and packing it would cost more than the product.
  void emit_few_rows(const std::string& when) {
    when_ = when;
    pack_b_ = false;
    tile_ = {site_.program.lanes() >= 16 ? 6 : 2, 4};
    tiles_ = 3;
    emit_product("_few_rows");
  }

  /// Two conditions of a plan, either of which may be empty.
  static std::string both(const std::string& one, const std::string& other) {
    if (one.empty() || other.empty()) return one + other;
    return "(" + one + ") * (" + other + ")";
  }

  /// What an item of kBlock rows begins with: its rows, its matrix among the batch, and where A starts.
  std::string item_text() const {
    const std::string m = of_.rows.to_string();
    std::string code = "const int64_t first = item % cdiv(" + m + ", kBlock) * kBlock, rows = min(kBlock, " +
                       m + " - first);\n";
    if (!of_.batch_loops.empty())
      code += "const int64_t outer = item / cdiv(" + m + ", kBlock);\n" +
              unflatten("outer", of_.batch_loops, of_.batch_names);
    return code + "const float* a = " + site_.program.parameter(of_.a.value) + " + " + of_.base(of_.a) +
           ";\n";
  }

  /// Up to how many columns are dot products; 0: no shape has so few, or they do not lie along K.
  int choose_few_columns() const {
    const std::vector<int> choices = of_.b.transposed ? std::vector<int>{0, 1, 4} : std::vector<int>{0, 1};
    if (of_.a.transposed || least(site_.program.graph(), of_.columns) > choices.back()) return 0;
    return site_.knob("few_columns", choices, choices.back());
  }

  /// Where columns are few, lanes run along K, and the epilogue gets its columns through the stack.
  void emit_few_columns(int few, const std::string& when) {
    Program& program = site_.program;
    const Epilogue epilogue =
        emit_epilogue(program, group_, of_.loops, of_.element_indices(), node_.out, "x");
    const std::string n = of_.columns.to_string(), k = factor(of_.depth);
    std::string code = "constexpr int64_t kBlock = 64;\nfor (int64_t item = begin; item < end; ++item) {\n";
    code += item_text();
    code += "const float* b = " + program.parameter(of_.b.value) + " + " + of_.base(of_.b) + ";\n";
    code += "for (int64_t i = 0; i < rows; i += 4) {\nf32v acc[4][1];\ndot_tile<4, " + std::to_string(few) +
            ">(a + (first + i) * " + k + ", b, " + k + ", rows - i, " + n + ", acc);\n";
    code += "gemm_put(acc, rows - i, " + n +
            ", [&](int64_t r, int64_t c, f32v x, auto lanes) __attribute__((always_inline)) {\n"
            "const int64_t row = first + i + r, j = c;\n" +
            epilogue.code + "});\n}\n}\n";
    program.launch(site_.prefix + "_few_columns",
                   product(of_.batch_extents()) * Expr::apply("cdiv", of_.rows, Expr::constant(64)),
                   epilogue.written, code, when);
  }

  /// B in panels of kW columns, each panel [K][kW].
  void emit_pack() {
    Program& program = site_.program;
    const int width = tile_.columns(program.lanes());
    std::vector<Loop> loops;
    std::vector<std::string> names;
    std::vector<Expr> extents;
    for (std::size_t l = 0; l < of_.batch_loops.size(); ++l) {
      if (element(of_.b.shape, of_.b.place, {of_.batch_loops[l]}, {"x"}) == "0") continue;
      loops.push_back(of_.batch_loops[l]);
      names.push_back(of_.batch_names[l]);
      extents.push_back(of_.batch_loops[l].extent);
    }
    panel_loops_ = loops;
    panel_names_ = names;
    const Expr panels = Expr::apply("cdiv", of_.columns, Expr::constant(width));
    const Expr items = product(extents) * panels;
    packed_ = program.scratch(site_.prefix + "_panels", items * Expr::constant(width) * of_.depth);
    const std::string n = of_.columns.to_string(), k = of_.depth.to_string();
    std::string code = tile_constants(tile_, program.lanes());
    code += "for (int64_t item = begin; item < end; ++item) {\nconst int64_t first = item % cdiv(" + n +
            ", kW) * kW;\n";
    if (!loops.empty())
      code += "const int64_t outer = item / cdiv(" + n + ", kW);\n" + unflatten("outer", loops, names);
    code += "const float* b = " + program.parameter(of_.b.value) + " + " +
            element(of_.b.shape, of_.b.place, loops, names) + ";\n";
    const std::string call =
        "<kW>(p_" + packed_ + " + item * kW * " + factor(of_.depth) + ", " + n + " - first, " + k;
    if (of_.b.transposed) {
      code += "pack_across" + call +
              ", [&](int64_t j, int64_t k, maskv lanes) { return load(b + (first + j) * " +
              factor(of_.depth) + " + k, lanes); });\n";
    } else {
      code += "pack_side_by_side" + call + ", [&](int64_t k, int64_t j, maskv lanes) { return load(b + k * " +
              factor(of_.columns) + " + first + j, lanes); });\n";
    }
    program.launch(site_.prefix + "_pack", items, {packed_}, code + "}\n", when_);
  }

  /// Where sums rest between blocks of K: in an output that this kernel overwrites at last, or in scratch.
  std::string partial_sums() {
    Program& program = site_.program;
    for (auto index = group_.nodes.rbegin(); index != group_.nodes.rend(); ++index) {
      const Primitive& node = site_.graph().nodes[static_cast<std::size_t>(*index)];
      const bool stored = is_needed_outside(site_.graph(), group_, node) && node.type.dtype == DType::kF32;
      if (stored && !site_.graph().is_input(program.buffer(node.out))) return program.buffer(node.out);
    }
    if (sums_.empty()) sums_ = program.scratch(site_.prefix + "_sums", product(node_.type.shape));
    return sums_;
  }

  std::string pack_a_text() const {
    const std::string m = factor(of_.rows), k = factor(of_.depth);
    if (of_.a.transposed)
      return "pack_side_by_side<kR>(packed + i * kDepth, rows - i, depth, [&](int64_t k, int64_t r, maskv "
             "lanes) { "
             "return load(a + (k0 + k) * " +
             m + " + first + i + r, lanes); });\n";
    return "pack_across<kR>(packed + i * kDepth, rows - i, depth, [&](int64_t r, int64_t k, maskv lanes) { "
           "return "
           "load(a + (first + i + r) * " +
           k + " + k0 + k, lanes); });\n";
  }

  std::string tile_text() const {
    const std::string n = of_.columns.to_string();
    const std::string a = pack_a_ ? "PackedRows{packed + i * kDepth, kR}"
                                  : "RowsInPlace<kR>(a + (first + i) * " + factor(of_.depth) + " + k0, " +
                                        factor(of_.depth) + ", rows - i)";
    const auto tile = [&a](const std::string& b) { return "gemm_tile(" + a + ", " + b + ", depth, acc);\n"; };
    if (pack_b_) return tile("WholeColumns{b + j0 * " + factor(of_.depth) + " + k0 * kW, kW}");
    const std::string in_place = "b + k0 * " + factor(of_.columns) + " + j0, " + n;
    return "if (" + n + " - j0 >= kW) {\n" + tile("WholeColumns{" + in_place + "}") + "} else {\n" +
           tile("MaskedColumns<kV>(" + in_place + ", " + n + " - j0)") + "}\n";
  }

  void emit_product(const std::string& suffix) {
    Program& program = site_.program;
    const Epilogue epilogue =
        emit_epilogue(program, group_, of_.loops, of_.element_indices(), node_.out, "x");
    const bool looped =
        epilogue.heavy || site_.knob("loop_epilogue", {0, 1}, group_.nodes.size() > 2 ? 1 : 0) == 1;
    const std::string n = of_.columns.to_string(), k = of_.depth.to_string();
    const std::string sums =
        "p_" + partial_sums() + " + (" +
        element(node_.type.shape, group_.places.at(node_.out), of_.loops, sum_indices()) + ")";
    std::set<std::string> written = epilogue.written;
    written.insert(partial_sums_name(sums));
    std::string code = tile_constants(tile_, program.lanes());
    code += "constexpr int64_t kDepth = " + std::to_string(step_) + ", kBlock = kR * " +
            std::to_string(tiles_) + ";\n";
    if (pack_a_) code += "alignas(64) float packed[kBlock * kDepth];\n";
    code += "for (int64_t item = begin; item < end; ++item) {\n";
    code += item_text();
    code += b_text();
    code += "for (int64_t k0 = 0; k0 < " + k + "; k0 += kDepth) {\nconst int64_t depth = min(kDepth, " + k +
            " - k0);\n";
    if (pack_a_) code += "for (int64_t i = 0; i < rows; i += kR)\n" + pack_a_text();
    code += "for (int64_t j0 = 0; j0 < " + n + "; j0 += kW) {\n";
    code += "for (int64_t i = 0; i < rows; i += kR) {\nf32v acc[kR][kV];\n";
    code += "if (k0 == 0) {\ngemm_clear(acc);\n} else {\ngemm_resume(acc, " + sums + ", " + n +
            ", rows - i, " + n + " - j0);\n}\n" + tile_text();
    code += "if (k0 + depth < " + k + ") {\ngemm_suspend(acc, " + sums + ", " + n + ", rows - i, " + n +
            " - j0);\ncontinue;\n}\n";
    code += std::string("gemm_put") + (looped ? "_looped" : "") + "(acc, rows - i, " + n +
            " - j0, [&](int64_t r, int64_t c, f32v x, auto lanes) __attribute__((always_inline)) {\n" +
            "const int64_t row = first + i + r, j = j0 + c;\n" + epilogue.code + "});\n";
    code += "}\n}\n}\n}\n";
    const Expr block = Expr::constant(std::int64_t{tile_.rows} * tiles_);
    program.launch(site_.prefix + suffix, product(of_.batch_extents()) * Expr::apply("cdiv", of_.rows, block),
                   written, code, when_);
  }

  std::vector<std::string> sum_indices() const {
    std::vector<std::string> indices = of_.batch_names;
    indices.emplace_back("(first + i)");
    indices.emplace_back("j0");
    return indices;
  }

  static std::string partial_sums_name(const std::string& sums) { return sums.substr(2, sums.find(' ') - 2); }

  std::string b_text() const {
    if (!pack_b_)
      return "const float* b = " + site_.program.parameter(of_.b.value) + " + " + of_.base(of_.b) + ";\n";
    std::string panel = "0";
    Expr inner = Expr::constant(1);
    for (std::size_t l = panel_loops_.size(); l-- > 0;) {
      panel = panel_names_[l] + (is_one(inner) ? "" : " * " + factor(inner)) +
              (panel == "0" ? "" : " + " + panel);
      inner = inner * panel_loops_[l].extent;
    }
    if (panel == "0") return "const float* b = p_" + packed_ + ";\n";
    return "const float* b = p_" + packed_ + " + (" + panel + ") * cdiv(" + of_.columns.to_string() +
           ", kW) * kW * " + factor(of_.depth) + ";\n";
  }

  const Site& site_;
  const Primitive& node_;
  const Group& group_;
  const MatrixProduct of_;
  std::vector<Loop> panel_loops_;
  std::vector<std::string> panel_names_;
  std::string packed_, sums_, when_;
  Tile tile_;
  bool pack_a_ = true, pack_b_ = true;
  int step_ = 256;
  int tiles_ = 8;
};

}  // namespace

Status emit_contraction(const Site& site) {
  return site.program.cuda() ? emit_tensor_contraction(site) : Contraction(site).run();
}

}  // namespace lathe::catalog

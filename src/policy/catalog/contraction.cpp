#include <algorithm>
#include <array>
#include <numeric>

#include "policy/catalog/tile.h"

namespace lathe::catalog {
namespace {

/// A product's operand: where a matrix starts for the batch indices, and how it lies in memory.
struct Operand {
  std::string value;
  std::vector<Expr> shape;
  Placement place;  ///< of the batch axes; -1 for the matrix's own two
  bool transposed = false;
  bool has_batch = false;
};

/// A block's tile on a GPU, and what each of its threads sums.
struct GpuTile {
  int rows, columns, depth, thread_rows, thread_columns;
  int threads() const { return rows / thread_rows * (columns / thread_columns); }
};
constexpr std::array<GpuTile, 6> kGpuTiles = {{{128, 128, 16, 8, 8},
                                               {128, 64, 16, 8, 4},
                                               {64, 128, 16, 4, 8},
                                               {64, 64, 16, 4, 4},
                                               {32, 64, 16, 4, 4},
                                               {32, 32, 16, 4, 4}}};
constexpr double kMultiprocessors = 132;  // of a Hopper; others are near it

class Contraction {
 public:
  explicit Contraction(const Site& site) : site_(site), node_(site.node(0)), group_(site.group) {
    n_axis_ = static_cast<int>(group_.space.size()) - 1;
    a_ = operand(node_.in[0], node_.transpose_a);
    b_ = operand(node_.in[1], node_.transpose_b);
    columns_ = node_.type.shape.back();
    rows_ = node_.type.shape[node_.type.shape.size() - 2];
    depth_ = a_.shape[a_.shape.size() - (a_.transposed ? 2 : 1)];
    make_loops();
  }

  Status run() {
    Writer& writer = site_.writer;
    if (writer.cuda()) return run_on_gpu();
    const double m = static_cast<double>(writer.headline(rows_)),
                 n = static_cast<double>(writer.headline(columns_));
    const double k = static_cast<double>(writer.headline(depth_));
    tile_ = choose_tile(site_, m, n);
    const bool read_in_place = m <= 64 || k * n <= 32 * 1024;
    pack_b_ = b_.transposed || site_.knob("pack_b", {0, 1}, read_in_place ? 0 : 1) == 1;
    pack_a_ = a_.transposed || site_.knob("pack_a", {0, 1}, n <= 256 ? 0 : 1) == 1;
    step_ = site_.knob("kc", {128, 192, 256, 384, 512}, 256);
    tiles_ = site_.knob("mc", {1, 2, 4, 8, 12, 16}, 8);
    while (tiles_ > 1 && tiles_ * tile_.rows * step_ > 128 * 1024) --tiles_;
    const std::string rows = "(" + to_task(site_.graph(), rows_).to_string() + ")";
    const std::vector<int> thresholds = m <= 64 ? std::vector<int>{0, 16} : std::vector<int>{0, 16, 64};
    const int few = b_.transposed || m <= 16 ? 0 : site_.knob("few_rows", thresholds, thresholds.back());
    const std::string columns = "(" + to_task(site_.graph(), columns_).to_string() + ")";
    const int few_columns = choose_few_columns();
    const std::string many_columns = few_columns > 0 ? columns + " > " + std::to_string(few_columns) : "";
    when_ = both(many_columns, few > 0 ? rows + " > " + std::to_string(few) : "");
    if (pack_b_) emit_pack();
    emit_product("_product");
    if (few > 0) emit_few_rows(both(many_columns, rows + " <= " + std::to_string(few)));
    if (few_columns > 0) emit_few_columns(few_columns, columns + " <= " + std::to_string(few_columns));
    writer.add_pattern("contraction");
    const double batch = writer.count(batch_extents());
    Work work;
    work.flops = 2 * batch * k * tile_cost(tile_, writer.lanes(), m, n) * writer.lanes();
    work.bytes =
        4 * batch * (m * k + n * k * (pack_b_ ? 3 : std::max(1.0, m / (tiles_ * tile_.rows))) + m * n);
    writer.add_work(work);
    return Ok{};
  }

 private:
  /// One block a tile of the result, through shared memory.
  Status run_on_gpu() {
    Writer& writer = site_.writer;
    const GpuTile& tile = kGpuTiles[static_cast<std::size_t>(choose_gpu_tile())];
    const Epilogue epilogue =
        emit_epilogue(writer, group_, loops_, element_indices(), node_.out, "x", Elements::kScalars);
    const std::string m = rows_.to_string(), n = columns_.to_string(), k = depth_.to_string();
    const std::string height = std::to_string(tile.rows), width = std::to_string(tile.columns);
    std::string code = "const int64_t across = cdiv(" + n + ", " + width + "), tiles = cdiv(" + m + ", " +
                       height + ") * across;\n";
    if (!batch_loops_.empty())
      code += "const int64_t outer = item / tiles;\n" + unflatten("outer", batch_loops_, batch_names_);
    code += "using Block = GemmBlock<" + height + ", " + width + ", " + std::to_string(tile.depth) + ", " +
            std::to_string(tile.thread_rows) + ", " + std::to_string(tile.thread_columns) + ", " +
            (a_.transposed ? "true" : "false") + ", " + (b_.transposed ? "true" : "false") + ">;\n";
    code += "const Block block{" + writer.parameter(a_.value) + " + " + base(a_) + ", " +
            writer.parameter(b_.value) + " + " + base(b_) + ", item % tiles / across * " + height +
            ", item % across * " + width + ", " + m + ", " + n + ", " + k + "};\n";
    code += "block.run([&](int64_t row, int64_t j, float x) {\n" + epilogue.code + "});\n";
    writer.add_pattern("contraction");
    Work work;
    work.flops = 2 * writer.count(batch_extents()) * static_cast<double>(writer.headline(rows_)) *
                 static_cast<double>(writer.headline(columns_)) *
                 static_cast<double>(writer.headline(depth_));
    writer.add_work(work);
    const Expr tiles = Expr::apply("cdiv", rows_, Expr::constant(tile.rows)) *
                       Expr::apply("cdiv", columns_, Expr::constant(tile.columns));
    writer.launch_blocks(site_.prefix + "_product", product(batch_extents()) * tiles, tile.threads(),
                         epilogue.written, code);
    return Ok{};
  }

  /// The largest tile of which there is one for each multiprocessor.
  int choose_gpu_tile() const {
    int best = static_cast<int>(kGpuTiles.size()) - 1;
    const auto tiles = [&](const GpuTile& tile) {
      const auto count = [](std::int64_t extent, int part) {
        return static_cast<double>((extent + part - 1) / part);
      };
      return site_.writer.count(batch_extents()) * count(site_.writer.headline(rows_), tile.rows) *
             count(site_.writer.headline(columns_), tile.columns);
    };
    for (int i = best; i >= 0; --i)
      if (tiles(kGpuTiles[static_cast<std::size_t>(i)]) >= kMultiprocessors) best = i;
    std::vector<int> all(kGpuTiles.size());
    std::iota(all.begin(), all.end(), 0);
    return site_.knob("tile", all, best);
  }

  Operand operand(const std::string& value, bool transposed) const {
    Operand result{value, site_.graph().type_of(value).shape, {}, transposed, false};
    const std::size_t rank = result.shape.size(), shift = group_.space.size() - rank;
    for (std::size_t i = 0; i < rank; ++i) {
      const bool batch = i + 2 < rank && !is_one(result.shape[i]);
      result.place.push_back(batch ? static_cast<int>(i + shift) : -1);
      result.has_batch |= batch;
    }
    return result;
  }

  /// Rows of all matrices count as one matrix's where B is shared and the epilogue allows it.
  void make_loops() {
    const bool full = a_.shape.size() == group_.space.size();
    if (!b_.has_batch && !a_.transposed && full && a_.has_batch) {
      std::vector<Loop> merged = merge_loops(site_.graph(), group_, {n_axis_});
      std::erase_if(merged, [&](const Loop& loop) { return !loop.axes.empty() && loop.axes[0] == n_axis_; });
      const std::vector<Expr> leading(group_.space.begin(), group_.space.end() - 1);
      bool same = merged.size() == 1;
      for (std::size_t i = 0; i + 1 < leading.size(); ++i) same = same && equal(leading[i], a_.shape[i]);
      if (same) {
        rows_ = product(leading);
        a_.place.assign(a_.place.size(), -1);
        loops_ = {merged[0]};
      }
    }
    if (loops_.empty()) {
      for (int axis = 0; axis < n_axis_ - 1; ++axis)
        if (!is_one(group_.space[static_cast<std::size_t>(axis)]))
          loops_.push_back({{axis}, group_.space[static_cast<std::size_t>(axis)], false});
      loops_.push_back(one_axis(n_axis_ - 1));
    }
    loops_.push_back(one_axis(n_axis_));
    for (std::size_t l = 0; l + 2 < loops_.size(); ++l) batch_names_.push_back("ix" + std::to_string(l));
    batch_loops_.assign(loops_.begin(), loops_.end() - 2);
  }

  Loop one_axis(int axis) const {
    const Expr& extent = group_.space[static_cast<std::size_t>(axis)];
    return is_one(extent) ? Loop{{}, extent, false} : Loop{{axis}, extent, false};
  }

  std::vector<Expr> batch_extents() const {
    std::vector<Expr> extents;
    for (const Loop& loop : batch_loops_) extents.push_back(loop.extent);
    return extents;
  }

  std::string base(const Operand& operand) const {
    std::string text = element(operand.shape, operand.place, batch_loops_, batch_names_);
    return text;
  }

  /// Where rows are few, B is read once and packing it would cost more than the product.
  void emit_few_rows(const std::string& when) {
    when_ = when;
    pack_b_ = false;
    tile_ = {site_.writer.lanes() >= 16 ? 6 : 2, 4};
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
    const std::string m = rows_.to_string();
    std::string code = "const int64_t first = item % cdiv(" + m + ", kBlock) * kBlock, rows = min(kBlock, " +
                       m + " - first);\n";
    if (!batch_loops_.empty())
      code += "const int64_t outer = item / cdiv(" + m + ", kBlock);\n" +
              unflatten("outer", batch_loops_, batch_names_);
    return code + "const float* a = " + site_.writer.parameter(a_.value) + " + " + base(a_) + ";\n";
  }

  /// The result's indices inside an epilogue.
  std::vector<std::string> element_indices() const {
    std::vector<std::string> indices = batch_names_;
    indices.emplace_back("row");
    indices.emplace_back("j");
    return indices;
  }

  /// Up to how many columns are dot products; 0: no shape has so few, or they do not lie along K.
  int choose_few_columns() const {
    const std::vector<int> choices = b_.transposed ? std::vector<int>{0, 1, 4} : std::vector<int>{0, 1};
    if (a_.transposed || site_.writer.least(columns_) > choices.back()) return 0;
    return site_.knob("few_columns", choices, choices.back());
  }

  /// Where columns are few, lanes run along K, and the epilogue gets its columns through the stack.
  void emit_few_columns(int few, const std::string& when) {
    Writer& writer = site_.writer;
    const Epilogue epilogue = emit_epilogue(writer, group_, loops_, element_indices(), node_.out, "x");
    const std::string n = columns_.to_string(), k = factor(depth_);
    std::string code = "constexpr int64_t kBlock = 64;\nfor (int64_t item = begin; item < end; ++item) {\n";
    code += item_text();
    code += "const float* b = " + writer.parameter(b_.value) + " + " + base(b_) + ";\n";
    code += "for (int64_t i = 0; i < rows; i += 4) {\nf32v acc[4][1];\ndot_tile<4, " + std::to_string(few) +
            ">(a + (first + i) * " + k + ", b, " + k + ", rows - i, " + n + ", acc);\n";
    code += "gemm_put(acc, rows - i, " + n +
            ", [&](int64_t r, int64_t c, f32v x, auto lanes) __attribute__((always_inline)) {\n"
            "const int64_t row = first + i + r, j = c;\n" +
            epilogue.code + "});\n}\n}\n";
    writer.launch(site_.prefix + "_few_columns",
                  product(batch_extents()) * Expr::apply("cdiv", rows_, Expr::constant(64)), epilogue.written,
                  code, when);
  }

  /// B in panels of kW columns, each panel [K][kW].
  void emit_pack() {
    Writer& writer = site_.writer;
    const int width = tile_.columns(writer.lanes());
    std::vector<Loop> loops;
    std::vector<std::string> names;
    std::vector<Expr> extents;
    for (std::size_t l = 0; l < batch_loops_.size(); ++l) {
      if (element(b_.shape, b_.place, {batch_loops_[l]}, {"x"}) == "0") continue;
      loops.push_back(batch_loops_[l]);
      names.push_back(batch_names_[l]);
      extents.push_back(batch_loops_[l].extent);
    }
    panel_loops_ = loops;
    panel_names_ = names;
    const Expr panels = Expr::apply("cdiv", columns_, Expr::constant(width));
    const Expr items = product(extents) * panels;
    packed_ = writer.scratch(site_.prefix + "_panels", items * Expr::constant(width) * depth_);
    const std::string n = columns_.to_string(), k = depth_.to_string();
    std::string code = tile_constants(tile_, writer.lanes());
    code += "for (int64_t item = begin; item < end; ++item) {\nconst int64_t first = item % cdiv(" + n +
            ", kW) * kW;\n";
    if (!loops.empty())
      code += "const int64_t outer = item / cdiv(" + n + ", kW);\n" + unflatten("outer", loops, names);
    code += "const float* b = " + writer.parameter(b_.value) + " + " +
            element(b_.shape, b_.place, loops, names) + ";\n";
    const std::string call =
        "<kW>(p_" + packed_ + " + item * kW * " + factor(depth_) + ", " + n + " - first, " + k;
    if (b_.transposed) {
      code += "pack_across" + call +
              ", [&](int64_t j, int64_t k, maskv lanes) { return load(b + (first + j) * " + factor(depth_) +
              " + k, lanes); });\n";
    } else {
      code += "pack_side_by_side" + call + ", [&](int64_t k, int64_t j, maskv lanes) { return load(b + k * " +
              factor(columns_) + " + first + j, lanes); });\n";
    }
    writer.launch(site_.prefix + "_pack", items, {packed_}, code + "}\n", when_);
  }

  /// Where sums rest between blocks of K: in an output that this kernel overwrites at last, or in scratch.
  std::string partial_sums() {
    Writer& writer = site_.writer;
    for (auto index = group_.nodes.rbegin(); index != group_.nodes.rend(); ++index) {
      const Primitive& node = site_.graph().nodes[static_cast<std::size_t>(*index)];
      const bool stored = is_needed_outside(site_.graph(), group_, node) && node.type.dtype == DType::kF32;
      if (stored && !site_.graph().is_input(writer.buffer(node.out))) return writer.buffer(node.out);
    }
    if (sums_.empty()) sums_ = writer.scratch(site_.prefix + "_sums", product(node_.type.shape));
    return sums_;
  }

  std::string pack_a_text() const {
    const std::string m = factor(rows_), k = factor(depth_);
    if (a_.transposed)
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
    const std::string n = columns_.to_string();
    const std::string a = pack_a_ ? "PackedRows{packed + i * kDepth, kR}"
                                  : "RowsInPlace<kR>(a + (first + i) * " + factor(depth_) + " + k0, " +
                                        factor(depth_) + ", rows - i)";
    const auto tile = [&a](const std::string& b) { return "gemm_tile(" + a + ", " + b + ", depth, acc);\n"; };
    if (pack_b_) return tile("WholeColumns{b + j0 * " + factor(depth_) + " + k0 * kW, kW}");
    const std::string in_place = "b + k0 * " + factor(columns_) + " + j0, " + n;
    return "if (" + n + " - j0 >= kW) {\n" + tile("WholeColumns{" + in_place + "}") + "} else {\n" +
           tile("MaskedColumns<kV>(" + in_place + ", " + n + " - j0)") + "}\n";
  }

  void emit_product(const std::string& suffix) {
    Writer& writer = site_.writer;
    const Epilogue epilogue = emit_epilogue(writer, group_, loops_, element_indices(), node_.out, "x");
    const bool looped =
        epilogue.heavy || site_.knob("loop_epilogue", {0, 1}, group_.nodes.size() > 2 ? 1 : 0) == 1;
    const std::string n = columns_.to_string(), k = depth_.to_string();
    const std::string sums = "p_" + partial_sums() + " + (" +
                             element(node_.type.shape, group_.places.at(node_.out), loops_, sum_indices()) +
                             ")";
    std::set<std::string> written = epilogue.written;
    written.insert(partial_sums_name(sums));
    std::string code = tile_constants(tile_, writer.lanes());
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
    writer.launch(site_.prefix + suffix, product(batch_extents()) * Expr::apply("cdiv", rows_, block),
                  written, code, when_);
  }

  std::vector<std::string> sum_indices() const {
    std::vector<std::string> indices = batch_names_;
    indices.emplace_back("(first + i)");
    indices.emplace_back("j0");
    return indices;
  }

  static std::string partial_sums_name(const std::string& sums) { return sums.substr(2, sums.find(' ') - 2); }

  std::string b_text() const {
    if (!pack_b_) return "const float* b = " + site_.writer.parameter(b_.value) + " + " + base(b_) + ";\n";
    std::string panel = "0";
    Expr inner = Expr::constant(1);
    for (std::size_t l = panel_loops_.size(); l-- > 0;) {
      panel = panel_names_[l] + (is_one(inner) ? "" : " * " + factor(inner)) +
              (panel == "0" ? "" : " + " + panel);
      inner = inner * panel_loops_[l].extent;
    }
    if (panel == "0") return "const float* b = p_" + packed_ + ";\n";
    return "const float* b = p_" + packed_ + " + (" + panel + ") * cdiv(" + columns_.to_string() +
           ", kW) * kW * " + factor(depth_) + ";\n";
  }

  const Site& site_;
  const Primitive& node_;
  const Group& group_;
  int n_axis_ = 0;
  Operand a_, b_;
  Expr rows_, columns_, depth_;
  std::vector<Loop> loops_, batch_loops_, panel_loops_;
  std::vector<std::string> batch_names_, panel_names_;
  std::string packed_, sums_, when_;
  Tile tile_;
  bool pack_a_ = true, pack_b_ = true;
  int step_ = 256;
  int tiles_ = 8;
};

}  // namespace

Status emit_contraction(const Site& site) { return Contraction(site).run(); }

}  // namespace lathe::catalog

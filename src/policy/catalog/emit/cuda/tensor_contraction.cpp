#include <algorithm>

#include "policy/catalog/cost/tensor_tile.h"
#include "policy/catalog/emit/product.h"

namespace lathe::catalog {
namespace {

constexpr double kFlopsPerMicrosecond = 60e6;  // of the device for which tensor_microseconds speaks
constexpr int kLargestSplit = 8;

class TensorContraction {
 public:
  explicit TensorContraction(const Site& site)
      : site_(site), of_(matrix_product(site)), tiles_(tensor_tiles()) {}

  Status run() {
    Program& program = site_.program;
    choose();
    const Epilogue epilogue = emit_epilogue(program, site_.group, of_.loops, of_.element_indices(),
                                            site_.node(0).out, "x", Elements::kScalars);
    program.add_pattern("contraction");
    Work work;
    work.flops = tensor_microseconds(tile(), split_, sizes()) * kFlopsPerMicrosecond;
    program.add_work(work);
    const Expr tiles = Expr::apply("cdiv", of_.rows, Expr::constant(tile().rows)) *
                       Expr::apply("cdiv", of_.columns, Expr::constant(tile().columns));
    program.launch_blocks(site_.prefix + "_product", product(of_.batch_extents()) * tiles, tile().threads(),
                          epilogue.written, body(epilogue),
                          {.cluster = split_, .shared_bytes = bytes(tile())});
    return Ok{};
  }

 private:
  const TensorTile& tile() const { return tiles_[tile_]; }
  int bytes(const TensorTile& tile) const { return tile.bytes(of_.a.transposed, of_.b.transposed); }

  ProductSizes sizes() const {
    const Program& program = site_.program;
    const auto extent = [&](const Expr& expr) {
      return static_cast<double>(headline(program.graph(), expr));
    };
    return {headline_count(program.graph(), of_.batch_extents()), extent(of_.rows), extent(of_.columns),
            extent(of_.depth)};
  }

  /// The tile and the split that the model holds for fastest, unless knobs say otherwise.
  void choose() {
    const Target& target = site_.program.target();
    const ProductSizes at = sizes();
    std::vector<int> allowed, splits;
    for (int split = 1; split <= std::min(kLargestSplit, target.cluster); split *= 2) splits.push_back(split);
    double least = 0;
    int best = 0, best_split = 1;
    for (std::size_t i = 0; i < tiles_.size(); ++i) {
      if (bytes(tiles_[i]) > target.shared_bytes) continue;
      for (const int split : splits) {
        const double time = tensor_microseconds(tiles_[i], split, at);
        if (least == 0 || time < least) least = time, best = static_cast<int>(i), best_split = split;
      }
      allowed.push_back(static_cast<int>(i));
    }
    tile_ = static_cast<std::size_t>(site_.knob("tile", allowed, best));
    split_ = site_.knob("split", splits, best_split);
  }

  std::string body(const Epilogue& epilogue) const {
    const std::string m = of_.rows.to_string(), n = of_.columns.to_string(), k = of_.depth.to_string();
    std::string code = "using Block = " + tile().type(split_, of_.a.transposed, of_.b.transposed) +
                       ";\nstatic_assert(Block::kBytes == " + std::to_string(bytes(tile())) +
                       " && Block::kThreads == " + std::to_string(tile().threads()) + ");\n";
    code += "const Block::Place place = Block::place(item, " + m + ", " + n + ");\n";
    if (!of_.batch_loops.empty()) code += unflatten("place.outer", of_.batch_loops, of_.batch_names);
    code += "const Block block{" + site_.program.parameter(of_.a.value) + " + " + of_.base(of_.a) + ", " +
            site_.program.parameter(of_.b.value) + " + " + of_.base(of_.b) + ", place.row, place.column, " +
            m + ", " + n + ", " + k + "};\n";
    return code + "block.run([&](int64_t row, int64_t j, float x) {\n" + epilogue.code + "});\n";
  }

  const Site& site_;
  const MatrixProduct of_;
  std::span<const TensorTile> tiles_;
  std::size_t tile_ = 0;
  int split_ = 1;
};

}  // namespace

Status emit_tensor_contraction(const Site& site) { return TensorContraction(site).run(); }

}  // namespace lathe::catalog

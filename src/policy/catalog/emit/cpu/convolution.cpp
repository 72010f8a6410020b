#include "policy/catalog/emit/cpu/tile.h"
#include "policy/catalog/emit/stencil.h"

namespace lathe::catalog {
namespace {

/// Direct convolution over a padded copy of the input. The copy splits rows and columns by their remainder
/// modulo the stride, so that each tap reads neighbours, and output positions count through padded rows, so
/// that a tile runs across row ends (its few positions between rows are computed in vain). A transposed
/// convolution is one of stride 1 over an input spread by zeros, with the kernel turned round.
class Convolution {
 public:
  explicit Convolution(const Site& site)
      : site_(site),
        node_(site.node(0)),
        x_(site.graph().type_of(node_.in[0]).shape),
        w_(site.graph().type_of(node_.in[1]).shape),
        y_(node_.type.shape) {
    const Window& window = node_.window;
    for (std::size_t a = 0; a < 2; ++a) {
      const Expr reach = (w_[a + 2] - number(1)) * number(window.dilation[a]);
      stride_[a] = window.transposed ? 1 : window.stride[a];
      spread_[a] = window.transposed ? window.stride[a] : 1;
      before_[a] = window.transposed ? reach - number(window.padding[a]) : number(window.padding[a]);
      const Expr needed = (y_[a + 2] - number(1)) * number(stride_[a]) + reach + number(1);
      phase_[a] = Expr::apply("cdiv", needed, number(stride_[a]));
    }
    outputs_ = Expr::apply("/", y_[1], window.groups);
    inputs_ = Expr::apply("/", x_[1], window.groups);
    taps_ = inputs_ * w_[2] * w_[3];
    planes_ = number(stride_[0] * stride_[1]);
    positions_ = (y_[2] - number(1)) * phase_[1] + y_[3];
  }

  Status run() {
    Program& program = site_.program;
    const double m = static_cast<double>(headline(program.graph(), outputs_)),
                 n = static_cast<double>(headline(program.graph(), positions_));
    tile_ = choose_tile(site_, m, n);
    tiles_ = site_.knob("nc", {1, 2, 4, 8}, 2);
    emit_pad();
    emit_weights();
    emit_product();
    program.add_pattern(node_.window.transposed ? "transposed_conv" : "conv");
    Work work;
    work.flops = 2 * headline_count(program.graph(), {&x_[0], 1}) *
                 static_cast<double>(headline(program.graph(), node_.window.groups * taps_)) *
                 tile_cost(tile_, program.lanes(), m, n) * program.lanes();
    work.bytes = 4 * (2 * headline_count(program.graph(), x_) + headline_count(program.graph(), y_));
    program.add_work(work);
    return Ok{};
  }

 private:
  static Expr number(std::int64_t value) { return Expr::constant(value); }
  static std::string text(std::int64_t value) { return std::to_string(value); }

  /// [N, C, stride, stride, phase rows, phase columns], and what the last tile may read beyond.
  void emit_pad() {
    Program& program = site_.program;
    const Expr plane = phase_[0] * phase_[1];
    padded_ = program.scratch(site_.prefix + "_padded", x_[0] * x_[1] * planes_ * plane + number(512));
    const std::string height = factor(x_[2]), width = factor(x_[3]), count = factor(planes_);
    std::string code = "for (int64_t item = begin; item < end; ++item) {\n";
    code += "const float* from = " + program.parameter(node_.in[0]) + " + item / " + count + " * " + height +
            " * " + width + ";\n";
    code += "const int64_t ph = item % " + count + " / " + text(stride_[1]) + ", pw = item % " +
            text(stride_[1]) + ";\n";
    code += "for (int64_t i = 0; i < " + phase_[0].to_string() + "; ++i) {\nfloat* to = p_" + padded_ +
            " + (item * " + factor(phase_[0]) + " + i) * " + factor(phase_[1]) + ";\nconst int64_t h = i * " +
            text(stride_[0]) + " + ph - " + factor(before_[0]) + ";\n";
    code += "if (h < 0 || h % " + text(spread_[0]) + " != 0 || h / " + text(spread_[0]) + " >= " + height +
            ") {\nfill_row(to, 0.0f, " + phase_[1].to_string() + ");\ncontinue;\n}\n";
    code += "const float* row = from + h / " + text(spread_[0]) + " * " + width + ";\n";
    if (spread_[1] == 1) {
      code +=
          "for (int64_t j = 0; j < " + phase_[1].to_string() + "; j += kLanes) {\nconst int64_t w = j * " +
          text(stride_[1]) + " + pw - " + factor(before_[1]) + ";\nconst maskv in = inside(w, " +
          text(stride_[1]) + ", " + width + ");\nstore(to + j, " +
          (stride_[1] == 1 ? "load(row + w, in)" : "load_strided(row + w, " + text(stride_[1]) + ", in)") +
          ", first_lanes(" + phase_[1].to_string() + " - j));\n}\n";
    } else {
      code += "fill_row(to, 0.0f, " + phase_[1].to_string() + ");\nfor (int64_t w = 0; w < " + width +
              "; ++w) {\nconst int64_t j = w * " + text(spread_[1]) + " + " + factor(before_[1]) +
              ";\nif (j >= 0 && j < " + phase_[1].to_string() + ") to[j] = row[w];\n}\n";
    }
    program.launch(site_.prefix + "_pad", x_[0] * x_[1] * planes_, {padded_}, code + "}\n}\n");
  }

  /// [group][panel of kR outputs][tap][kR].
  void emit_weights() {
    Program& program = site_.program;
    const Expr panels = Expr::apply("cdiv", outputs_, number(tile_.rows));
    const Expr items = node_.window.groups * panels;
    weights_ = program.scratch(site_.prefix + "_weights", items * number(tile_.rows) * taps_);
    const std::string taps = factor(taps_), outs = factor(outputs_), w = program.parameter(node_.in[1]);
    std::string code =
        "constexpr int kR = " + text(tile_.rows) + ";\nfor (int64_t item = begin; item < end; ++item) {\n";
    code +=
        "const int64_t group = item / cdiv(" + outs + ", kR), first = item % cdiv(" + outs + ", kR) * kR;\n";
    code += "float* to = p_" + weights_ + " + item * kR * " + taps + ";\n";
    if (!node_.window.transposed) {
      code += "pack_across<kR>(to, " + outs + " - first, " + taps +
              ", [&](int64_t r, int64_t k, maskv lanes) { return load(" + w + " + (group * " + outs +
              " + first + r) * " + taps + " + k, lanes); });\n";
    } else {
      const std::string area = factor(w_[2] * w_[3]);
      code += "for (int64_t k = 0; k < " + taps +
              "; ++k)\nfor (int64_t r = 0; r < kR; ++r)\nto[k * kR + r] = first + r < " + outs + " ? " + w +
              "[((group * " + factor(inputs_) + " + k / " + area + ") * " + outs + " + first + r) * " + area +
              " + " + area + " - 1 - k % " + area + "] : 0.0f;\n";
    }
    program.launch(site_.prefix + "_weights", items, {weights_}, code + "}\n");
  }

  std::string tap_loops() const {
    const std::string plane = factor(phase_[0] * phase_[1]), columns = factor(phase_[1]);
    const std::string dh = text(node_.window.dilation[0]), dw = text(node_.window.dilation[1]);
    const std::string sh = text(stride_[0]), sw = text(stride_[1]);
    std::string code =
        "const float* weight = weights;\nfor (int64_t c = 0; c < " + inputs_.to_string() + "; ++c) {\n";
    code += "const float* channel = image + c * " + factor(planes_) + " * " + plane + " + p;\n";
    code += "for (int64_t kh = 0; kh < " + w_[2].to_string() + "; ++kh) {\nfor (int64_t kw = 0; kw < " +
            w_[3].to_string() + "; ++kw) {\n";
    code += "const int64_t u = kh * " + dh + ", v = kw * " + dw +
            ";\ngemm_tile(PackedRows{weight, kR}, WholeColumns{channel + (u % " + sh + " * " + sw +
            " + v % " + sw + ") * " + plane + " + u / " + sh + " * " + columns + " + v / " + sw +
            ", kW}, 1, acc);\nweight += kR;\n}\n}\n}\n";
    return code;
  }

  /// Stores what of the tile are outputs: runs of positions inside one output row.
  std::string scatter(const Epilogue& epilogue) const {
    const std::string columns = factor(phase_[1]), ow = factor(y_[3]);
    std::string code = "for (int64_t t = 0; t < min(kW, " + positions_.to_string() + " - p);) {\n";
    code += "const int64_t oh = (p + t) / " + columns + ", j0 = (p + t) % " + columns + ";\nif (j0 >= " + ow +
            ") {\nt += " + columns + " - j0;\ncontinue;\n}\nconst int64_t run = min(min(kW, " +
            positions_.to_string() + " - p) - t, " + ow + " - j0);\n";
    code += "for (int64_t r = 0; r < min(kR, " + outputs_.to_string() +
            " - first); ++r) {\nconst int64_t oc = group * " + factor(outputs_) +
            " + first + r;\nfor (int64_t s = 0; s < run; s += kLanes) {\nconst int64_t j = j0 + s;\nconst "
            "maskv lanes = "
            "first_lanes(run - s);\nconst f32v x_ = load(&tile[r][t + s], lanes);\n" +
            epilogue.code + "}\n}\nt += run;\n}\n";
    return code;
  }

  void emit_product() {
    Program& program = site_.program;
    const std::vector<Loop> loops = plane_loops(site_.group);
    const Epilogue epilogue =
        emit_epilogue(program, site_.group, loops, {"n", "oc", "oh", "j"}, node_.out, "x_");
    const std::string plane = factor(planes_ * phase_[0] * phase_[1]), count = positions_.to_string();
    const std::string outs = factor(outputs_);
    std::string code = tile_constants(tile_, program.lanes());
    code += "constexpr int64_t kBlock = kW * " + text(tiles_) + ";\nalignas(64) float tile[kR][kW];\n";
    code += "for (int64_t item = begin; item < end; ++item) {\nconst int64_t blocks = cdiv(" + count +
            ", kBlock), n = item / blocks, p0 = item % blocks * kBlock;\n";
    code += "for (int64_t group = 0; group < " + node_.window.groups.to_string() + "; ++group) {\n";
    code += "const float* image = p_" + padded_ + " + (n * " + factor(x_[1]) + " + group * " +
            factor(inputs_) + ") * " + plane + ";\nfor (int64_t first = 0; first < " + outs +
            "; first += kR) {\n";
    code += "const float* weights = p_" + weights_ + " + (group * cdiv(" + outs + ", kR) * kR + first) * " +
            factor(taps_) + ";\nfor (int64_t p = p0; p < min(p0 + kBlock, " + count + "); p += kW) {\n";
    code += "f32v acc[kR][kV];\ngemm_clear(acc);\n" + tap_loops() +
            "gemm_suspend(acc, &tile[0][0], kW, kR, kW);\n" + scatter(epilogue) + "}\n}\n}\n}\n";
    const Expr blocks =
        Expr::apply("cdiv", positions_, number(std::int64_t{tile_.columns(program.lanes())} * tiles_));
    program.launch(site_.prefix + "_conv", y_[0] * blocks, epilogue.written, code);
  }

  const Site& site_;
  const Primitive& node_;
  const std::vector<Expr>&x_, &w_, &y_;
  std::array<std::int64_t, 2> stride_{}, spread_{};
  std::array<Expr, 2> before_, phase_;
  Expr outputs_, inputs_, taps_, planes_, positions_;
  Tile tile_;
  int tiles_ = 2;
  std::string padded_, weights_;
};

}  // namespace

Status emit_convolution(const Site& site) { return Convolution(site).run(); }

}  // namespace lathe::catalog

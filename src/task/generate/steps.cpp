#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "task/generate/sketch.h"

namespace lathe {
namespace {

constexpr std::int64_t kMaxFlops =
    100'000'000;  ///< of one contraction: tens of milliseconds in a naive build

/// A way to go on. `apply` returns false where it does not fit the current value.
struct Step {
  int weight;
  std::function<bool(Sketch&)> apply;
};

template <std::size_t kCount>
std::int64_t pick(Rng& rng, const std::array<std::int64_t, kCount>& from) {
  return from[rng.below(kCount)];
}

bool activation(Sketch& sketch) {
  static constexpr std::array<std::string_view, 14> kOps = {
      "relu",     "gelu",      "silu", "sigmoid", "tanh", "softplus", "elu",
      "softsign", "hardswish", "mish", "abs",     "erf",  "square",   "leaky_relu"};
  const std::string_view op = kOps[sketch.rng().below(kOps.size())];
  if (op == sketch.last_op()) return false;
  sketch.apply(std::string(op));
  return true;
}

bool constant(Sketch& sketch) {
  static constexpr std::array<double, 6> kValues = {0.125, 0.5, 0.7, 1.5, 2.0, -1.25};
  const double value = kValues[sketch.rng().below(kValues.size())];
  sketch.apply(sketch.rng().chance(0.5) ? "scale" : "add_scalar", fmt::format("by = {}", value));
  return true;
}

bool residual(Sketch& sketch) {
  std::string other = sketch.earlier_of_same_shape();
  if (other.empty() || sketch.rng().chance(0.3)) other = sketch.tensor("r", sketch.shape());
  static constexpr std::array<std::string_view, 3> kOps = {"add", "sub", "mul"};
  sketch.apply(std::string(kOps[sketch.rng().below(kOps.size())]), other);
  return true;
}

bool gate(Sketch& sketch) {
  const std::string opened = sketch.side_node("sigmoid", sketch.tensor("g", sketch.shape()));
  sketch.apply("mul", opened);
  return true;
}

bool bias(Sketch& sketch) {
  if (sketch.shape().size() == 4) {
    sketch.apply("bias_add", sketch.parameter("b", {sketch.shape()[1]}) + ", axis = 1");
  } else {
    sketch.apply("bias_add", sketch.parameter("b", {sketch.shape().back()}));
  }
  return true;
}

bool feature_scale(Sketch& sketch) {
  if (sketch.shape().size() != 2) return false;
  sketch.apply("mul", sketch.parameter("c", {sketch.shape().back()}, "mean = 1, scale = 0.2"));
  return true;
}

bool normalisation(Sketch& sketch) {
  if (sketch.shape().size() != 2) return false;
  static constexpr std::array<std::string_view, 5> kOps = {"layer_norm", "rms_norm", "softmax", "log_softmax",
                                                           "l2_normalize"};
  const std::string op(kOps[sketch.rng().below(kOps.size())]);
  if (op == sketch.last_op()) return false;
  if (op == "layer_norm" || op == "rms_norm") {
    sketch.apply(op, sketch.parameter("gamma", {sketch.shape().back()}, "mean = 1, scale = 0.2"));
  } else {
    sketch.apply(op);
  }
  return true;
}

bool matmul(Sketch& sketch) {
  if (sketch.shape().size() != 2) return false;
  const std::int64_t rows = sketch.extent(sketch.shape()[0]);
  const std::int64_t inner = sketch.extent(sketch.shape()[1]);
  std::int64_t columns = pick<5>(sketch.rng(), {32, 64, 128, 256, 512});
  const auto too_large = [&] {
    return 2 * rows * inner * columns > kMaxFlops || std::max(rows, inner) * columns > sketch.max_elements();
  };
  while (columns > 8 && too_large()) columns /= 2;
  const std::string out = sketch.dim("D", columns);
  const bool transposed = sketch.rng().chance(0.3);
  const Sketch::Extents weights =
      transposed ? Sketch::Extents{out, sketch.shape()[1]} : Sketch::Extents{sketch.shape()[1], out};
  sketch.apply_reshaping(
      "matmul", sketch.parameter("w", weights, "scale = 0.1") + (transposed ? ", transpose_b = true" : ""),
      {sketch.shape()[0], out});
  return true;
}

bool move(Sketch& sketch) {
  if (sketch.shape().size() != 2 || sketch.last_op() == "transpose") return false;
  if (sketch.rng().chance(0.5)) {
    sketch.apply("cumsum", fmt::format("axis = {}", sketch.rng().below(2)));
  } else {
    sketch.apply_reshaping("transpose", "perm = [1, 0]", {sketch.shape()[1], sketch.shape()[0]});
  }
  return true;
}

bool convolution(Sketch& sketch) {
  if (sketch.shape().size() != 4) return false;
  const Sketch::Extents in = sketch.shape();
  const std::string kernel = sketch.rng().chance(0.7) ? "3" : "1";
  const std::string out = sketch.dim("cout", pick<3>(sketch.rng(), {8, 16, 32}));
  const std::string weights = sketch.parameter("w", {out, in[1], kernel, kernel}, "scale = 0.15");
  sketch.apply_reshaping("conv2d", weights + (kernel == "3" ? ", padding = 1" : ""),
                         {in[0], out, in[2], in[3]});
  return true;
}

using Steps = std::vector<Step>;

/// Reductions and losses: nothing follows them.
bool finish_matrix(Sketch& sketch) {
  static constexpr std::array<std::string_view, 5> kReductions = {"sum", "mean", "reduce_max", "var",
                                                                  "logsumexp"};
  const std::uint64_t kind = sketch.rng().below(7);
  if (kind == 5) {
    sketch.apply_reshaping("argmax", "axis = 1", {sketch.shape()[0]});
  } else if (kind == 6) {
    sketch.apply_reshaping("mse_loss", sketch.tensor("target", sketch.shape()), {});
  } else {
    const std::uint64_t axis = sketch.rng().below(2);
    sketch.apply_reshaping(std::string(kReductions[kind]), fmt::format("axis = {}", axis),
                           {sketch.shape()[1 - axis]});
  }
  return true;
}

bool finish_image(Sketch& sketch) {
  const Sketch::Extents in = sketch.shape();
  if (sketch.rng().chance(0.4)) {
    sketch.apply_reshaping("mean", "axes = [2, 3]", {in[0], in[1]});
  } else {
    const std::string op = sketch.rng().chance(0.5) ? "max_pool2d" : "avg_pool2d";
    sketch.apply_reshaping(op, "kernel = [2, 2], stride = [2, 2]",
                           {in[0], in[1], "(" + in[2] + ") / 2", "(" + in[3] + ") / 2"});
  }
  return true;
}

void take_step(Sketch& sketch, const Steps& steps) {
  int total = 0;
  for (const Step& step : steps) total += step.weight;
  for (;;) {
    auto ticket = static_cast<int>(sketch.rng().below(static_cast<std::uint64_t>(total)));
    const auto chosen =
        std::ranges::find_if(steps, [&](const Step& step) { return (ticket -= step.weight) < 0; });
    if (chosen->apply(sketch)) return;
  }
}

void start_matrix(Sketch& sketch) {
  const std::string rows = sketch.dim("M", pick<6>(sketch.rng(), {32, 64, 128, 256, 512, 1024}), 2);
  const std::string columns = sketch.dim("K", pick<6>(sketch.rng(), {64, 128, 256, 384, 768, 1024}), 2);
  while (sketch.extent(rows) * sketch.extent(columns) > sketch.max_elements()) {
    sketch.halve(sketch.extent(rows) > sketch.extent(columns) ? rows : columns);
  }
  sketch.start(sketch.tensor("x", {rows, columns}), {rows, columns});
}

void start_image(Sketch& sketch) {
  const std::string batch = sketch.dim("batch", pick<3>(sketch.rng(), {1, 2, 4}));
  const std::string channels = sketch.dim("cin", pick<4>(sketch.rng(), {3, 8, 16, 32}));
  const std::string height = sketch.dim("H", pick<3>(sketch.rng(), {14, 24, 32}), 4);
  const std::string width = sketch.dim("W", pick<3>(sketch.rng(), {14, 24, 32}), 4);
  constexpr std::int64_t kMostChannels = 32;
  while (sketch.extent(batch) * kMostChannels * sketch.extent(height) * sketch.extent(width) >
             sketch.max_elements() &&
         sketch.extent(width) > 4) {
    for (const std::string& dim : {batch, height, width}) sketch.halve(dim);
  }
  const Sketch::Extents shape = {batch, channels, height, width};
  sketch.start(sketch.tensor("x", shape), shape);
}

}  // namespace

Sketch sample_sketch(Rng& rng, const GenerateOptions& options) {
  static const Steps kMatrixSteps = {{4, activation},    {1, constant},      {2, residual},
                                     {1, gate},          {2, bias},          {1, move},
                                     {1, feature_scale}, {3, normalisation}, {3, matmul}};
  static const Steps kImageSteps = {
      {3, activation}, {1, constant}, {1, residual}, {2, bias}, {3, convolution}};
  Sketch sketch(rng, options.max_elements);
  const bool image = rng.chance(0.25);
  image ? start_image(sketch) : start_matrix(sketch);
  const auto nodes = static_cast<int>(rng.between(options.min_nodes, options.max_nodes));
  const bool finish = rng.chance(0.4);
  while (sketch.node_count() < nodes - (finish ? 1 : 0))
    take_step(sketch, image ? kImageSteps : kMatrixSteps);
  if (finish) image ? finish_image(sketch) : finish_matrix(sketch);
  return sketch;
}

}  // namespace lathe

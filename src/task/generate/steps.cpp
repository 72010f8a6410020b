#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "task/generate/task_builder.h"

namespace lathe {
namespace {

constexpr std::int64_t kMaxFlops =
    100'000'000;  ///< of one contraction: tens of milliseconds in a naive build

/// A step that extends the graph. `apply` returns false if it does not fit the current value.
struct Step {
  int weight;
  std::function<bool(TaskBuilder&)> apply;
};

template <std::size_t kCount>
std::int64_t pick(Rng& rng, const std::array<std::int64_t, kCount>& from) {
  return from[rng.below(kCount)];
}

bool activation(TaskBuilder& task) {
  static constexpr std::array<std::string_view, 14> kOps = {
      "relu",     "gelu",      "silu", "sigmoid", "tanh", "softplus", "elu",
      "softsign", "hardswish", "mish", "abs",     "erf",  "square",   "leaky_relu"};
  const std::string_view op = kOps[task.rng().below(kOps.size())];
  if (op == task.last_op()) return false;
  task.apply(std::string(op));
  return true;
}

bool constant(TaskBuilder& task) {
  static constexpr std::array<double, 6> kValues = {0.125, 0.5, 0.7, 1.5, 2.0, -1.25};
  const double value = kValues[task.rng().below(kValues.size())];
  task.apply(task.rng().chance(0.5) ? "scale" : "add_scalar", fmt::format("by = {}", value));
  return true;
}

bool residual(TaskBuilder& task) {
  std::string other = task.earlier_of_same_shape();
  if (other.empty() || task.rng().chance(0.3)) other = task.tensor("r", task.shape());
  static constexpr std::array<std::string_view, 3> kOps = {"add", "sub", "mul"};
  task.apply(std::string(kOps[task.rng().below(kOps.size())]), other);
  return true;
}

bool gate(TaskBuilder& task) {
  const std::string opened = task.side_node("sigmoid", task.tensor("g", task.shape()));
  task.apply("mul", opened);
  return true;
}

bool bias(TaskBuilder& task) {
  if (task.shape().size() == 4) {
    task.apply("bias_add", task.parameter("b", {task.shape()[1]}) + ", axis = 1");
  } else {
    task.apply("bias_add", task.parameter("b", {task.shape().back()}));
  }
  return true;
}

bool feature_scale(TaskBuilder& task) {
  if (task.shape().size() != 2) return false;
  task.apply("mul", task.parameter("c", {task.shape().back()}, "mean = 1, scale = 0.2"));
  return true;
}

bool normalisation(TaskBuilder& task) {
  if (task.shape().size() != 2) return false;
  static constexpr std::array<std::string_view, 5> kOps = {"layer_norm", "rms_norm", "softmax", "log_softmax",
                                                           "l2_normalize"};
  const std::string op(kOps[task.rng().below(kOps.size())]);
  if (op == task.last_op()) return false;
  if (op == "layer_norm" || op == "rms_norm") {
    task.apply(op, task.parameter("gamma", {task.shape().back()}, "mean = 1, scale = 0.2"));
  } else {
    task.apply(op);
  }
  return true;
}

bool matmul(TaskBuilder& task) {
  if (task.shape().size() != 2) return false;
  const std::int64_t rows = task.extent(task.shape()[0]);
  const std::int64_t inner = task.extent(task.shape()[1]);
  std::int64_t columns = pick<5>(task.rng(), {32, 64, 128, 256, 512});
  const auto too_large = [&] {
    return 2 * rows * inner * columns > kMaxFlops || std::max(rows, inner) * columns > task.max_elements();
  };
  while (columns > 8 && too_large()) columns /= 2;
  const std::string out = task.dim("D", columns);
  const bool transposed = task.rng().chance(0.3);
  const TaskBuilder::Extents weights =
      transposed ? TaskBuilder::Extents{out, task.shape()[1]} : TaskBuilder::Extents{task.shape()[1], out};
  task.apply_reshaping(
      "matmul", task.parameter("w", weights, "scale = 0.1") + (transposed ? ", transpose_b = true" : ""),
      {task.shape()[0], out});
  return true;
}

bool move(TaskBuilder& task) {
  if (task.shape().size() != 2 || task.last_op() == "transpose") return false;
  if (task.rng().chance(0.5)) {
    task.apply("cumsum", fmt::format("axis = {}", task.rng().below(2)));
  } else {
    task.apply_reshaping("transpose", "perm = [1, 0]", {task.shape()[1], task.shape()[0]});
  }
  return true;
}

bool convolution(TaskBuilder& task) {
  if (task.shape().size() != 4) return false;
  const TaskBuilder::Extents in = task.shape();
  const std::string kernel = task.rng().chance(0.7) ? "3" : "1";
  const std::string out = task.dim("cout", pick<3>(task.rng(), {8, 16, 32}));
  const std::string weights = task.parameter("w", {out, in[1], kernel, kernel}, "scale = 0.15");
  task.apply_reshaping("conv2d", weights + (kernel == "3" ? ", padding = 1" : ""),
                       {in[0], out, in[2], in[3]});
  return true;
}

using Steps = std::vector<Step>;

/// Reductions and losses, which end the graph.
bool finish_matrix(TaskBuilder& task) {
  static constexpr std::array<std::string_view, 5> kReductions = {"sum", "mean", "reduce_max", "var",
                                                                  "logsumexp"};
  const std::uint64_t kind = task.rng().below(7);
  if (kind == 5) {
    task.apply_reshaping("argmax", "axis = 1", {task.shape()[0]});
  } else if (kind == 6) {
    task.apply_reshaping("mse_loss", task.tensor("target", task.shape()), {});
  } else {
    const std::uint64_t axis = task.rng().below(2);
    task.apply_reshaping(std::string(kReductions[kind]), fmt::format("axis = {}", axis),
                         {task.shape()[1 - axis]});
  }
  return true;
}

bool finish_image(TaskBuilder& task) {
  const TaskBuilder::Extents in = task.shape();
  if (task.rng().chance(0.4)) {
    task.apply_reshaping("mean", "axes = [2, 3]", {in[0], in[1]});
  } else {
    const std::string op = task.rng().chance(0.5) ? "max_pool2d" : "avg_pool2d";
    task.apply_reshaping(op, "kernel = [2, 2], stride = [2, 2]",
                         {in[0], in[1], "(" + in[2] + ") / 2", "(" + in[3] + ") / 2"});
  }
  return true;
}

void take_step(TaskBuilder& task, const Steps& steps) {
  int total = 0;
  for (const Step& step : steps) total += step.weight;
  for (;;) {
    auto ticket = static_cast<int>(task.rng().below(static_cast<std::uint64_t>(total)));
    const auto chosen =
        std::ranges::find_if(steps, [&](const Step& step) { return (ticket -= step.weight) < 0; });
    if (chosen->apply(task)) return;
  }
}

void start_matrix(TaskBuilder& task) {
  const std::string rows = task.dim("M", pick<6>(task.rng(), {32, 64, 128, 256, 512, 1024}), 2);
  const std::string columns = task.dim("K", pick<6>(task.rng(), {64, 128, 256, 384, 768, 1024}), 2);
  while (task.extent(rows) * task.extent(columns) > task.max_elements()) {
    task.halve(task.extent(rows) > task.extent(columns) ? rows : columns);
  }
  task.start(task.tensor("x", {rows, columns}), {rows, columns});
}

void start_image(TaskBuilder& task) {
  const std::string batch = task.dim("batch", pick<3>(task.rng(), {1, 2, 4}));
  const std::string channels = task.dim("cin", pick<4>(task.rng(), {3, 8, 16, 32}));
  const std::string height = task.dim("H", pick<3>(task.rng(), {14, 24, 32}), 4);
  const std::string width = task.dim("W", pick<3>(task.rng(), {14, 24, 32}), 4);
  constexpr std::int64_t kMostChannels = 32;
  while (task.extent(batch) * kMostChannels * task.extent(height) * task.extent(width) >
             task.max_elements() &&
         task.extent(width) > 4) {
    for (const std::string& dim : {batch, height, width}) task.halve(dim);
  }
  const TaskBuilder::Extents shape = {batch, channels, height, width};
  task.start(task.tensor("x", shape), shape);
}

}  // namespace

TaskBuilder sample_task(Rng& rng, const GenerateOptions& options) {
  static const Steps kMatrixSteps = {{4, activation},    {1, constant},      {2, residual},
                                     {1, gate},          {2, bias},          {1, move},
                                     {1, feature_scale}, {3, normalisation}, {3, matmul}};
  static const Steps kImageSteps = {
      {3, activation}, {1, constant}, {1, residual}, {2, bias}, {3, convolution}};
  TaskBuilder task(rng, options.max_elements);
  const bool image = rng.chance(0.25);
  image ? start_image(task) : start_matrix(task);
  const auto nodes = static_cast<int>(rng.between(options.min_nodes, options.max_nodes));
  const bool finish = rng.chance(0.4);
  while (task.node_count() < nodes - (finish ? 1 : 0)) take_step(task, image ? kImageSteps : kMatrixSteps);
  if (finish) image ? finish_image(task) : finish_matrix(task);
  return task;
}

}  // namespace lathe

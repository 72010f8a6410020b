#include "task/lint/cases.h"

#include <algorithm>
#include <cmath>

#include "task/ops/support/bounds.h"

namespace lathe {
namespace {

constexpr double kMaxFlops = 1e6;
constexpr double kMaxElements = 1e5;
constexpr std::int64_t kSmallExtent = 8;

bool small_enough(const BoundTask& task) {
  return task.flops <= kMaxFlops && task.value_elements() <= kMaxElements;
}

/// The dims with the largest possible dim halved, or all of them if the domain couples them; `dims`
/// if neither binds.
Dims halved(const TaskSpec& spec, const Dims& dims) {
  std::vector<std::string> order = spec.dim_names;
  std::ranges::sort(order, std::greater{}, [&](const std::string& name) { return dims.at(name); });
  for (const std::string& name : order) {
    Dims smaller = dims;
    smaller[name] = std::max(spec.dim_ranges.at(name).low, dims.at(name) / 2);
    if (dims.at(name) > kSmallExtent && smaller != dims && lathe::bind(spec, smaller).ok()) return smaller;
  }
  Dims smaller = dims;
  for (auto& [name, extent] : smaller) extent = std::max(spec.dim_ranges.at(name).low, extent / 2);
  return lathe::bind(spec, smaller).ok() ? smaller : dims;
}

}  // namespace

Dims lint_shape(const TaskSpec& spec) {
  Dims dims = spec.shapes.front().dims;
  if (spec.fixed) return dims;
  for (int round = 0; round < 64; ++round) {
    const Result<BoundTask> task = lathe::bind(spec, dims);
    if (!task.ok() || small_enough(*task)) return dims;
    Dims smaller = halved(spec, dims);
    if (smaller == dims) return dims;
    dims = std::move(smaller);
  }
  return dims;
}

Comparison judge(const Expected& expected, std::span<const double> values) {
  const HostTensor tensor = HostTensor::encode(expected.dtype, expected.value.shape, values);
  return compare(expected, tensor.bytes, nullptr);
}

Result<std::map<std::string, Value>> rounded_run(const BoundTask& task, const Sample& sample, Rng& rng) {
  std::map<std::string, Value> values;
  const TaskSpec& spec = *task.spec;
  for (std::size_t i = 0; i < spec.tensors.size(); ++i) {
    values[spec.tensors[i].name] = {sample.inputs[i].shape, sample.inputs[i].decode(), {}};
  }
  for (std::size_t i = 0; i < spec.nodes.size(); ++i) {
    const NodeDecl& node = spec.nodes[i];
    std::vector<const Value*> in;
    for (const std::string& name : node.in) in.push_back(&values.at(name));
    const OpSite site = task.site(i);
    Value out;
    node.op->evaluate(site, in, numerics_of(node, sample.numerics), out);
    // Where no result is negative, as of a sum of squares, no rounding makes one so.
    const bool signed_results = std::ranges::any_of(out.data, [](double y) { return y < 0; });
    // In fp64 this run rounds as kernels do: once in the op, once when an error is added.
    const double rounded = node.type.dtype == DType::kF64 ? 2 * info(DType::kF64).unit_roundoff : 0;
    for (std::size_t k = 0; k < out.err.size(); ++k) {
      const double left = out.err[k] - rounded * std::fabs(out.data[k]);
      // Added to an exact zero, what allows for flushed denormals would take branches that no
      // kernel takes. An infinity without an error leaves no number.
      if (!(left > ops::kFlushes)) continue;
      out.data[k] += (2 * rng.uniform() - 1) * left;
      if (!signed_results && out.data[k] < 0) out.data[k] = 0;
    }
    out.err.clear();
    out.shape = site.out;
    values[node.out] = std::move(out);
  }
  return values;
}

}  // namespace lathe

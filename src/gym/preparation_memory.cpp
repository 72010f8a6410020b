#include "gym/preparation_memory.h"

#include <fmt/format.h>

#include <algorithm>

namespace lathe {
namespace {

constexpr double kGigabyte = 1e9;
constexpr double kReferenceBytes = 16;  // an fp64 value and its bound
constexpr double kFewestTimingTrials = 3;

double bytes_of_buffers(const BoundTask& task) {
  double bytes = 0;
  for (const TensorDecl& tensor : task.spec->tensors)
    bytes += static_cast<double>(element_count(task.shape_of(tensor.name))) *
             static_cast<double>(info(tensor.dtype).bytes);
  for (const OutputDecl& output : task.spec->outputs)
    bytes += static_cast<double>(element_count(task.shape_of(output.name))) *
             static_cast<double>(info(output.dtype).bytes);
  return bytes;
}

/// What stays of a shape's trials.
double bytes_kept(const BenchShape& shape) {
  const double buffers = bytes_of_buffers(shape.task);
  const double whole = kReferenceBytes * shape.task.output_elements();
  if (shape.large)
    return buffers + kReferenceBytes * std::min(shape.task.output_elements(), kLargePartElements);
  const double in_part = kReferenceBytes * std::min(shape.task.output_elements(), kHugeElements / 4);
  const bool huge = shape.task.output_elements() > kHugeElements;
  const auto trials = static_cast<double>(all_distributions().size());
  const double verify = trials * buffers + (huge ? whole + (trials - 1) * in_part : trials * whole);
  return verify + (shape.hidden ? 0 : kFewestTimingTrials * buffers);
}

/// What one evaluation of the reference has at once. Slices are small, but for their results.
double bytes_on_the_way(const Reference& reference, const BenchShape& shape) {
  const bool slices = reference.part_share(shape.task, 1) < 1;
  return kReferenceBytes * (slices ? 2 * shape.task.output_elements() : shape.task.value_elements());
}

}  // namespace

double preparation_bytes(const Reference& reference, std::span<const BenchShape> shapes, int threads) {
  double kept = 0;
  std::vector<double> on_the_way;
  for (const BenchShape& shape : shapes) {
    kept += bytes_kept(shape);
    on_the_way.insert(on_the_way.end(), shape.large ? 1 : all_distributions().size(),
                      bytes_on_the_way(reference, shape));
  }
  std::ranges::sort(on_the_way, std::greater{});
  on_the_way.resize(std::min(on_the_way.size(), static_cast<std::size_t>(std::max(1, threads))));
  for (const double bytes : on_the_way) kept += bytes;
  return kept;
}

Status check_preparation_memory(const Reference& reference, std::span<const BenchShape> shapes, int threads,
                                std::int64_t available) {
  const double needed = preparation_bytes(reference, shapes, threads);
  if (shapes.empty() || needed <= static_cast<double>(available)) return Ok{};
  const auto size = [](const BenchShape& shape) { return shape.hidden ? 0 : shape.task.value_elements(); };
  const BenchShape& largest = *std::ranges::max_element(shapes, {}, size);
  const TaskSpec& task = *largest.task.spec;
  return Error{
      ErrorCode::kUnavailable,
      fmt::format("preparing '{}' would take about {:.3g} GB of memory, and {:.3g} GB are there: at {} its "
                  "values have {:.3g} elements, each with an fp64 reference and its bound",
                  task.name, needed / kGigabyte, static_cast<double>(available) / kGigabyte, largest.name,
                  largest.task.value_elements()),
      "choose smaller shapes and lower ends of the dims' ranges; `lathe tasks show` says which values "
      "are so large",
      {task.path, 0, 0}};
}

}  // namespace lathe

#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "task/bound_task.h"
#include "task/products.h"

namespace lathe {

/// What one output must be, or neighbouring elements of it. For kArgmax, `source` holds the compared values
/// with the reduced axis last and `value` the index.
struct Expected {
  std::string name;
  DType dtype = DType::kF32;
  CompareKind compare = CompareKind::kBound;
  Value value;             ///< err is the full tolerance: propagated bound, output rounding, task.tolerance
  Value source;            ///< only for kArgmax
  std::size_t before = 0;  ///< the output's elements before those that `value` tells of
  std::size_t behind = 0;  ///< and behind them

  std::size_t elements() const { return before + value.data.size() + behind; }
  std::size_t bytes() const { return elements() * info(dtype).bytes; }
  /// Of the whole output's bytes, those that `value` tells of.
  std::span<const std::byte> known_part(std::span<const std::byte> output) const {
    const std::size_t size = info(dtype).bytes;
    return output.subspan(before * size, value.data.size() * size);
  }
};

/// The meaning of a task, in fp64. Thread-safe. Runs beside no candidate code.
class Reference {
 public:
  virtual ~Reference() = default;
  virtual Result<std::vector<Expected>> evaluate(const BoundTask& task, std::span<const HostTensor> inputs,
                                                 const Numerics& numerics) const = 0;
  /// What evaluate() would say of some neighbouring elements of each output, at least about `elements` of
  /// them at a place that `secret` draws; of all where the task does not fall apart (task/slices.h).
  virtual Result<std::vector<Expected>> evaluate_part(const BoundTask& task,
                                                      std::span<const HostTensor> inputs,
                                                      const Numerics& numerics, double elements,
                                                      const Seed& secret) const {
    (void)elements, (void)secret;
    return evaluate(task, inputs, numerics);
  }
  /// How much of the task such a part is, 1 for all.
  virtual double part_share(const BoundTask& task, double elements) const {
    (void)task, (void)elements;
    return 1;
  }
};

/// The reference that the task names; `products`, where given, must outlive it. Errors: a native source that
/// does not compile.
Result<std::unique_ptr<Reference>> make_reference(const TaskSpec& spec, ProductEngine* products = nullptr);

/// A reference written in C++: `extern "C" void reference(const double* const* in, double* const* out,
/// const long long* dims)`, row-major, in the order of the task's tensors, outputs and dims. The source is
/// the task's author's, so it is trusted, but it runs in a child process under a time limit.
/// Its results come without an analysis of rounding; each element may err by
/// tolerance * (64 u |y| + 8 u max|y|). Errors: the source is missing or does not compile.
Result<std::unique_ptr<Reference>> make_native_reference(const TaskSpec& spec);

/// How a graph is evaluated otherwise than by its ops alone.
struct GraphEvaluation {
  std::string_view override_node = {};  ///< if not empty, evaluated by `mutant` instead of its op
  const OpMutant* mutant = nullptr;
  ProductEngine* products = nullptr;
};

/// Every node's value, for lint and tests (graph tasks only).
Result<std::map<std::string, Value>> evaluate_graph(const BoundTask& task, std::span<const HostTensor> inputs,
                                                    const Numerics& numerics,
                                                    const GraphEvaluation& how = {});

}  // namespace lathe

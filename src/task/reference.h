#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "task/bound_task.h"

namespace lathe {

/// What one output must be. For kArgmax, `source` holds the compared values with the reduced axis last and
/// `value` the index.
struct Expected {
  std::string name;
  DType dtype = DType::kF32;
  CompareKind compare = CompareKind::kBound;
  Value value;   ///< err is the full tolerance: propagated bound, output rounding, task.tolerance
  Value source;  ///< only for kArgmax
};

/// The meaning of a task, in fp64. Thread-safe. Runs beside no candidate code.
class Reference {
 public:
  virtual ~Reference() = default;
  virtual Result<std::vector<Expected>> evaluate(const BoundTask& task, std::span<const HostTensor> inputs,
                                                 const Numerics& numerics) const = 0;
};

/// The reference that the task names. Errors: a native source that does not compile.
Result<std::unique_ptr<Reference>> make_reference(const TaskSpec& spec);

/// Every node's value, for lint and tests (graph tasks only). `override_node`, if not empty, is evaluated by
/// `mutant` instead of its op.
Result<std::map<std::string, Value>> evaluate_graph(const BoundTask& task, std::span<const HostTensor> inputs,
                                                    const Numerics& numerics,
                                                    std::string_view override_node = {},
                                                    const OpMutant* mutant = nullptr);

}  // namespace lathe

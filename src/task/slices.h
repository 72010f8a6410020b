#pragma once

#include <memory>
#include <optional>
#include <string>

#include "task/reference.h"

namespace lathe {

/// The dim whose indices never meet: what an output holds at index i of it depends, of the tensors that have
/// it, on their index i alone. Outputs have it as their first axis. A dim serves if on small shapes every
/// slice's reference equals that part of the whole's up to its own rounding. nullopt: none does.
std::optional<std::string> independent_dim(const TaskSpec& spec, const Reference& whole);

/// The task at indices [begin, end) of `dim`. Errors: outside the task's domain.
Result<BoundTask> bind_slice(const BoundTask& task, const std::string& dim, std::int64_t begin,
                             std::int64_t end);
/// Its inputs, of those of the whole.
std::vector<HostTensor> slice_inputs(const BoundTask& task, std::span<const HostTensor> inputs,
                                     const std::string& dim, std::int64_t begin, std::int64_t end);

/// Evaluates large tasks in slices, side by side, and parts of them without the rest; with a product engine,
/// whole what is worth moving there. The same values as `whole` gives.
std::unique_ptr<Reference> make_sliced(std::unique_ptr<Reference> whole, const TaskSpec& spec,
                                       bool has_engine = false);

}  // namespace lathe

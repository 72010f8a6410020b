#pragma once

#include <memory>
#include <optional>
#include <string>

#include "task/reference.h"

namespace lathe {

/// A dim along which the task is independent, like a batch: output elements at index i depend only
/// on index i of the tensors that have the dim. It is the first axis of every output. Found
/// empirically: on small shapes, the reference of each slice must equal that part of the whole
/// reference up to rounding. nullopt if there is no such dim.
std::optional<std::string> independent_dim(const TaskSpec& spec, const Reference& whole);

/// A reference with the same values as `whole` that evaluates large tasks slice by slice in
/// parallel, and parts of outputs without the rest. Tasks that gain from the product engine are
/// evaluated as a whole.
std::unique_ptr<Reference> make_sliced(std::unique_ptr<Reference> whole, const TaskSpec& spec,
                                       bool has_engine = false);

}  // namespace lathe

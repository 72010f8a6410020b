#pragma once

#include "task/reference.h"

/// Outputs that are indices, which are judged by the values that they point at.
namespace lathe {

/// The argsort whose result the node holds: itself, or one from which slices along its axis cut it;
/// nullptr if there is none.
const NodeDecl* ranking_of(const TaskSpec& spec, const NodeDecl& node);

/// Sets what an argmax or argmin of `x` is judged by: the values, negated for an argmin.
void expect_extremum(const BoundTask& task, const NodeDecl& node, const Value& x, Expected& expected);

/// Sets what an argsort of `x`, or a slice of it, is judged by: the values, and how far those of
/// each rank may lie from where the reference has them. `expected.value` must hold the indices.
void expect_ranks(const BoundTask& task, const NodeDecl& node, const Value& x, Expected& expected);

}  // namespace lathe

#pragma once

#include <vector>

#include "task/bound_task.h"
#include "task/fill_tensor.h"

namespace lathe {

/// Values of a task's input that tell the ops which read it from their mistakes, also through moves
/// and where a number is added to it, it is multiplied with one, or its sign is dropped.
std::vector<double> telling_values(const TaskSpec& spec, const TensorDecl& decl);

/// Along which of its elements the graph reduces, orders or scans the input, or what is made of it
/// element by element; its rows are not among them.
std::vector<Line> lines_taken_together(const BoundTask& task, const TensorDecl& decl);

}  // namespace lathe

#pragma once

#include <memory>
#include <vector>

#include "task/op.h"

/// Each file of ops adds what it defines; registry.cpp calls them all.
namespace lathe::ops {

using OpList = std::vector<std::unique_ptr<const Op>>;

void add_activations(OpList& list);
void add_binary_math(OpList& list);
void add_bias_add(OpList& list);
void add_matmul(OpList& list);
void add_sums(OpList& list);
void add_softmax(OpList& list);
void add_layer_norm(OpList& list);

}  // namespace lathe::ops

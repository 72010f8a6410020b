#pragma once

#include "model/checkpoint.h"
#include "train/packing.h"

namespace lathe::train {

/// Floating-point operations that a step needs: twice each product of matrices forward, twice that
/// backward, and the half of attention that a token may see. Logits count for predicted tokens
/// only. What an implementation computes twice counts once.
double training_flops(const ModelConfig& config, const Batch& batch);

}  // namespace lathe::train

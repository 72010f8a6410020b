#pragma once

#include <string>

#include "sandbox/channel.h"

namespace lathe::cuda {

/// The part of the naive grader that shares its context with the candidate: one process for both kernels, one
/// set of inputs, memory that keeps the reference's answer in freed blocks, no look at error codes, events on
/// one stream, no canaries. Serves until the broker closes the channel.
void serve_naive_grading(const Channel& channel, const std::string& include_folder);

}  // namespace lathe::cuda

#pragma once

#include <string>

#include "sandbox/channel.h"

namespace lathe::cuda {

/// The part of the naive grader that shares its process and GPU context with the candidate. Serves
/// grading jobs until the broker closes the channel, with the deliberate mistakes that
/// make_naive_cuda_grader() lists.
void serve_naive_grading(const Channel& channel, const std::string& include_folder);

}  // namespace lathe::cuda

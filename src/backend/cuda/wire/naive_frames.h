#pragma once

#include <string_view>

namespace lathe::cuda {

/// Messages of the naive grader's process, which sends kNaiveReady once it can start. A compile
/// frame carries the source. A grade frame carries the candidate's Load and cubin, the honest
/// kernel's, and the inputs; the answer is a line for read_naive_line(). The answer to a compile
/// frame is kNaiveObject with the cubin, or such a line.
inline constexpr std::string_view kNaiveReady = "ready", kNaiveCompile = "compile", kNaiveGrade = "grade",
                                  kNaiveObject = "object";

}  // namespace lathe::cuda

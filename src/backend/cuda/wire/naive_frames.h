#pragma once

#include <string_view>

namespace lathe::cuda {

/// What a process of the naive grader says once it can begin, and what it is asked. A compile frame comes
/// with the text, a grade frame with two pairs of Load and cubin, the candidate's and the honest kernel's,
/// and the inputs. It answers a grade frame with a line, see read_naive_line(), and a compile frame with
/// kNaiveObject and the cubin, or with a line.
inline constexpr std::string_view kNaiveReady = "ready", kNaiveCompile = "compile", kNaiveGrade = "grade",
                                  kNaiveObject = "object";

}  // namespace lathe::cuda

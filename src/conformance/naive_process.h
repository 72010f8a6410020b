#pragma once

#include "backend/naive_grading.h"

namespace lathe {

/// The part of the naive grader that shares its process with the candidate. Returns the line that it would
/// print: "PASS <speedup>" or "FAIL <why>".
std::string grade_in_this_process(const NaiveJob& job);

}  // namespace lathe

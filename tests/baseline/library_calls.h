#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "candidate/candidate.h"
#include "tests/baseline/graph_case.h"

namespace lathe {

/// The library calls of a plan at the task's first shape, as a launcher gets them.
std::vector<std::string> calls_of(const TaskSpec& task, const Candidate& candidate);

/// Of the peer on a GPU that leaves to `library` all that it can.
std::vector<std::string> calls_of(const GraphCase& graph_case, std::string_view library);

}  // namespace lathe

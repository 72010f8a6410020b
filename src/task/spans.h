#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "task/spec.h"

namespace lathe {

/// By dim how many neighbours along it some op takes together or steps over, as far as the task
/// gives a number: a window's width with its dilation, a shift, a padding, a diagonal's distance.
/// What is shorter has no element whose window lies inside. Dims without such an op are left out.
std::map<std::string, std::int64_t, std::less<>> longest_spans(const TaskSpec& spec);

}  // namespace lathe

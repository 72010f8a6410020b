#pragma once

#include <string>
#include <vector>

#include "tests/baseline/graph_case.h"

namespace lathe {

/// Another honest kernel for a task, as a candidate's text.
struct HonestVariant {
  GraphCase task;
  std::string name;
  std::string text;
};

/// Running, pairwise, compensated and vector-lane sums, exp with an error of 2 ulp, accumulators
/// that start from the bias: on tasks of one sum a row, one sum in all, and one a column.
std::vector<HonestVariant> honest_variants();

}  // namespace lathe

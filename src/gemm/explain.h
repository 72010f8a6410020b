#pragma once

#include <cstddef>

#include "gemm/journal.h"

namespace lathe::gemm {

/// What the search found, as Markdown computed from the journal alone: which skeletons and knobs
/// won where, how knobs go with extents, what the wrong choice of one knob costs, and how far the
/// model is off.
std::string explain(const Journal& journal, int sm_count);

/// For each of the journal's sizes the first `count` kernels by the model, and of those that the
/// tuner tries, as CSV.
std::string ranking(const Journal& journal, int sm_count, std::size_t count);

}  // namespace lathe::gemm

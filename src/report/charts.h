#pragma once

#include <string>

#include "report/run_view.h"

namespace lathe {

/// Each returns an HTML fragment, or a sentence that says why there is nothing to draw.
std::string progress_chart(const RunView& view);  ///< best so far against evaluations
std::string roofline_chart(const RunView& view);  ///< measured peaks, naive, baselines, best
std::string interval_chart(const RunView& view);  ///< the best kernel's speedups with intervals, losses first
std::string lineage_chart(const RunView& view);   ///< the ancestors of the best kernel

}  // namespace lathe

#pragma once

#include "data/dataset.h"

namespace lathe {

/// What a data set holds, as Markdown: examples by split, language and kind with their tokens,
/// evaluations by verdict, pattern and dtype, speedups over the best peer, what it cost, and
/// whether a held-out composition occurs in training.
Result<std::string> data_card(const std::vector<DataTask>& tasks, const std::vector<LanguageData>& data);

}  // namespace lathe

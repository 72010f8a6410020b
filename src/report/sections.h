#pragma once

#include <string>

#include "report/run_view.h"

namespace lathe {

/// HTML fragments of the page, in its order.
std::string page_header(const RunView& view);
std::string summary_cards(const RunView& view);
std::string baseline_table(const RunView& view);  ///< losses first
std::string verdict_table(const RunView& view);
std::string evidence_table(const RunView& view);
std::string kernel_listing(const RunView& view);  ///< the winner, as a diff against its parent
std::string details_section(const RunView& view);

}  // namespace lathe

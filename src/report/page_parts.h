#pragma once

#include <string>
#include <string_view>

namespace lathe {

/// What pages are made of, as HTML. Texts are escaped, bodies are HTML already.
std::string page_text(std::string_view title, const std::string& body);  ///< a file without scripts
std::string header_text(std::string_view title, std::string_view meta);
std::string section(std::string_view title, const std::string& body);
std::string card(std::string_view label, std::string_view value, std::string_view note);
std::string cell(std::string_view text);
std::string number_cell(std::string_view text);
/// A bar of `share` of the column's width.
std::string bar_cell(double share, std::string_view css_class);

/// The page's style sheet: light or dark by the reader's preference, for screens from 360 pixels
/// wide.
extern const char* const kPageStyle;

}  // namespace lathe

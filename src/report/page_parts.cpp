#include "report/page_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/html.h"

namespace lathe {

std::string page_text(std::string_view title, const std::string& body) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
         "'unsafe-inline'\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
         escape_html(title) + " · Lathe</title>\n<style>" + kPageStyle + "</style>\n</head>\n<body>\n" +
         body +
         "<footer><p>Made by Lathe. This page is one file and loads "
         "nothing.</p></footer>\n</body>\n</html>\n";
}

std::string header_text(std::string_view title, std::string_view meta) {
  return fmt::format("<header><p class=\"brand\">Lathe</p><h1>{}</h1><p class=\"meta\">{}</p></header>\n",
                     escape_html(title), escape_html(meta));
}

std::string section(std::string_view title, const std::string& body) {
  return fmt::format("<section><h2>{}</h2>\n{}</section>\n", title, body);
}

std::string card(std::string_view label, std::string_view value, std::string_view note) {
  return fmt::format("<div class=\"card\"><dt>{}</dt><dd>{}</dd><dd class=\"note\">{}</dd></div>\n", label,
                     escape_html(value), escape_html(note));
}

std::string cell(std::string_view text) { return "<td>" + escape_html(text) + "</td>"; }
std::string number_cell(std::string_view text) { return "<td class=\"num\">" + escape_html(text) + "</td>"; }

std::string bar_cell(double share, std::string_view css_class) {
  return fmt::format("<td class=\"bar\"><i class=\"{}\" style=\"width:{:.1f}%\"></i></td>", css_class,
                     100 * std::clamp(share, 0.0, 1.0));
}

}  // namespace lathe

#pragma once

#include <cctype>
#include <string>
#include <string_view>

namespace lathe::serve {

/// What stands before "://" in a URL, in lower case, as schemes mean the same in any. Empty where
/// there is none: a path.
inline std::string url_scheme(std::string_view text) {
  const std::size_t end = text.find("://");
  if (end == std::string_view::npos || end == 0) return {};
  std::string scheme;
  for (const char c : text.substr(0, end)) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '+' && c != '-' && c != '.') return {};
    scheme.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  return scheme;
}

/// The URL with its scheme in lower case.
inline std::string with_plain_scheme(std::string_view url) {
  const std::string scheme = url_scheme(url);
  return scheme + std::string(url.substr(scheme.size()));
}

}  // namespace lathe::serve

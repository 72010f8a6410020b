#include "report/html.h"

#include <fmt/format.h>

#include <cmath>

#include "base/visible_text.h"

namespace lathe {
std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  while (!text.empty()) {
    const auto [code, length] = next_code_point(text);
    switch (code) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case 0xfffd:
        out += "\xef\xbf\xbd";
        break;
      default:
        if (is_disguising(code)) {
          out += fmt::format("⟨U+{:04X}⟩", code);
        } else {
          out += text.substr(0, length);
        }
    }
    text.remove_prefix(length);
  }
  return out;
}

std::string shorten(std::string_view text, std::size_t characters) {
  std::size_t end = 0, last = 0;
  for (std::size_t count = 0; end < text.size(); ++count) {
    if (count == characters) return std::string(text.substr(0, last)) + "…";
    last = end;
    end += next_code_point(text.substr(end)).second;
  }
  return std::string(text);
}

std::string format_ns(double ns) {
  if (!(ns > 0) || !std::isfinite(ns)) return "–";
  const char* const units[] = {"ns", "µs", "ms", "s"};
  std::size_t unit = 0;
  for (; ns >= 999.5 && unit < 3; ++unit) ns /= 1000;
  return fmt::format("{:.{}f} {}", ns, ns < 10 ? 2 : ns < 100 ? 1 : 0, units[unit]);
}

std::string format_ratio(double ratio) {
  if (!std::isfinite(ratio)) return ratio > 0 ? "∞" : "–";
  return fmt::format("{:.{}f}×", ratio, ratio < 10 ? 2 : ratio < 100 ? 1 : 0);
}

std::string format_interval(Interval ratio) {
  const auto number = [](double x) {
    return std::isfinite(x) ? fmt::format("{:.{}f}", x, x < 10 ? 2 : x < 100 ? 1 : 0) : std::string("∞");
  };
  return fmt::format("{} [{}, {}]", format_ratio(ratio.mid), number(ratio.low), number(ratio.high));
}

std::string format_si(double value, std::string_view unit) {
  if (!std::isfinite(value)) return "–";
  const char* const prefixes[] = {"", "k", "M", "G", "T", "P"};
  std::size_t prefix = 0;
  for (; std::fabs(value) >= 999.5 && prefix < 5; ++prefix) value /= 1000;
  const double size = std::fabs(value);
  return fmt::format("{:.{}f} {}{}", value,
                     size == 0 || size >= 100 ? 0
                     : size >= 10             ? 1
                                              : 2,
                     prefixes[prefix], unit);
}

std::string format_percent(double share) {
  return std::isfinite(share) ? fmt::format("{:.{}f}%", 100 * share, share < 0.995 ? 1 : 0) : "–";
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "–";
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

}  // namespace lathe

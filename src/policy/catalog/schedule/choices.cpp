#include "policy/catalog/schedule/choices.h"

#include <algorithm>
#include <charconv>

namespace lathe::catalog {

std::string to_text(const Schedule& schedule) {
  std::string text;
  for (const auto& [name, value] : schedule) {
    if (!text.empty()) text += ',';
    text += name + '=' + std::to_string(value);
  }
  return text;
}

Schedule parse_schedule(std::string_view text) {
  Schedule schedule;
  while (!text.empty()) {
    const std::string_view entry = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), entry.size() + 1));
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    int value = 0;
    const std::string_view digits = entry.substr(equals + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error == std::errc{} && end == digits.data() + digits.size())
      schedule.insert_or_assign(std::string(entry.substr(0, equals)), value);
  }
  return schedule;
}

int Choices::pick(const std::string& name, const std::vector<int>& allowed, int fallback) {
  int value = fallback;
  const auto wanted = wanted_.find(name);
  if (wanted != wanted_.end() && std::ranges::find(allowed, wanted->second) != allowed.end()) {
    value = wanted->second;
  } else if (random_ != nullptr) {
    value = allowed[random_->below(allowed.size())];
  }
  if (taken_.insert_or_assign(name, value).second) order_.push_back(name);
  space_.insert_or_assign(name, allowed);
  return value;
}

}  // namespace lathe::catalog

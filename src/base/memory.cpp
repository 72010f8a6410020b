#include "base/memory.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/fd.h"

namespace lathe {
namespace {

std::optional<std::int64_t> number_in(std::string_view text) {
  const std::size_t digits = text.find_first_of("0123456789");
  if (digits == std::string_view::npos) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + digits, text.data() + text.size(), value);
  return error == std::errc{} ? std::optional(value) : std::nullopt;
}

/// The number behind `key`, which begins a line.
std::optional<std::int64_t> entry(std::string_view text, std::string_view key) {
  for (std::size_t at = 0; at < text.size(); at = std::min(text.find('\n', at), text.size() - 1) + 1)
    if (text.substr(at).starts_with(key)) return number_in(text.substr(at + key.size()));
  return std::nullopt;
}

std::optional<std::int64_t> number_of(const std::string& file) {
  const auto text = read_file(file);
  return text.ok() ? number_in(*text) : std::nullopt;  // "max" is no limit
}

/// What the limit of one control group leaves; memory that only caches files can be taken back.
std::optional<std::int64_t> left_of_group(const std::string& folder) {
  const auto limit = number_of(folder + "/memory.max"), used = number_of(folder + "/memory.current");
  if (!limit || !used) return std::nullopt;
  const auto statistics = read_file(folder + "/memory.stat");
  const std::int64_t cached = statistics.ok() ? entry(*statistics, "inactive_file ").value_or(0) : 0;
  return std::max<std::int64_t>(0, *limit - *used + cached);
}

std::optional<std::int64_t> limit_of_group(const std::string& folder) {
  return number_of(folder + "/memory.max");
}

/// The least of what /proc/meminfo says behind `key` and what `of_group` says of this process's
/// control groups: each also has the limits of those that it is in.
std::optional<std::int64_t> least_of(const std::string& root, std::string_view key,
                                     std::optional<std::int64_t> (*of_group)(const std::string& folder)) {
  const auto information = read_file(root + "/proc/meminfo");
  const auto kilobytes = information.ok() ? entry(*information, key) : std::nullopt;
  std::optional<std::int64_t> least;
  if (kilobytes) least = *kilobytes * 1024;
  const auto groups = read_file(root + "/proc/self/cgroup");
  const std::size_t at = groups.ok() ? groups->find("0::") : std::string::npos;
  std::string group = at == std::string::npos ? "" : groups->substr(at + 3, groups->find('\n', at) - at - 3);
  while (true) {
    while (group.ends_with('/')) group.pop_back();
    if (const auto bytes = of_group(root + "/sys/fs/cgroup" + group))
      least = std::min(*bytes, least.value_or(*bytes));
    if (group.empty()) return least;
    group.resize(std::min(group.rfind('/'), group.size()));
  }
}

}  // namespace

std::optional<std::int64_t> available_memory(const std::string& root) {
  return least_of(root, "MemAvailable:", left_of_group);
}

std::optional<std::int64_t> total_memory(const std::string& root) {
  return least_of(root, "MemTotal:", limit_of_group);
}

}  // namespace lathe

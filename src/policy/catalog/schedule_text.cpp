#include "policy/catalog/schedule_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <set>

#include "base/visible_text.h"

namespace lathe::catalog {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 10;
constexpr std::size_t kShownWord = 60;

/// The group of "g12.unroll"; nullopt for the whole program's.
std::optional<std::size_t> group_of(std::string_view knob) {
  std::size_t group = 0;
  if (!knob.starts_with('g')) return std::nullopt;
  const auto [end, error] = std::from_chars(knob.data() + 1, knob.data() + knob.size(), group);
  if (error != std::errc{} || end == knob.data() + knob.size() || *end != '.') return std::nullopt;
  return group;
}

std::string shown(std::string_view word) { return visible_line(word.substr(0, kShownWord)); }

struct Word {
  std::string_view text;
  SourcePos where;
};

/// What a text says of one knob.
struct Entry {
  Word word;
  std::string knob;  ///< by its full name
  std::string name;
  int value = 0;
  std::optional<std::size_t> group;
};

/// A schedule's text, before anybody knows what the task has.
struct Parsed {
  std::vector<Entry> entries;
  std::vector<Word> patterns;
};

std::vector<std::vector<Word>> words_of(std::string_view text) {
  std::vector<std::vector<Word>> lines;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    std::vector<Word> words;
    for (std::size_t at = 0; at < line.size();) {
      const std::size_t begin = line.find_first_not_of(" \t\r,;", at);
      if (begin == std::string_view::npos) break;
      at = std::min(line.find_first_of(" \t\r,;", begin), line.size());
      words.push_back({line.substr(begin, at - begin), {"schedule", number, static_cast<int>(begin) + 1}});
    }
    if (!words.empty()) lines.push_back(std::move(words));
  }
  return lines;
}

Result<Parsed> parse(std::string_view text) {
  if (text.size() > kMostBytes)
    return invalid(fmt::format("a schedule of {} bytes", text.size()), "a schedule has a few lines");
  Parsed parsed;
  std::set<std::string> seen;
  for (const auto& words : words_of(text)) {
    const bool kernel = words.front().text.find('=') == std::string_view::npos;
    if (kernel) parsed.patterns.push_back(words.front());
    for (std::size_t i = kernel ? 1 : 0; i < words.size(); ++i) {
      const Word& word = words[i];
      const std::size_t equals = word.text.find('=');
      if (equals == std::string_view::npos || equals == 0)
        return invalid(fmt::format("'{}' is not name=value", shown(word.text)),
                       "a line has a pattern, then knobs as name=value", word.where);
      Entry entry{.word = word, .name = std::string(word.text.substr(0, equals))};
      const std::string_view digits = word.text.substr(equals + 1);
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), entry.value);
      if (error != std::errc{} || end != digits.data() + digits.size())
        return invalid(fmt::format("'{}' is no whole number", shown(digits)), "", word.where);
      if (kernel) entry.group = parsed.patterns.size() - 1;
      entry.knob = entry.group ? fmt::format("g{}.{}", *entry.group, entry.name) : entry.name;
      if (!seen.insert(entry.knob).second)
        return invalid(fmt::format("'{}' is given twice", shown(entry.name)), "", word.where);
      parsed.entries.push_back(std::move(entry));
    }
  }
  return parsed;
}

std::string menu(const ScheduleLine& line) {
  std::vector<std::string> knobs;
  for (const Slot& slot : line.slots)
    knobs.push_back(fmt::format("{}={}", slot.name, fmt::join(slot.allowed, "|")));
  if (knobs.empty()) return "no knobs";
  return fmt::format("{}", fmt::join(knobs, ", "));
}

/// The whole program's knobs as one line, or a group's.
ScheduleLine line_of(const Emission& emission, std::optional<std::size_t> group) {
  ScheduleLine line;
  if (group) line.pattern = emission.patterns[*group];
  for (const std::string& knob : emission.order) {
    const auto& allowed = emission.space.at(knob);
    if (allowed.size() < 2 || group_of(knob) != group) continue;
    line.slots.push_back(
        {knob, group ? knob.substr(knob.find('.') + 1) : knob, allowed, emission.schedule.at(knob)});
  }
  return line;
}

/// The first thing in the text that the task has not.
Status check(const Parsed& parsed, const Emission& emission) {
  for (std::size_t i = 0; i < parsed.patterns.size(); ++i) {
    const Word& word = parsed.patterns[i];
    const auto kernels = fmt::format("{}", fmt::join(emission.patterns, ", "));
    if (i >= emission.patterns.size())
      return invalid(fmt::format("'{}' is one kernel too many", shown(word.text)),
                     "with these choices the kernels are: " + kernels, word.where);
    if (word.text != emission.patterns[i])
      return invalid(fmt::format("kernel {} is no '{}'", i + 1, shown(word.text)),
                     "with these choices the kernels are: " + kernels, word.where);
  }
  for (const Entry& entry : parsed.entries) {
    const ScheduleLine line = line_of(emission, entry.group);
    const auto slot = std::ranges::find(line.slots, entry.name, &Slot::name);
    const std::string owner = entry.group ? line.pattern : "the whole program";
    if (slot == line.slots.end())
      return invalid(fmt::format("'{}' is no knob of {} here", shown(entry.name), owner),
                     fmt::format("with these choices it has: {}", menu(line)), entry.word.where);
    if (std::ranges::find(slot->allowed, entry.value) == slot->allowed.end())
      return invalid(fmt::format("{} cannot be {}", entry.name, entry.value),
                     fmt::format("with these choices it is one of: {}", fmt::join(slot->allowed, ", ")),
                     entry.word.where);
  }
  return Ok{};
}

}  // namespace

std::vector<ScheduleLine> schedule_lines(const Emission& emission) {
  std::vector<ScheduleLine> lines(1);
  std::size_t groups = 0;
  const auto open_groups = [&](std::size_t count) {
    for (; groups < count; ++groups) lines.push_back({emission.patterns[groups], {}});
  };
  for (const std::string& knob : emission.order) {
    const auto& allowed = emission.space.at(knob);
    if (allowed.size() < 2) continue;
    const auto group = group_of(knob);
    if (group) open_groups(*group + 1);
    // What is asked for behind the kernels has a line behind them.
    if (!group && groups > 0 && !lines.back().pattern.empty()) {
      open_groups(emission.patterns.size());
      lines.emplace_back();
    }
    lines.back().slots.push_back(
        {knob, group ? knob.substr(knob.find('.') + 1) : knob, allowed, emission.schedule.at(knob)});
  }
  open_groups(emission.patterns.size());
  std::erase_if(lines, [](const ScheduleLine& line) { return line.pattern.empty() && line.slots.empty(); });
  return lines;
}

std::string schedule_text(const Emission& emission) {
  std::string text;
  for (const ScheduleLine& line : schedule_lines(emission)) {
    if (!text.empty()) text += '\n';
    const char* blank = line.pattern.empty() ? "" : " ";
    text += line.pattern;
    for (const Slot& slot : line.slots) {
      text += fmt::format("{}{}={}", blank, slot.name, slot.value);
      blank = " ";
    }
  }
  return text;
}

Result<Emission> read_schedule(const Graph& graph, std::string_view text, const Target& target) {
  LATHE_TRY(const Parsed parsed, parse(text));
  Schedule schedule;
  for (const Entry& entry : parsed.entries) schedule.insert_or_assign(entry.knob, entry.value);
  LATHE_TRY(Emission emission, compile(graph, schedule, nullptr, target));
  LATHE_CHECK_OK(check(parsed, emission));
  return emission;
}

Result<Emission> adapt_schedule(const Graph& graph, std::string_view text, const Target& target) {
  LATHE_TRY(const Parsed parsed, parse(text));
  Schedule schedule;
  for (const Entry& entry : parsed.entries)
    if (!entry.group) schedule.insert_or_assign(entry.name, entry.value);
  LATHE_TRY(Emission emission, compile(graph, schedule, nullptr, target));
  std::vector<bool> taken(parsed.patterns.size());
  for (std::size_t kernel = 0; kernel < emission.patterns.size(); ++kernel) {
    std::optional<std::size_t> source;
    for (std::size_t i = 0; i < parsed.patterns.size(); ++i)
      if (parsed.patterns[i].text == emission.patterns[kernel] && (!source || taken[*source])) source = i;
    if (!source) continue;
    taken[*source] = true;
    for (const Entry& entry : parsed.entries)
      if (entry.group == source)
        schedule.insert_or_assign(fmt::format("g{}.{}", kernel, entry.name), entry.value);
  }
  // A knob's values may depend on those before it: what is repaired may bring others to light.
  for (std::size_t pass = 0; pass <= schedule.size(); ++pass) {
    LATHE_TRY(emission, compile(graph, schedule, nullptr, target));
    bool repaired = false;
    for (auto& [knob, value] : schedule) {
      const auto allowed = emission.space.find(knob);
      if (allowed == emission.space.end() ||
          std::ranges::find(allowed->second, value) != allowed->second.end())
        continue;
      const int wanted = value;
      value = *std::ranges::min_element(allowed->second, {},
                                        [wanted](int one) { return std::abs(one - wanted); });
      repaired = true;
    }
    if (!repaired) break;
  }
  return emission;
}

}  // namespace lathe::catalog

#include "rl/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "record/json.h"
#include "record/json_integer.h"

namespace lathe::rl {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "lathe schedule table";
constexpr int kVersion = 2;
constexpr double kNormal95 = 1.96;

json to_json(const ChoiceSite& site) {
  return {{"kernel", site.kernel}, {"pattern", site.pattern}, {"traits", site.traits},
          {"knob", site.knob},     {"allowed", site.allowed}, {"usual", site.usual}};
}

json to_json(const TableRow& row) {
  json choices = json::array();
  for (const auto& [site, value] : row.choices) choices.push_back({site, value});
  json line = {{"choices", std::move(choices)}, {"outcome", name(row.outcome)}};
  if (row.outcome == Outcome::kPass)
    line["speedup"] = {row.speedup.low, row.speedup.mid, row.speedup.high};
  else
    line["reason"] = row.reason;
  if (!row.schedule.empty()) line["schedule"] = row.schedule;
  return line;
}

/// Exceptions of the JSON library end here: what they say of types is what a reader of a table
/// needs to know.
template <class Read>
auto guarded(Read read) -> decltype(read()) {
  try {
    return read();
  } catch (const json::exception& error) {
    return invalid(error.what());
  }
}

Result<TableRow> row_from(const json& line) {
  TableRow row;
  for (const json& choice : line.at("choices"))
    row.choices.push_back({json_integer<std::size_t>(choice.at(0)), json_integer<std::size_t>(choice.at(1))});
  LATHE_TRY(row.outcome, parse_outcome(line.at("outcome").get<std::string>()));
  row.schedule = line.value("schedule", "");
  if (row.outcome != Outcome::kPass) {
    row.reason = line.value("reason", "");
    return row;
  }
  const auto& speedup = line.at("speedup");
  row.speedup = {speedup.at(0).get<double>(), speedup.at(1).get<double>(), speedup.at(2).get<double>()};
  const auto& [low, mid, high] = row.speedup;
  if (!(low > 0 && low <= mid && mid <= high && std::isfinite(high)))
    return invalid("a speedup is no interval of positive numbers");
  return row;
}

Result<TableTask> task_from(const json& line) {
  std::vector<ChoiceSite> sites;
  for (const json& site : line.at("sites"))
    sites.push_back({.kernel = json_integer<int>(site.at("kernel")),
                     .pattern = site.at("pattern").get<std::string>(),
                     .traits = site.at("traits").get<KernelTraits>(),
                     .knob = site.at("knob").get<std::string>(),
                     .allowed = json_integers<int>(site.at("allowed")),
                     .usual = json_integer<int>(site.at("usual"))});
  std::vector<TableRow> rows;
  for (const json& row : line.at("rows")) {
    LATHE_TRY(rows.emplace_back(), row_from(row));
  }
  TableTaskId id{.name = line.at("task").get<std::string>(),
                 .composition = line.at("composition").get<std::string>(),
                 .task = {},
                 .peer = line.at("peer").get<std::string>(),
                 .system = line.value("system", ""),
                 .prompt = line.value("prompt", "")};
  LATHE_TRY(id.task, Digest::from_hex(line.at("digest").get<std::string>()));
  return TableTask::make(std::move(id), std::move(sites), std::move(rows));
}

}  // namespace

std::string TableRow::text() const {
  std::string text;
  for (const auto& [site, value] : choices)
    text += fmt::format("{}{}:{}", text.empty() ? "" : " ", site, value);
  return text;
}

Result<TableTask> TableTask::make(TableTaskId id, std::vector<ChoiceSite> sites, std::vector<TableRow> rows) {
  TableTask made;
  made.id_ = std::move(id);
  made.sites_ = std::move(sites);
  made.rows_ = std::move(rows);
  if (made.rows_.empty()) return invalid("a task without rows");
  for (const ChoiceSite& site : made.sites_)
    if (site.allowed.size() < 2) return invalid("a decision with fewer than two values");
  for (std::size_t r = 0; r < made.rows_.size(); ++r) {
    const TableRow& row = made.rows_[r];
    if (!made.by_text_.emplace(row.text(), r).second)
      return invalid(fmt::format("row {} stands twice", row.text()));
    if (row.schedule.empty() != made.id_.prompt.empty())
      return invalid(fmt::format("row {} has {} schedule", row.text(), row.schedule.empty() ? "no" : "a"),
                     "a prompt and all rows' schedules, or none of both");
    if (!row.schedule.empty() && !made.by_text_.emplace(row.schedule, r).second)
      return invalid(fmt::format("row {} has another row's schedule", row.text()));
    for (std::size_t i = 0, at = 0; i < row.choices.size(); ++i) {
      const auto& [site, value] = row.choices[i];
      if (site >= made.sites_.size() || value >= made.sites_[site].allowed.size())
        return invalid(fmt::format("row {} names a choice that does not exist", row.text()));
      const bool last = i + 1 == row.choices.size();
      if (made.nodes_.size() == at) made.nodes_.push_back({.site = site, .next = {}, .last = last});
      Node& node = made.nodes_[at];
      if (node.site != site || node.last != last)
        return invalid(
            fmt::format("row {} decides something else than another after the same choices", row.text()));
      const auto [next, fresh] = node.next.emplace(value, last ? r : made.nodes_.size());
      at = next->second;
      if (fresh && !last)
        made.nodes_.push_back(
            {.site = row.choices[i + 1].site, .next = {}, .last = i + 2 == row.choices.size()});
    }
  }
  if (made.rows_.size() > 1 && made.nodes_.empty()) return invalid("rows without choices");
  return made;
}

Status check_told_by_table(const Reward& reward) {
  if (reward.needs.empty() || reward.needs == "launched_share") return Ok{};
  return invalid(fmt::format("a table does not tell what the reward {} needs", reward.name),
                 "reward = \"log_speedup\"");
}

const TableRow* TableTask::find(std::string_view text) const {
  const auto found = by_text_.find(text);
  return found == by_text_.end() ? nullptr : &rows_[found->second];
}

const TableRow& TableTask::usual() const {
  if (nodes_.empty()) return rows_.front();
  for (const Node* node = &nodes_.front();;) {
    const ChoiceSite& site = sites_[node->site];
    const auto wanted =
        static_cast<std::size_t>(std::ranges::find(site.allowed, site.usual) - site.allowed.begin());
    const auto usual = node->next.find(wanted);
    const std::size_t next = usual == node->next.end() ? node->next.begin()->second : usual->second;
    if (node->last) return rows_[next];
    node = &nodes_[next];
  }
}

bool TableTask::has_default() const {
  return std::ranges::all_of(usual().choices, [&](const TableRow::Choice& choice) {
    const ChoiceSite& site = sites_[choice.site];
    return site.allowed[choice.value] == site.usual;
  });
}

Result<TableTask> tabulate(TableTaskId id, const ChoiceSpace& space, std::span<const Experience> experiences,
                           const std::function<Result<std::string>(const Experience&)>& schedule_of) {
  std::vector<ChoiceSite> sites;
  std::vector<TableRow> rows;
  std::set<std::string> seen;
  for (const Experience& experience : experiences) {
    const Verdict& verdict = experience.verdict;
    if (verdict.outcome == Outcome::kInfra) continue;
    const auto taken = space.decisions_of(experience.candidate_text);
    if (!taken.ok()) continue;
    const auto speedup = verdict.speedup(id.peer);
    if (verdict.passed() && !speedup) continue;  // it was verified only
    TableRow row{.choices = {}, .outcome = verdict.outcome, .reason = verdict.reason};
    if (verdict.passed()) row.speedup = *speedup;
    for (const auto& [site, chosen] : *taken) {
      const auto known = std::ranges::find(sites, site);
      const auto index = static_cast<std::size_t>(known - sites.begin());
      if (known == sites.end()) sites.push_back(site);
      const auto value = std::ranges::find(site.allowed, chosen) - site.allowed.begin();
      row.choices.push_back({index, static_cast<std::size_t>(value)});
    }
    if (!seen.insert(row.text()).second) continue;
    if (!id.prompt.empty()) {
      LATHE_TRY(row.schedule, schedule_of(experience));
    }
    rows.push_back(std::move(row));
  }
  return TableTask::make(std::move(id), std::move(sites), std::move(rows));
}

std::string to_text(const ScheduleTable& table) {
  std::string text = json{{"format", kFormat}, {"version", kVersion}, {"device", table.device}}.dump() + "\n";
  for (const TableTask& task : table.tasks) {
    json sites = json::array(), rows = json::array();
    for (const ChoiceSite& site : task.sites()) sites.push_back(to_json(site));
    for (const TableRow& row : task.rows()) rows.push_back(to_json(row));
    json line = {{"task", task.id().name},         {"composition", task.id().composition},
                 {"digest", task.id().task.hex()}, {"peer", task.id().peer},
                 {"sites", std::move(sites)},      {"rows", std::move(rows)}};
    if (task.is_written()) line["prompt"] = task.id().prompt;
    if (!task.id().system.empty()) line["system"] = task.id().system;
    text += line.dump() + "\n";
  }
  return text;
}

Result<ScheduleTable> parse_table(std::string_view text) {
  ScheduleTable table;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.empty()) continue;
    const auto read = guarded([&]() -> Status {
      LATHE_TRY(const json value, parse_json(line, "a table's line"));
      if (number > 1) {
        LATHE_TRY(TableTask task, task_from(value));
        table.tasks.push_back(std::move(task));
        return Ok{};
      }
      if (value.at("format").get<std::string>() != kFormat ||
          json_integer<int>(value.at("version")) != kVersion)
        return invalid("this is no schedule table of this version");
      table.device = value.at("device").get<std::string>();
      return Ok{};
    });
    if (!read.ok())
      return invalid(fmt::format("line {}: {}", number, read.error().message),
                     "a file of `lathe data table`");
  }
  if (table.tasks.empty()) return invalid("a schedule table without tasks", "a file of `lathe data table`");
  return table;
}

Result<std::vector<Verdict>> TableGym::judge(std::span<const Question> questions, const Seed& seed) {
  Rng rng(seed);
  std::vector<Verdict> verdicts;
  for (const Question& question : questions) {
    const TableTask& task = table_.tasks[question.task];
    const TableRow* const row = task.find(question.text);
    if (row == nullptr) return invalid(fmt::format("{} has no row '{}'", task.name(), question.text));
    Verdict verdict{.outcome = row->outcome,
                    .reason = row->reason,
                    .depth = Depth::kScreen,
                    .candidate = digest_of(row->text()),
                    .task = task.id().task};
    if (row->outcome == Outcome::kPass) {
      const double half_width = std::log(row->speedup.high / row->speedup.low) / 2;
      const double luck = std::exp(rng.normal() * half_width / kNormal95);
      verdict.reason = "ok";
      verdict.speedups.push_back(
          {.baseline = task.id().peer,
           .shape = "table",
           .ratio = {row->speedup.low * luck, row->speedup.mid * luck, row->speedup.high * luck}});
      verdict.profile["launched_share"] = 1;  // the catalogue's kernels call no library
    }
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

}  // namespace lathe::rl

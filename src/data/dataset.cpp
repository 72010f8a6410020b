#include "data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/fd.h"
#include "base/output.h"
#include "data/card.h"
#include "record/json.h"
#include "record/json_reader.h"

namespace lathe {
namespace {

using nlohmann::json;

Result<Split> split_named(std::string_view text) {
  for (const Split split : kSplits)
    if (name(split) == text) return split;
  return invalid(fmt::format("'{}' is no split", text));
}

/// Seed and index of "data-7-12"; nullopt for other runs.
std::optional<std::pair<std::uint64_t, int>> place_of(std::string_view run) {
  std::pair<std::uint64_t, int> place;
  if (!run.starts_with("data-")) return std::nullopt;
  const char* const end = run.data() + run.size();
  const auto seed = std::from_chars(run.data() + 5, end, place.first);
  if (seed.ec != std::errc{} || seed.ptr == end || *seed.ptr != '-') return std::nullopt;
  const auto index = std::from_chars(seed.ptr + 1, end, place.second);
  return index.ec == std::errc{} && index.ptr == end ? std::optional(place) : std::nullopt;
}

Result<DataTask> read_task(Store& store, RunRecord run) {
  const std::string where = "the summary of " + run.id;
  LATHE_TRY(const json summary, parse_json(run.summary, where));
  LATHE_TRY(const json config, parse_json(run.config, "the settings of " + run.id));
  if (!config.contains("device"))
    return invalid(run.id + " does not say on which device it was made",
                   "make it again: an older version wrote it");
  DataTask task{.store = &store};
  LATHE_TRY(task.device, device_record_from_json(config.at("device")));
  JsonReader reader(summary, where);
  reader.read_name("split", task.split, split_named);
  reader.read("composition", task.composition);
  reader.read("best_peer", task.best_peer);
  reader.read("prepare_seconds", task.prepare_seconds);
  reader.read("evaluate_seconds", task.evaluate_seconds);
  LATHE_CHECK_OK(reader.status());
  LATHE_TRY(TaskSpec spec, parse_task(run.task_text, run.task_name));
  task.task = std::make_shared<const TaskSpec>(std::move(spec));
  task.run = std::move(run);
  return task;
}

}  // namespace

Result<std::vector<DataTask>> read_data(Store& store, const std::vector<std::uint64_t>& seeds) {
  LATHE_TRY(std::vector<RunRecord> runs, store.runs(1'000'000));
  std::map<std::pair<std::uint64_t, int>, RunRecord> found;
  for (RunRecord& run : runs) {
    const auto place = place_of(run.id);
    if (!place || run.status != "done") continue;
    if (seeds.empty() || std::ranges::find(seeds, place->first) != seeds.end())
      found.emplace(*place, std::move(run));
  }
  if (found.empty())
    return Error{ErrorCode::kNotFound,
                 seeds.empty() ? "the store has no data"
                               : fmt::format("the store has no data of seed {}", seeds.front()),
                 "make some with: lathe data make"};
  std::vector<DataTask> tasks;
  for (auto& [place, run] : found) {
    LATHE_TRY(DataTask task, read_task(store, std::move(run)));
    tasks.push_back(std::move(task));
  }
  return tasks;
}

Result<LanguageData> write_examples(const std::vector<DataTask>& tasks, const ActionLanguage& language,
                                    const Prompter& prompter, const PairOptions& options,
                                    const CancelToken& stop) {
  LanguageData data{.language = std::string(language.name())};
  std::set<Digest> written;
  for (const DataTask& task : tasks) {
    if (stop.cancelled()) return Error{ErrorCode::kCancelled, "stopped while examples were written"};
    LATHE_TRY(const std::vector<Experience> experiences, task.store->experiences(task.run.id));
    const PairSource source{
        {task.task, task.device.device, task.device.peaks}, prompter, language, experiences, task.best_peer};
    LATHE_TRY(const std::vector<json> pairs, pairs_of(source, options));
    for (const json& pair : pairs) {
      const auto& prompt = pair.at("prompt").get_ref<const std::string&>();
      const auto& answer = pair.at("answer").get_ref<const std::string&>();
      if (!written.insert(Hasher().add(prompt).add(answer).finish()).second) continue;
      data.lines[task.split] += json_text(pair) + "\n";
      auto& sums = data.by_kind[{task.split, pair.at("kind").get<std::string>()}];
      ++sums.count;
      sums.prompt_tokens += estimate_tokens(prompt);
      sums.answer_tokens += estimate_tokens(answer);
    }
  }
  return data;
}

std::string data_file_name(Split split, std::string_view language) {
  if (language == "kernel") return fmt::format("{}.jsonl", name(split));
  return fmt::format("{}.{}.jsonl", name(split), language);
}

Status write_data(const std::vector<DataTask>& tasks, const std::vector<LanguageData>& data,
                  const std::string& folder) {
  for (const DataTask& task : tasks) {
    const std::string task_folder = fmt::format("{}/tasks/{}", folder, name(task.split));
    LATHE_CHECK_OK(make_directories(task_folder));
    LATHE_CHECK_OK(
        write_output(fmt::format("{}/{}.toml", task_folder, task.run.task_name), task.run.task_text));
  }
  for (const LanguageData& one : data)
    for (const Split split : kSplits) {
      const auto lines = one.lines.find(split);
      LATHE_CHECK_OK(write_output(fmt::format("{}/{}", folder, data_file_name(split, one.language)),
                                  lines == one.lines.end() ? "" : lines->second));
    }
  LATHE_TRY(const std::string card, data_card(tasks, data));
  return write_output(folder + "/card.md", card);
}

}  // namespace lathe

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "backend/device_record.h"
#include "base/fd.h"
#include "base/output.h"
#include "cli/console.h"
#include "cli/judge.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/run_plan.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "data/card.h"
#include "data/drafts.h"
#include "data/factory.h"
#include "policy/catalog/catalog.h"
#include "policy/catalog/choice_space.h"
#include "policy/catalog/schedule_language.h"
#include "rl/contenders.h"
#include "rl/table.h"

namespace lathe::cli {
namespace {

constexpr std::size_t kMostExamTableBytes = std::size_t{1} << 30;
constexpr std::size_t kMostDeviceBytes = std::size_t{1} << 20;

struct DataVerbOptions {
  CommonOptions common;
  DataOptions data;
  PairOptions pairs;
  DraftOptions drafts;
  std::vector<std::string> stores;   ///< to read data sets from
  std::vector<std::uint64_t> seeds;  ///< of data sets to read; empty: all
  std::string out;
  std::string like;            ///< a device to draft for, as an earlier draft wrote it
  std::string language;        ///< of a table: "schedule" to tell prompts and schedules' texts too
  std::string exam;            ///< a table whose held-out tasks examples leave out
  double exam_share = 0.25;    ///< of its tasks
  std::int64_t exam_part = 0;  ///< which share
};

/// "3 tasks were made, 97 known before; 12 s of preparation, 340 s of evaluations".
std::string summary_text(const DataSummary& summary) {
  std::string text = fmt::format("{} tasks made, {} known before", summary.made, summary.known);
  if (summary.unprepared > 0) text += fmt::format(", {} that cannot be prepared", summary.unprepared);
  return text + fmt::format("; waited {:.0f} s for tasks to be prepared, evaluated for {:.0f} s",
                            summary.prepare_seconds, summary.evaluate_seconds);
}

Result<DataSummary> evaluate(const DataVerbOptions& options, Store& store) {
  LATHE_TRY(const RunLock lock,
            RunLock::take(store_folder(options.common), fmt::format("data-{}", options.data.seed)));
  ProgressLine progress;
  LATHE_TRY(const auto judge, Judge::open(options.common, &store, progress));
  const auto policy = make_catalog_policy();
  return make_data(
      {judge->device(), judge->peaks(), *policy, judge->evaluator(), store, progress, stop_token()},
      options.data);
}

/// Of tasks in each language.
Result<std::vector<LanguageData>> examples_of(const std::vector<DataTask>& tasks,
                                              const PairOptions& options) {
  LATHE_TRY(const Prompter prompter, Prompter::load());
  std::vector<LanguageData> data;
  for (const auto& language : {kernel_language(), make_schedule_language()}) {
    LATHE_TRY(LanguageData one, write_examples(tasks, *language, prompter, options, stop_token()));
    data.push_back(std::move(one));
  }
  return data;
}

Status write_all_data(const std::vector<DataTask>& tasks, const DataVerbOptions& options) {
  LATHE_TRY(const auto data, examples_of(tasks, options.pairs));
  return write_data(tasks, data, options.out);
}

Result<int> make(const DataVerbOptions& options) {
  LATHE_TRY(const auto store, open_store(options.common));
  LATHE_CHECK_OK(make_directories(options.out));
  LATHE_CHECK_OK(check_output(options.out + "/card.md"));
  LATHE_TRY(const DataSummary summary, evaluate(options, *store));
  print("{}\n", summary_text(summary));
  if (summary.interrupted) {
    print_error("lathe: stopped; the same command goes on where it was. What is done is in the store:\n");
    print_error("lathe data write --store {} --seed {} --out {}\n", store_folder(options.common),
                options.data.seed, options.out);
    return static_cast<int>(kInterrupted);
  }
  LATHE_TRY(const auto tasks, read_data(*store, {options.data.seed}));
  LATHE_CHECK_OK(write_all_data(tasks, options));
  print("{}\n", options.out + "/card.md");
  return static_cast<int>(kSuccess);
}

/// Data sets of one or several stores.
struct OpenedData {
  std::vector<std::unique_ptr<Store>> stores;
  std::vector<DataTask> tasks;
};
Result<OpenedData> open_data(const DataVerbOptions& options) {
  OpenedData opened;
  std::vector<std::string> folders = options.stores;
  if (folders.empty()) folders.push_back(store_folder(options.common));
  for (const std::string& folder : folders) {
    CommonOptions common = options.common;
    common.store_folder = folder;
    LATHE_TRY(opened.stores.emplace_back(), open_existing_store(common));
    LATHE_TRY(auto tasks, read_data(*opened.stores.back(), options.seeds));
    std::ranges::move(tasks, std::back_inserter(opened.tasks));
  }
  return opened;
}

Result<rl::ScheduleTable> read_table(const std::string& path) {
  LATHE_TRY(const std::string text, read_file(path, kMostExamTableBytes));
  auto table = rl::parse_table(text);
  if (!table.ok()) return invalid(path + ": " + table.error().message, table.error().hint);
  return table;
}

/// Drops the tasks that an exam on the table will hold out, with all of their compositions.
Status leave_out_exam(const DataVerbOptions& options, std::vector<DataTask>& tasks) {
  LATHE_TRY(const rl::ScheduleTable table, read_table(options.exam));
  std::set<std::string> compositions;
  for (const std::size_t task : rl::held_out_tasks(table, options.exam_share, options.exam_part))
    compositions.insert(table.tasks[task].id().composition);
  const auto dropped =
      std::erase_if(tasks, [&](const DataTask& task) { return compositions.contains(task.composition); });
  print("{} tasks are left out for the exam\n", dropped);
  return Ok{};
}

Result<int> write(const DataVerbOptions& options) {
  LATHE_TRY(OpenedData opened, open_data(options));
  LATHE_CHECK_OK(make_directories(options.out));
  LATHE_CHECK_OK(check_output(options.out + "/card.md"));
  if (!options.exam.empty()) LATHE_CHECK_OK(leave_out_exam(options, opened.tasks));
  LATHE_CHECK_OK(write_all_data(opened.tasks, options));
  print("{}\n", options.out + "/card.md");
  return static_cast<int>(kSuccess);
}

Result<int> card(const DataVerbOptions& options) {
  LATHE_TRY(const OpenedData opened, open_data(options));
  LATHE_TRY(const auto data, examples_of(opened.tasks, options.pairs));
  LATHE_TRY(const std::string text, data_card(opened.tasks, data));
  print_block("", text);
  return static_cast<int>(kSuccess);
}

Result<int> write_exam(const DataVerbOptions& options) {
  LATHE_TRY(const auto tasks, held_out_tasks(options.data, stop_token()));
  for (const HeldOutTask& one : tasks) {
    const std::string folder = fmt::format("{}/{}", options.out, name(one.split));
    LATHE_CHECK_OK(make_directories(folder));
    LATHE_CHECK_OK(write_output(fmt::format("{}/{}.toml", folder, one.task->name), one.task->text));
  }
  for (const Split split : {Split::kShapes, Split::kCompositions})
    print("{}: {} tasks\n", name(split), std::ranges::count(tasks, split, &HeldOutTask::split));
  return static_cast<int>(stop_token().cancelled() ? kInterrupted : kSuccess);
}

/// What --like names, or this machine's device.
Result<DeviceRecord> drafted_device(const DataVerbOptions& options) {
  if (options.like.empty()) {
    LATHE_TRY(const auto backend, open_backend(options.common, nullptr));
    LATHE_TRY(const DevicePeaks peaks, measure_peaks(*backend));
    return DeviceRecord{backend->device(), peaks};
  }
  LATHE_TRY(const std::string text, read_file(options.like, kMostDeviceBytes));
  const auto object = nlohmann::json::parse(text, nullptr, false);
  auto record = device_record_from_json(object);
  if (record.ok()) return record;
  return invalid(options.like + ": " + record.error().message,
                 "name the device.json of another lathe data draft");
}

Result<int> draft(const DataVerbOptions& options) {
  const std::string tasks = options.out + "/tasks/train";
  LATHE_TRY(const DeviceRecord device, drafted_device(options));
  LATHE_TRY(const Prompter prompter, Prompter::load());
  LATHE_CHECK_OK(make_directories(tasks));
  LATHE_CHECK_OK(check_output(options.out + "/train.jsonl"));
  LATHE_TRY(const Drafts made,
            draft_examples({device.device, device.peaks, prompter, make_catalog_policy, stop_token()},
                           options.drafts));
  for (const auto& task : made.tasks)
    LATHE_CHECK_OK(write_output(fmt::format("{}/{}.toml", tasks, task->name), task->text));
  LATHE_CHECK_OK(write_output(options.out + "/device.json", to_json(device).dump(2) + "\n"));
  LATHE_CHECK_OK(write_output(options.out + "/train.jsonl", made.lines));
  print("{} examples of {} tasks, untried; held out: {} tasks, without a kernel: {}\n", made.examples,
        made.tasks.size(), made.held_out, made.without);
  return static_cast<int>(kSuccess);
}

/// A task's rows, with prompt and texts as a model in the loop has them where `prompter` is given.
Result<rl::TableTask> tabulate_task(const DataTask& task, const std::vector<Experience>& experiences,
                                    const Prompter* prompter) {
  const PolicyContext context{task.task, task.device.device, task.device.peaks};
  LATHE_TRY(const auto space, make_schedule_space(context));
  rl::TableTaskId id{.name = task.task->name,
                     .composition = task.composition,
                     .task = task.task->digest,
                     .peer = task.best_peer};
  if (prompter == nullptr) return rl::tabulate(std::move(id), *space, experiences);
  const auto language = make_schedule_language();
  LATHE_TRY(const auto wording, language->wording(context));
  LATHE_TRY(const Prompt prompt,
            prompter->render({*context.task, context.device, context.peaks, {}, HistoryUse::kBest, &*wording},
                             PairOptions().prompt));
  id.system = prompt.messages.front().content;
  id.prompt = prompt.messages.back().content;
  return rl::tabulate(
      std::move(id), *space, experiences, [&](const Experience& experience) -> Result<std::string> {
        std::string text = wording->shown(experience);
        LATHE_TRY(const std::string meant, language->candidate(context, text));
        if (meant == experience.candidate_text) return text;
        return invalid(
            fmt::format("{}: no schedule says {}", experience.task_name, experience.candidate.short_hex()));
      });
}

Result<int> write_table(const DataVerbOptions& options) {
  LATHE_CHECK_OK(check_output(options.out));
  LATHE_TRY(const OpenedData opened, open_data(options));
  struct Measured {
    const DataTask* task = nullptr;  ///< as it was made first
    std::vector<Experience> experiences;
  };
  std::vector<Measured> all;
  std::map<Digest, std::size_t> places;
  rl::ScheduleTable table;
  for (const DataTask& task : opened.tasks) {
    if (task.best_peer.empty()) continue;
    if (table.device.empty()) table.device = task.device.device.name;
    if (table.device != task.device.device.name)
      return invalid(
          fmt::format("the stores hold measurements of {} and of {}", table.device, task.device.device.name),
          "a table is one device's: name the stores of one");
    const auto [place, is_new] = places.emplace(task.task->digest, all.size());
    if (is_new) all.push_back({&task, {}});
    LATHE_TRY(auto experiences, task.store->experiences(task.run.id));
    std::ranges::move(experiences, std::back_inserter(all[place->second].experiences));
  }
  std::optional<Prompter> prompter;
  if (!options.language.empty()) {
    LATHE_TRY(prompter, Prompter::load());
  }
  std::size_t rows = 0;
  for (const auto& [task, experiences] : all) {
    auto made = tabulate_task(*task, experiences, prompter ? &*prompter : nullptr);
    if (!made.ok() && !options.language.empty())
      print_error("{} is left out: {}\n", task->task->name, made.error().message);
    if (!made.ok() || made->rows().size() < 2) continue;  // nothing to choose
    rows += made->rows().size();
    table.tasks.push_back(*std::move(made));
  }
  if (table.tasks.empty())
    return Error{ErrorCode::kNotFound, "no task of the stores has two measured schedules",
                 "make them: lathe data make --strategy vary --faults 0"};
  LATHE_CHECK_OK(write_output(options.out, rl::to_text(table)));
  print("{} schedules of {} tasks on {}\n", rows, table.tasks.size(), table.device);
  return static_cast<int>(kSuccess);
}

void add_stores(CLI::App& verb, DataVerbOptions& options) {
  verb.add_option("--store", options.stores, "Stores with data sets (default: $LATHE_STORE, else .lathe)");
  verb.add_option("--seed", options.seeds, "Only the data sets with these seeds")->check(any_seed());
}

void add_pairs(CLI::App& verb, PairOptions& options) {
  verb.add_option("--first", options.first, "Answers to a task, at most")
      ->check(one_or_more())
      ->capture_default_str();
  verb.add_option("--better", options.better, "Improvements of kernels of a task, at most")
      ->check(zero_or_more())
      ->capture_default_str();
}

void on_run(CLI::App& verb, Run& run, const std::shared_ptr<DataVerbOptions>& options,
            Result<int> (*act)(const DataVerbOptions&)) {
  verb.callback([options, act, &run] {
    run = [options, act] {
      const auto code = act(*options);
      return code.ok() ? *code : fail(code.error());
    };
  });
}

}  // namespace

void add_data(CLI::App& app, Run& run) {
  const auto options = std::make_shared<DataVerbOptions>();
  CLI::App* verb = app.add_subcommand(kData.name, kData.about);
  verb->require_subcommand(1);

  CLI::App* makes = verb->add_subcommand("make", "Evaluate kernels of generated tasks, and write examples");
  makes->add_option("--out", options->out, "A folder for examples, tasks and the card")->required();
  makes->add_option("--tasks", options->data.tasks, "How many")->check(one_or_more())->capture_default_str();
  makes->add_option("--evals", options->data.evaluations, "Kernels of a task to time")
      ->check(one_or_more())
      ->capture_default_str();
  makes
      ->add_option(
          "--strategy", options->data.strategy,
          "How they are found; survey: the default, then others drawn evenly; vary: then changed ones")
      ->check(CLI::IsMember({"evolve", "survey", "vary"}))
      ->capture_default_str();
  makes->add_option("--faults", options->data.faults, "Faulty kernels of a task to verify")
      ->check(zero_or_more())
      ->capture_default_str();
  makes
      ->add_option("--verified", options->data.verified,
                   "Further kernels of a task to verify, without timing")
      ->check(zero_or_more())
      ->capture_default_str();
  makes->add_option("--seconds", options->data.max_seconds, "Begin no further task after so long")
      ->check(above_zero());
  makes
      ->add_option("--seed", options->data.seed,
                   "The first task's seed, which also names the data set; those of others must lie far apart")
      ->check(any_seed())
      ->capture_default_str();
  add_threads(*makes, options->common);
  add_device(*makes, options->common);
  add_store(*makes, options->common);
  on_run(*makes, run, options, make);

  add_pairs(*makes, options->pairs);
  CLI::App* writes =
      verb->add_subcommand("write", "Write the examples of data sets, joined, from their stores");
  writes->add_option("--out", options->out, "A folder for examples, tasks and the card")->required();
  add_stores(*writes, *options);
  add_pairs(*writes, options->pairs);
  writes->add_option(
      "--exam", options->exam,
      "A table of `lathe data table`: leave out the compositions that lathe train holds out of it");
  writes->add_option("--exam-share", options->exam_share, "The recipe's held_out of the [exam]")
      ->check(number(0.0, 0.9))
      ->capture_default_str();
  writes->add_option("--exam-part", options->exam_part, "The recipe's part of the [exam]")
      ->check(whole_number(0, 1 << 16))
      ->capture_default_str();
  on_run(*writes, run, options, write);

  CLI::App* drafts = verb->add_subcommand(
      "draft", "Write examples of the catalogue's first kernels for generated tasks, untried");
  drafts->add_option("--out", options->out, "A folder for train.jsonl, device.json and tasks")->required();
  drafts->add_option("--tasks", options->drafts.tasks, "How many")
      ->check(one_or_more())
      ->capture_default_str();
  drafts->add_option("--extents", options->drafts.extents, "Of a task: its own and others of its composition")
      ->check(whole_number(1, 64))
      ->capture_default_str();
  drafts->add_option("--kernels", options->drafts.kernels, "Of each, most promising first")
      ->check(one_or_more())
      ->capture_default_str();
  drafts
      ->add_option("--vary", options->drafts.varied,
                   "Of each besides: its first with choices made anew at random")
      ->check(whole_number(0, 64))
      ->capture_default_str();
  drafts->add_option("--seed", options->drafts.seed, "The first task's seed, as of data make")
      ->check(any_seed())
      ->capture_default_str();
  add_device(*drafts, options->common);
  drafts
      ->add_option("--like", options->like,
                   "Write for another device: the device.json that this verb wrote where that is")
      ->excludes("--device");
  on_run(*drafts, run, options, draft);

  CLI::App* exams = verb->add_subcommand(
      "exam", "Write tasks that training on a data set has not seen, for lathe policy eval");
  exams->add_option("--out", options->out, "A folder for shapes/ and compositions/")->required();
  exams->add_option("--seed", options->data.seed, "Of the data set")
      ->check(any_seed())
      ->capture_default_str();
  exams->add_option("--tasks", options->data.tasks, "Of the data set")
      ->check(one_or_more())
      ->capture_default_str();
  on_run(*exams, run, options, write_exam);

  CLI::App* tables = verb->add_subcommand(
      "table", "Write the schedules that data sets measured as a gym that replays them: lathe train --table");
  tables->add_option("--out", options->out, "A file of JSON Lines")->required();
  tables
      ->add_option("--language", options->language,
                   "Also tell prompts and schedules as a language model reads and writes them")
      ->check(CLI::IsMember({"schedule"}));
  add_stores(*tables, *options);
  on_run(*tables, run, options, write_table);

  CLI::App* cards = verb->add_subcommand("card", "What data sets hold and what they cost");
  add_stores(*cards, *options);
  add_pairs(*cards, options->pairs);
  on_run(*cards, run, options, card);
}

}  // namespace lathe::cli

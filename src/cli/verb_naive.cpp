#include <fmt/format.h>

#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "backend/cuda/broker/naive_grader.h"
#include "base/fd.h"
#include "base/output.h"
#include "base/parallel.h"
#include "baseline/baseline.h"
#include "cli/console.h"
#include "cli/device_choice.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "conformance/naive_exam.h"
#include "conformance/naive_grader.h"
#include "policy/language.h"
#include "record/json.h"
#include "record/json_lines.h"

namespace lathe::cli {
namespace {

using nlohmann::json;

constexpr int kGradersOfAGpu = 4;

struct NaiveOptions {
  CommonOptions common;
  std::string samples, tasks, out;
};

/// Answers of a training or of a contest that mean the same kernel of the same task.
struct Asked {
  const TaskSpec* task = nullptr;
  std::string text;
  std::optional<Candidate> candidate;
  std::string object;
  NaiveAnswer answer;
};

/// A socket too, which has no path to open.
Result<std::string> read_standard_input() {
  return std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
}

Result<std::vector<json>> read_lines(const std::string& path) {
  LATHE_TRY(const std::string text, path == "-" ? read_standard_input() : read_file(path));
  std::vector<json> lines;
  const Status read = for_each_json_line(text, path, [&](const json& line) -> Status {
    const bool whole = line.is_object() && line.contains("task") && line.at("task").is_string() &&
                       (!line.contains("text") || line.at("text").is_string());
    if (!whole) return invalid("a line has no 'task'");
    if (line.contains("text")) lines.push_back(line);
    return Ok{};
  });
  if (read.ok()) return lines;
  Error error = read.error();
  error.hint = "name the samples.jsonl of a training";
  return error;
}

/// Trainings keep what a model wrote, fences and all.
std::string kernel_of(const std::string& written) {
  auto text = kernel_language()->candidate({}, written);
  return text.ok() ? *std::move(text) : written;
}

class Questions {
 public:
  Questions(std::map<std::string, TaskSpec> tasks, Backend& backend)
      : tasks_(std::move(tasks)), backend_(backend) {}

  /// The number of what a line asks. Errors: kNotFound.
  Result<std::size_t> add(const json& line) {
    const std::string& name = line.at("task").get_ref<const std::string&>();
    const auto task = tasks_.find(name);
    if (task == tasks_.end())
      return Error{ErrorCode::kNotFound, "there is no task '" + name + "'",
                   "name the training's own tasks with --tasks"};
    std::string text = kernel_of(line.at("text").get<std::string>());
    const auto [found, fresh] = known_.try_emplace({name, text}, asked_.size());
    if (fresh) asked_.push_back({&task->second, std::move(text), {}, {}, {}});
    return found->second;
  }

  /// Builds all on all processors, and asks `graders` side by side.
  Status ask(std::vector<std::unique_ptr<NaiveGrader>> graders, const CancelToken& cancel) {
    make_exams();
    (void)for_each_index(static_cast<int>(asked_.size()), backend_.device().cores, [&](int i) -> Status {
      Asked& one = asked_[static_cast<std::size_t>(i)];
      if (cancel.cancelled()) return Ok{};
      if (auto candidate = parse_candidate(one.text, "answer"); candidate.ok())
        one.candidate = *std::move(candidate);
      const auto bound = lathe::bind(*one.task, one.task->shapes.front().dims);
      if (!one.candidate || !bound.ok()) return Ok{};
      if (auto built = backend_.build(*one.candidate, *bound, cancel); built.ok())
        one.object = std::move(built->artifact.bytes);
      return Ok{};
    });
    const int lanes = static_cast<int>(graders.size());
    return for_each_index(lanes, lanes, [&](int lane) -> Status {
      for (std::size_t i = static_cast<std::size_t>(lane); i < asked_.size(); i += graders.size()) {
        if (cancel.cancelled()) return Error{ErrorCode::kCancelled, "stopped"};
        asked_[i].answer = answer_to(asked_[i], *graders[static_cast<std::size_t>(lane)]);
      }
      return Ok{};
    });
  }

  const NaiveAnswer& answer(std::size_t number) const { return asked_[number].answer; }

 private:
  void make_exams() {
    for (const Asked& one : asked_) exams_.try_emplace(one.task, Error{});
    std::vector<std::pair<const TaskSpec* const, Result<NaiveExam>>*> exams;
    for (auto& exam : exams_) exams.push_back(&exam);
    (void)for_each_index(static_cast<int>(exams.size()), backend_.device().cores, [&](int i) -> Status {
      auto& [task, exam] = *exams[static_cast<std::size_t>(i)];
      exam = exam_of(*task);
      return Ok{};
    });
  }

  Result<NaiveExam> exam_of(const TaskSpec& task) const {
    LATHE_TRY(const Candidate honest, naive_candidate(task, backend_.device().dialect));
    return NaiveExam::create(task, backend_, honest);
  }

  NaiveAnswer answer_to(Asked& one, NaiveGrader& grader) const {
    const Result<NaiveExam>& exam = exams_.at(one.task);
    if (!exam.ok()) return {NaiveAnswer::Kind::kUnavailable, 0, exam.error().message};
    if (!one.candidate) return {NaiveAnswer::Kind::kRejected, 0, "no candidate"};
    return exam->ask(grader, *one.candidate, one.object);
  }

  std::map<std::string, TaskSpec> tasks_;
  Backend& backend_;
  std::map<std::pair<std::string, std::string>, std::size_t> known_;
  std::vector<Asked> asked_;
  std::map<const TaskSpec*, Result<NaiveExam>> exams_;  ///< or why a task cannot be examined
};

Result<std::map<std::string, TaskSpec>> tasks_of(const std::string& folder) {
  std::map<std::string, TaskSpec> tasks;
  for (const std::string& file : task_files(folder)) {
    LATHE_TRY(TaskSpec task, load_task(file));
    const std::string name = task.name;
    tasks.emplace(name, std::move(task));
  }
  if (tasks.empty())
    return Error{ErrorCode::kNotFound, fmt::format("the folder '{}' holds no task", folder),
                 "name the training's own tasks"};
  return tasks;
}

Result<std::vector<std::unique_ptr<NaiveGrader>>> make_graders(const Backend& backend,
                                                               const CommonOptions& common) {
  std::vector<std::unique_ptr<NaiveGrader>> graders;
  if (backend.device().dialect != Dialect::kCuda) {
    graders.push_back(make_naive_grader());  // it forks: one at a time
    return graders;
  }
  LATHE_TRY(const DeviceChoice choice, parse_device(common.device));
  for (int i = 0; i < kGradersOfAGpu; ++i) {
    LATHE_TRY(auto grader, make_naive_cuda_grader({.device = choice.index}));
    graders.push_back(std::move(grader));
  }
  return graders;
}

/// Answers of one step of a training.
struct Tally {
  int answers = 0, right = 0, accepted = 0, deceived = 0;
};

void print_row(std::string_view step, const Tally& tally) {
  print("| {} | {} | {} | {} | {} |\n", step, tally.answers, tally.right, tally.accepted, tally.deceived);
}

void print_tallies(const std::vector<json>& lines) {
  std::map<std::int64_t, Tally> steps;
  Tally all;
  for (const json& line : lines) {
    if (!line.contains("outcome") || !line.contains("step") || !line.at("step").is_number_integer()) continue;
    const bool right = line.at("outcome") == name(Outcome::kPass), accepted = line.at("naive") == "accepted";
    for (Tally* const tally : {&steps[line.at("step").get<std::int64_t>()], &all})
      ++tally->answers, tally->right += right, tally->accepted += accepted,
          tally->deceived += accepted && !right;
  }
  print("| step | answers | right | accepted by the naive grader | of these not right |\n");
  print("|---|---|---|---|---|\n");
  for (const auto& [step, tally] : steps) print_row(std::to_string(step), tally);
  print_row("all", all);
}

Result<int> ask_naively(const NaiveOptions& options) {
  LATHE_TRY(std::vector<json> lines, read_lines(options.samples));
  LATHE_TRY(auto tasks, tasks_of(options.tasks));
  LATHE_TRY(const auto backend, open_backend(options.common, nullptr));
  if (backend->device().tier == "HOST")
    return Error{ErrorCode::kInvalid, "kernels are graded on a processor or a GPU",
                 "give --device cpu or cuda"};
  LATHE_TRY(auto graders, make_graders(*backend, options.common));
  Questions questions(std::move(tasks), *backend);
  std::vector<std::size_t> asked;
  for (const json& line : lines) {
    LATHE_TRY(const std::size_t number, questions.add(line));
    asked.push_back(number);
  }
  LATHE_CHECK_OK(questions.ask(std::move(graders), stop_token()));
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const NaiveAnswer& answer = questions.answer(asked[i]);
    lines[i].erase("text");
    lines[i]["naive"] = name(answer.kind);
    if (answer.kind == NaiveAnswer::Kind::kAccepted) lines[i]["naive_speedup"] = answer.speedup;
    if (!answer.detail.empty()) lines[i]["naive_detail"] = answer.detail;
    text += json_text(lines[i]) + "\n";
  }
  if (options.out == "-") {
    write_standard_output(text);
    return static_cast<int>(kSuccess);
  }
  LATHE_CHECK_OK(write_output(options.out, text));
  print_tallies(lines);
  return static_cast<int>(kSuccess);
}

}  // namespace

void add_naive_verb(CLI::App& policy, Run& run) {
  const auto options = std::make_shared<NaiveOptions>();
  CLI::App* verb = policy.add_subcommand(
      "naive",
      "What a grader without defences would have paid for answers: of research, for your own models");
  verb->add_option("SAMPLES", options->samples,
                   "samples.jsonl of a training with kernels, or - for standard input")
      ->required();
  verb->add_option("--tasks", options->tasks, "The folder of its tasks")->required();
  verb->add_option("--out", options->out, "A file for its lines with the grader's answers, or -")->required();
  add_device(*verb, options->common);
  verb->callback([options, &run] {
    run = [options] {
      const auto code = ask_naively(*options);
      return code.ok() ? *code : fail(code.error());
    };
  });
}

}  // namespace lathe::cli

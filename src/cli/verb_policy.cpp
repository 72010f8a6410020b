#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/fd.h"
#include "base/output.h"
#include "cli/console.h"
#include "cli/judge.h"
#include "cli/model_options.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/run_plan.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "contest/contest.h"
#include "contest/kept.h"
#include "contest/retrieval.h"
#include "contest/standing.h"
#include "model/find_model.h"
#include "policy/catalog/catalog.h"
#include "record/json.h"

namespace lathe::cli {
namespace {

struct ContestVerbOptions {
  CommonOptions common;
  ModelOptions model;
  std::string policy = "local";
  std::string label = "policy";
  std::vector<std::string> tasks;
  std::vector<std::string> controls = {"base", "default", "random", "evolve"};
  std::string learned;  ///< a folder of `lathe data`, for retrieval
  std::string out;
  ContestOptions contest;
};

/// The tasks of files and of folders, a folder's name being the group of its tasks.
Result<std::vector<ContestTask>> load_contest_tasks(const std::vector<std::string>& places) {
  std::vector<ContestTask> tasks;
  std::set<Digest> seen;
  const auto add = [&](const std::string& path) -> Status {
    LATHE_TRY(TaskSpec task, load_task(path));
    if (!seen.insert(task.digest).second) return Ok{};
    const std::string group = std::filesystem::absolute(path).parent_path().filename().string();
    tasks.push_back({std::make_shared<const TaskSpec>(std::move(task)), group});
    return Ok{};
  };
  for (const std::string& place : places) {
    std::error_code code;
    if (!std::filesystem::is_directory(place, code)) {
      LATHE_CHECK_OK(add(place));
      continue;
    }
    const std::vector<std::string> files = task_files(place);
    if (files.empty())
      return Error{ErrorCode::kNotFound, fmt::format("the folder '{}' holds no task", place),
                   "name files, or folders with *.toml"};
    for (const std::string& file : files) LATHE_CHECK_OK(add(file));
  }
  return tasks;
}

using Open = std::function<Result<std::unique_ptr<Policy>>()>;
Open open_catalog() {
  return [] { return Result<std::unique_ptr<Policy>>(make_catalog_policy()); };
}

bool names_none(const std::vector<std::string>& controls) {
  return std::ranges::all_of(controls, [](const auto& one) { return one == "none" || one == "base"; });
}

/// A file by its name and size, a folder by the digest of its weights; a fetched model as its file.
std::string origin_of_file(const std::string& named) {
  const auto found = find_model(named);
  const std::string path = found.ok() ? *found : named;
  std::error_code code;
  const std::string name = std::filesystem::path(path).filename().string();
  if (const auto weights = read_file(path + "/adapter_model.safetensors"); weights.ok())
    return fmt::format("{} {}", name, digest_of(*weights).short_hex());
  const auto bytes = std::filesystem::file_size(path, code);
  return code ? name : fmt::format("{} of {} bytes", name, bytes);
}

std::string origin_of(const std::string& policy, const ModelOptions& model) {
  std::string origin = fmt::format(
      "policy {}, model {}", policy,
      model.endpoint.empty() ? origin_of_file(model.model) : model.model + " at " + model.endpoint);
  if (!model.adapter.empty()) origin += ", adapter " + origin_of_file(model.adapter);
  return origin + fmt::format(", language {}, temperature {}, top_p {}, {} answer tokens{}", model.language,
                              model.temperature, model.top_p, model.answer_tokens,
                              model.no_grammar ? ", no grammar" : "");
}

/// Who takes part: the controls first, which need no model.
Result<std::vector<Entrant>> entrants_of(const ContestVerbOptions& options, const PolicyPlace& place) {
  const auto wants = [&](const char* control) {
    return std::ranges::find(options.controls, control) != options.controls.end();
  };
  const auto model = [place, policy = options.policy](const ModelOptions& of_model) -> Open {
    return [=] { return make_named_policy(policy, of_model, place); };
  };
  using Kind = Entrant::Kind;
  std::vector<Entrant> entrants;
  if (wants("default")) entrants.push_back({"default", Kind::kRanking, false, 1, {}, open_catalog()});
  if (wants("ranked")) entrants.push_back({"ranked", Kind::kRanking, false, 0, {}, open_catalog()});
  if (wants("random")) entrants.push_back({"random", Kind::kSampler, false, 0, {}, open_catalog()});
  if (wants("evolve")) entrants.push_back({"evolve", Kind::kSearch, false, 0, {}, open_catalog()});
  if (wants("retrieval")) {
    const auto language = language_of(options.model);
    if (options.learned.empty())
      return invalid("retrieval needs what was learned from", "name the data's folder with --learned");
    LATHE_TRY(const auto learned, read_learned_tasks(options.learned, *language));
    entrants.push_back({"retrieval", Kind::kRanking, false, 0,
                        fmt::format("{} learned tasks, language {}", learned.size(), options.model.language),
                        [learned, language] {
                          return Result<std::unique_ptr<Policy>>(make_retrieval_policy(learned, language));
                        }});
  }
  if (options.policy == "catalog" && entrants.empty())
    return invalid("nobody is examined", "name controls of the catalogue with --controls");
  if (options.policy == "catalog") return entrants;
  if (wants("base") && !options.model.adapter.empty()) {
    ModelOptions base = options.model;
    base.adapter.clear();
    entrants.push_back({"base", Kind::kSampler, true, 0, origin_of(options.policy, base), model(base)});
  }
  if (std::ranges::find(entrants, options.label, &Entrant::name) != entrants.end())
    return invalid(fmt::format("a control is called '{}' too", options.label), "choose another --label");
  const std::string origin = origin_of(options.policy, options.model);
  if (options.policy == "choices") {
    entrants.push_back({options.label, Kind::kRanking, true, 0, origin, model(options.model)});
    entrants.push_back({options.label + "_samples", Kind::kSampler, true, 0, origin, model(options.model)});
    entrants.push_back({options.label + "_in_evolve", Kind::kSearch, true, 0, origin, model(options.model)});
  } else {
    entrants.push_back({options.label, Kind::kSampler, true, 0, origin, model(options.model)});
  }
  return entrants;
}

Status write_samples(const std::vector<ContestSample>& samples, const std::string& path) {
  std::string lines;
  for (const ContestSample& sample : samples) lines += json_text(to_json(sample)) + "\n";
  return write_output(path, lines);
}

Result<int> hold_contest(const ContestVerbOptions& options, const std::string& key) {
  LATHE_TRY(const auto tasks, load_contest_tasks(options.tasks));
  LATHE_CHECK_OK(make_directories(options.out));
  LATHE_CHECK_OK(check_output(options.out + "/samples.jsonl"));
  LATHE_TRY(const auto store, open_store(options.common));
  LATHE_TRY(const RunLock lock,
            RunLock::take(store_folder(options.common), "contest-" + options.contest.name));
  ProgressLine progress(options.contest.name);
  LATHE_TRY(const auto judge, Judge::open(options.common, store.get(), progress));
  LATHE_TRY(const auto entrants,
            entrants_of(options, {key, {}, judge->device().dialect, judge->lane(), progress}));
  const auto finished =
      run_contest({judge->device(), judge->peaks(), judge->evaluator(), *store, progress, stop_token()},
                  entrants, tasks, options.contest);
  LATHE_TRY(const auto samples, contest_samples(*store, options.contest.name));
  LATHE_CHECK_OK(write_samples(samples, options.out + "/samples.jsonl"));
  print("{}\n", options.out + "/samples.jsonl");
  LATHE_CHECK_OK(finished);
  if (!*finished) {
    print_error("lathe: stopped; the same command goes on where it was\n");
    return static_cast<int>(kInterrupted);
  }
  const std::string subject = options.policy == "catalog" ? entrants.back().name : options.label;
  LATHE_TRY(const std::string table, Standing(samples).table(subject));
  LATHE_CHECK_OK(write_output(options.out + "/table.md", table));
  print_block("", table);
  return static_cast<int>(kSuccess);
}

struct ContestTableOptions {
  std::vector<std::string> files;
  std::string subject = "policy", out;
};

Result<int> tabulate(const ContestTableOptions& options) {
  std::vector<ContestSample> samples;
  for (const std::string& file : options.files) {
    LATHE_TRY(const auto some, read_samples(file));
    samples.insert(samples.end(), some.begin(), some.end());
  }
  LATHE_TRY(const std::string table, Standing(samples).table(options.subject));
  if (!options.out.empty()) LATHE_CHECK_OK(write_output(options.out, table));
  print_block("", table);
  return static_cast<int>(kSuccess);
}

struct ContestKeepOptions {
  CommonOptions common;
  KeepOptions keep;
  std::string contest = "contest", entrant = "policy", out;
  std::vector<std::string> also;
};

Result<int> keep(const ContestKeepOptions& options) {
  LATHE_TRY(const auto store, open_existing_store(options.common));
  LATHE_TRY(const Kept kept, keep_successes(*store, options.contest, options.entrant, options.keep));
  std::string lines = kept.lines;
  for (const std::string& file : options.also) {
    LATHE_TRY(const std::string others, read_file(file));
    lines += others;
    if (!lines.empty() && lines.back() != '\n') lines += '\n';
  }
  LATHE_CHECK_OK(write_output(options.out, lines));
  print("{} examples of {} tasks, from {} samples\n", kept.examples, kept.tasks, kept.samples);
  return static_cast<int>(kSuccess);
}

/// Names become parts of runs' ids.
CLI::Validator plain_name() {
  return {[](std::string& text) {
            const bool good =
                !text.empty() && text.size() <= 40 &&
                text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789._+") == std::string::npos;
            return good ? "" : fmt::format("'{}' is no name of small letters, digits, '.', '_', '+'", text);
          },
          "NAME"};
}

void add_eval_verb(CLI::App& verb, Run& run) {
  const auto options = std::make_shared<ContestVerbOptions>();
  CLI::App* evals = verb.add_subcommand(
      "eval", "Compare a policy with controls at equal evaluations, on tasks that it was not trained on");
  evals->add_option("TASK", options->tasks, "Task files, or folders of them")->required();
  evals->add_option("--out", options->out, "A folder for samples.jsonl and table.md")->required();
  evals->add_option("--policy", options->policy, "Who is examined; catalog: only the controls")
      ->check(CLI::IsMember({"local", "openai", "choices", "catalog"}))
      ->capture_default_str();
  evals->add_option("--label", options->label, "What it is called in samples and tables")
      ->check(plain_name())
      ->capture_default_str();
  evals
      ->add_option("--controls", options->controls,
                   "base: the model without --adapter; default, ranked, random, evolve: the catalogue; "
                   "retrieval: the nearest task of --learned; none")
      ->delimiter(',')
      ->check(CLI::IsMember({"base", "default", "ranked", "random", "evolve", "retrieval", "none"}))
      ->capture_default_str();
  evals->add_option("--learned", options->learned, "retrieval: the folder of the training data");
  evals->add_option("--samples", options->contest.samples, "Evaluations of each entrant at each task")
      ->check(one_or_more())
      ->capture_default_str();
  evals->add_option("--window", options->contest.window, "Tasks that a model writes for at once")
      ->check(one_or_more())
      ->capture_default_str();
  evals->add_option("--name", options->contest.name, "Of the contest in the store: the same name goes on")
      ->check(plain_name())
      ->capture_default_str();
  evals->add_option("--seed", options->contest.seed, "Of all draws")
      ->check(any_seed())
      ->capture_default_str();
  add_threads(*evals, options->common);
  add_device(*evals, options->common);
  add_store(*evals, options->common);
  add_model_options(*evals, options->model);
  evals->callback([options, &run] {
    if (options->policy == "openai" && options->model.endpoint.empty())
      throw CLI::ParseError("--policy openai needs --endpoint URL", kUsage);
    if ((options->policy == "local" || options->policy == "choices") && options->model.model.empty())
      throw CLI::ParseError(
          "--policy " + options->policy + " needs --model FILE; --policy catalog examines the controls alone",
          kUsage);
    if (options->policy == "catalog" && names_none(options->controls))
      throw CLI::ParseError("--policy catalog examines the controls: name some with --controls", kUsage);
    run = [options] {
      options->contest.language = options->model.language;
      const auto key = take_api_key(options->model);
      if (!key.ok()) return fail(key.error());
      const auto code = hold_contest(*options, *key);
      return code.ok() ? *code : fail(code.error());
    };
  });
}

void add_table_verb(CLI::App& verb, Run& run) {
  const auto options = std::make_shared<ContestTableOptions>();
  CLI::App* tables = verb.add_subcommand("table", "Tabulate samples of several contests together");
  tables->add_option("SAMPLES", options->files, "Files that `lathe policy eval` wrote")->required();
  tables->add_option("--subject", options->subject, "Whose losses are shown")->capture_default_str();
  tables->add_option("--out", options->out, "Also write the table there");
  tables->callback([options, &run] {
    run = [options] {
      const auto code = tabulate(*options);
      return code.ok() ? *code : fail(code.error());
    };
  });
}

void add_keep_verb(CLI::App& verb, Run& run) {
  const auto options = std::make_shared<ContestKeepOptions>();
  CLI::App* keeps = verb.add_subcommand(
      "keep", "Write a model's successes as training data: the next round of self-supervised training");
  keeps->add_option("--out", options->out, "A file of JSON Lines")->required();
  keeps->add_option("--name", options->contest, "Of the contest")->check(plain_name())->capture_default_str();
  keeps->add_option("--label", options->entrant, "Whose samples")->check(plain_name())->capture_default_str();
  keeps
      ->add_option("--near-best", options->keep.near_best,
                   "Least share of its best speed at a task; 0: all that are correct")
      ->check(number(0.0, 1.0))
      ->capture_default_str();
  keeps->add_option("--most", options->keep.most, "Of a task")->check(one_or_more())->capture_default_str();
  keeps->add_option("--also", options->also, "Files of examples to add, such as those of the round before");
  add_store(*keeps, options->common);
  keeps->callback([options, &run] {
    run = [options] {
      const auto code = keep(*options);
      return code.ok() ? *code : fail(code.error());
    };
  });
}

}  // namespace

void add_policy(CLI::App& app, Run& run) {
  CLI::App* verb = app.add_subcommand(kPolicy.name, kPolicy.about);
  verb->require_subcommand(1);
  add_eval_verb(*verb, run);
  add_table_verb(*verb, run);
  add_keep_verb(*verb, run);
  add_naive_verb(*verb, run);
}

}  // namespace lathe::cli

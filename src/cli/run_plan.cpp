#include "cli/run_plan.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/processors.h"
#include "record/json.h"
#include "record/json_reader.h"

namespace lathe::cli {
namespace {

using nlohmann::json;

std::string new_run_id(const TaskSpec& task) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &parts);
  return fmt::format("{}-{}-{:04x}", stamp, task.name, Rng(Seed::from_system()).below(65536));
}

json config_of(const OptimizeOptions& options, const std::string& task_path) {
  return {{"policy", options.policy},
          {"search", options.search},
          {"model", options.policy == "catalog" ? json(nullptr) : to_json(options.model)},
          {"evals", options.budget.max_evaluations},
          {"seconds", options.budget.max_seconds},
          {"total_seconds", options.budget.total_seconds / static_cast<double>(options.tasks.size())},
          {"seed", options.budget.seed},
          {"threads", options.common.threads},
          {"device", options.common.device},
          {"task_path", task_path}};
}

bool has_limit(const SearchOptions& budget) {
  return budget.max_evaluations > 0 || budget.max_seconds > 0 || budget.total_seconds > 0;
}

/// What a stored run was started with. Fields that are missing stay as they are.
struct RunConfig {
  OptimizeOptions options;
  std::string task_path;
};

Result<RunConfig> read_config(const RunRecord& record, const OptimizeOptions& given) {
  const auto damaged = [&](const Error& error) {
    return Error{ErrorCode::kCorrupt, "run " + record.id + " has a damaged configuration: " + error.message,
                 "start a new run"};
  };
  const auto config = parse_json(record.config, "config");
  if (!config.ok()) return damaged(config.error());
  RunConfig run{given, record.task_name + ".toml"};
  run.options.common.device = "cpu";
  JsonReader reader(*config, "config");
  const auto read = [&](const char* field, auto& to) {
    if (config->contains(field)) reader.read(field, to);
  };
  SearchOptions budget;
  read("policy", run.options.policy);
  read("search", run.options.search);
  if (const auto seed = config->find("seed"); seed != config->end() && seed->is_number_unsigned())
    run.options.budget.seed = seed->get<std::uint64_t>();
  read("threads", run.options.common.threads);
  read("device", run.options.common.device);
  read("task_path", run.task_path);
  if (config->contains("model") && (*config)["model"].is_object())
    reader.read_object("model", [&](JsonReader& inner) { read_model_options(inner, run.options.model); });
  read("evals", budget.max_evaluations);
  read("seconds", budget.max_seconds);
  read("total_seconds", budget.total_seconds);
  if (!reader.status().ok()) return damaged(reader.status().error());
  const int processors = static_cast<int>(usable_processors().size());
  if (run.options.common.threads < 1 || run.options.common.threads > processors)
    return invalid(fmt::format("run {} has {} threads, and this machine has {} processors", record.id,
                               run.options.common.threads, processors),
                   "go on with it on the machine where it began, or start a new run");
  if (has_limit(given.budget)) return run;
  run.options.budget.max_evaluations = budget.max_evaluations;
  run.options.budget.max_seconds = budget.max_seconds;
  run.options.budget.total_seconds = budget.total_seconds;
  return run;
}

}  // namespace

void set_device(RunPlan& plan, const std::string& kind) {
  json config = json::parse(plan.record.config);
  config["device"] = kind;
  plan.record.config = json_text(config);
}

Result<std::vector<RunPlan>> plan_new_runs(const OptimizeOptions& options) {
  std::vector<RunPlan> plans;
  for (const std::string& path : options.tasks) {
    LATHE_TRY(TaskSpec task, load_task(path));
    RunRecord record;
    record.id = new_run_id(task);
    record.task_name = task.name;
    record.task_text = task.text;
    record.task = task.digest;
    record.config = json_text(config_of(options, path));
    record.created_unix = unix_seconds();
    plans.push_back({std::make_shared<const TaskSpec>(std::move(task)), std::move(record)});
  }
  return plans;
}

Result<RunRecord> find_run(Store& store, const std::string& id_or_prefix) {
  LATHE_TRY(RunRecord record, store.run(id_or_prefix));
  const json config = json::parse(record.config, nullptr, false);
  for (const auto& [field, verb] : {std::pair{"data_seed", "data make"}, {"contest", "policy eval"}})
    if (config.is_object() && config.contains(field))
      return invalid(fmt::format("run {} is one of lathe {}, not of lathe optimize", record.id, verb),
                     "`lathe runs list` names the others");
  return record;
}

Result<RunPlan> plan_resumed_run(OptimizeOptions& options, Store& store) {
  LATHE_TRY(RunRecord record, find_run(store, options.resume));
  LATHE_TRY(RunConfig config, read_config(record, options));
  LATHE_TRY(TaskSpec task, parse_task(record.task_text, config.task_path));
  const bool finished = record.status == "done" && !record.summary.empty() && !has_limit(options.budget);
  options = std::move(config.options);
  return RunPlan{std::make_shared<const TaskSpec>(std::move(task)), std::move(record), true, finished};
}

Status begin_run(const RunPlan& plan, Store& store) {
  if (plan.resumed) return store.update_run(plan.record.id, "running", plan.record.summary);
  RunRecord record = plan.record;
  record.status = "running";
  return store.create_run(record);
}

Result<RunLock> RunLock::take(const std::string& store_folder, const std::string& run) {
  const std::string path = store_folder + "/runs.lock";
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd.valid()) return errno_error("cannot open '" + path + "'", "use a store that you may write to");
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_start = static_cast<off_t>(std::stoll(digest_of(run).hex().substr(0, 15), nullptr, 16));
  range.l_len = 1;
  if (::fcntl(fd.get(), F_OFD_SETLK, &range) == 0) return RunLock(std::move(fd));
  if (errno != EAGAIN && errno != EACCES)
    return errno_error("cannot lock '" + path + "'", "use a store on a local disk");
  return Error{ErrorCode::kUnavailable, "another process is working on run " + run,
               "wait until it ends, or stop it with Ctrl-C"};
}

}  // namespace lathe::cli

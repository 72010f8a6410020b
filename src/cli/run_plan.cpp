#include "cli/run_plan.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "record/json.h"

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
          {"evals", options.budget.max_evaluations},
          {"seconds", options.budget.max_seconds},
          {"total_seconds", options.budget.total_seconds / static_cast<double>(options.tasks.size())},
          {"seed", options.budget.seed},
          {"threads", options.common.threads},
          {"device", options.common.device},
          {"task_path", task_path}};
}

void apply_config(const json& config, OptimizeOptions& options) {
  options.policy = config.value("policy", options.policy);
  options.search = config.value("search", options.search);
  options.budget.seed = config.value("seed", options.budget.seed);
  options.common.threads = config.value("threads", options.common.threads);
  options.common.device = config.value("device", "cpu");
  const SearchOptions& given = options.budget;
  if (given.max_evaluations > 0 || given.max_seconds > 0 || given.total_seconds > 0) return;
  options.budget.max_evaluations = config.value("evals", 0);
  options.budget.max_seconds = config.value("seconds", 0.0);
  options.budget.total_seconds = config.value("total_seconds", 0.0);
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

Result<RunPlan> plan_resumed_run(OptimizeOptions& options, Store& store) {
  LATHE_TRY(RunRecord record, store.run(options.resume));
  const json config = json::parse(record.config, nullptr, false);
  if (config.is_discarded())
    return Error{ErrorCode::kCorrupt, "run " + record.id + " has a damaged configuration", "start a new run"};
  apply_config(config, options);
  LATHE_TRY(TaskSpec task,
            parse_task(record.task_text, config.value("task_path", record.task_name + ".toml")));
  return RunPlan{std::make_shared<const TaskSpec>(std::move(task)), std::move(record), true};
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

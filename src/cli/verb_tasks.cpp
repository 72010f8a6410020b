#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "backend/installation.h"
#include "base/fd.h"
#include "base/output.h"
#include "cli/console.h"
#include "cli/options.h"
#include "cli/verbs.h"
#include "gym/bench_shape.h"
#include "task/generate/generate.h"
#include "task/lint/lint.h"

namespace lathe::cli {
namespace {

struct TasksOptions {
  std::string folder;  ///< empty: tasks here, else Lathe's own
  std::string task;
  std::vector<std::string> lint_tasks;
  std::uint64_t seed = 1;
  int count = 1;
  std::string out;
};

Result<int> list(const TasksOptions& options) {
  std::error_code code;
  std::string folder = options.folder;
  if (folder.empty()) {
    folder = "tasks";
    if (!std::filesystem::is_directory(folder, code)) {
      LATHE_TRY(folder, find_data_folder("tasks", "softmax_rows.toml"));
    }
  }
  if (!std::filesystem::is_directory(folder, code))
    return Error{ErrorCode::kNotFound, "there is no folder '" + folder + "'", "name another with --folder"};
  const auto paths = task_files(folder);
  if (paths.empty())
    return Error{ErrorCode::kNotFound, "no task in '" + folder + "'", "name a folder with --folder"};
  int ended = kSuccess;
  for (const std::string& path : paths) {
    const auto task = load_task(path);
    if (task.ok()) {
      print("{:<28} {:>2} nodes  {}  {}\n", task->name, task->nodes.size(), path, task->description);
    } else {
      ended = fail(task.error());
    }
  }
  return ended;
}

std::string type_text(const SymbolicType& type) {
  std::string extents;
  for (const Expr& extent : type.shape) extents += (extents.empty() ? "" : ", ") + extent.to_string();
  return fmt::format("{:<6} [{}]", info(type.dtype).name, extents);
}

Result<int> show(const TasksOptions& options) {
  LATHE_TRY(const TaskSpec task, load_task(options.task));
  print("{}\n", task.name);
  print_block("", task.description);
  print("digest {}\n\n", task.digest.short_hex());
  for (const TensorDecl& tensor : task.tensors)
    print("  {:<16} {}\n", tensor.name, type_text({tensor.dtype, tensor.shape}));
  for (const NodeDecl& node : task.nodes)
    print("  {:<16} {} = {}({})\n", node.out, type_text(node.type), node.op_name,
          fmt::format("{}", fmt::join(node.in, ", ")));
  print("\n{:<32} {:>12} {:>12} {:>10}\n", "shape", "flops", "bytes", "flops/byte");
  for (const NamedShape& shape : task.shapes) {
    LATHE_TRY(const BoundTask bound, lathe::bind(task, shape.dims));
    print("{:<32} {:>12.4g} {:>12.4g} {:>10.2f}\n", shape_name(shape.dims, task), bound.flops,
          bound.bytes_min, bound.flops / bound.bytes_min);
  }
  return static_cast<int>(kSuccess);
}

Result<LintReport> lint_file(const std::string& path, std::uint64_t seed) {
  LATHE_TRY(const TaskSpec task, load_task(path));
  if (task.reference == ReferenceKind::kProcess)
    return Error{ErrorCode::kUnavailable, path + ": lint runs no Python",
                 "lathe eval --device host:cpu refuses a module that is no reference (docs/host.md)"};
  return lint(task, Seed::from_number(seed), stop_token());
}

Result<int> lint_all(const TasksOptions& options) {
  bool sound = true;
  std::optional<int> unusable;
  for (const std::string& path : options.lint_tasks) {
    if (stop_token().cancelled()) return static_cast<int>(kInterrupted);
    const auto report = lint_file(path, options.seed);
    if (!report.ok()) {
      unusable = fail(report.error());
      continue;
    }
    sound = sound && report->sound();
    print("{}: {}\n", path, report->sound() ? "sound" : "REFUSED");
    for (const LintFinding& finding : report->findings)
      print("  {} {}: {}\n", finding.fatal ? "error" : "note", finding.check, finding.text);
    for (const std::string& skipped : report->skipped) print("  skipped {}\n", skipped);
  }
  return unusable.value_or(sound ? kSuccess : kNothingPassed);
}

Result<int> generate(const TasksOptions& options) {
  for (int i = 0; i < options.count; ++i) {
    if (stop_token().cancelled()) return static_cast<int>(kInterrupted);
    LATHE_TRY(const std::string text, generate_task(options.seed + static_cast<std::uint64_t>(i)));
    if (options.out.empty()) {
      print_block("", text);
      continue;
    }
    LATHE_CHECK_OK(make_directories(options.out));
    LATHE_CHECK_OK(write_output(
        fmt::format("{}/generated_{}.toml", options.out, options.seed + static_cast<std::uint64_t>(i)),
        text));
  }
  return static_cast<int>(kSuccess);
}

using Action = Result<int> (*)(const TasksOptions&);

CLI::App* add_action(CLI::App& verb, Run& run, const std::shared_ptr<TasksOptions>& options, const char* name,
                     const char* help, Action action) {
  CLI::App* sub = verb.add_subcommand(name, help);
  sub->callback([options, &run, action] {
    run = [options, action] {
      const auto code = action(*options);
      return code.ok() ? *code : fail(code.error());
    };
  });
  return sub;
}

}  // namespace

void add_tasks(CLI::App& app, Run& run) {
  auto options = std::make_shared<TasksOptions>();
  CLI::App* verb = app.add_subcommand("tasks", "List, show, check and generate tasks");
  verb->require_subcommand(1);
  add_action(*verb, run, options, "list", "The tasks of a folder", list)
      ->add_option("--folder", options->folder, "Where tasks are (default: tasks here, else Lathe's own)");
  add_action(*verb, run, options, "show", "One task: tensors, graph, work at each shape", show)
      ->add_option("TASK", options->task, "A task file")
      ->required();
  CLI::App* check =
      add_action(*verb, run, options, "lint", "Refuse tasks that a wrong kernel could pass", lint_all);
  check->add_option("TASK", options->lint_tasks, "Task files")->required();
  check->add_option("--seed", options->seed, "Draws the inputs")->check(any_seed());
  CLI::App* make = add_action(*verb, run, options, "generate", "Sample sound tasks", generate);
  make->add_option("--seed", options->seed, "The first task's seed")->check(any_seed());
  make->add_option("--count", options->count, "How many")->check(one_or_more());
  make->add_option("--out", options->out, "A folder to write to (default: standard output)");
}

}  // namespace lathe::cli

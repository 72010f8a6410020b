#include <fmt/format.h>

#include "base/output.h"
#include "cli/console.h"
#include "cli/device_choice.h"
#include "cli/options.h"
#include "cli/verbs.h"
#include "policy/catalog/catalog.h"

namespace lathe::cli {
namespace {

struct ProposeOptions {
  CommonOptions common;
  std::string task, shape, out;
  int count = 8;
  std::uint64_t seed = 1;
};

/// A GPU need not be there: the catalogue asks only for its dialect.
Result<DeviceInfo> device_of(const CommonOptions& common) {
  LATHE_TRY(const DeviceChoice choice, parse_device(common.device));
  if (choice.wants_gpu()) return DeviceInfo{.kind = "cuda", .dialect = Dialect::kCuda};
  LATHE_TRY(const auto backend, open_backend(common, nullptr));
  return backend->device();
}

Result<int> propose(const ProposeOptions& options) {
  LATHE_TRY(TaskSpec loaded, load_task(options.task));
  LATHE_CHECK_OK(choose_shape(loaded, options.shape));
  const auto task = std::make_shared<const TaskSpec>(std::move(loaded));
  LATHE_TRY(const DeviceInfo device, device_of(options.common));
  LATHE_TRY(const auto proposals,
            propose_now(*make_catalog_policy(), {.context = {task, device, DevicePeaks{}},
                                                 .count = options.count,
                                                 .seed = Seed::from_number(options.seed),
                                                 .cancel = stop_token()}));
  LATHE_CHECK_OK(make_directories(options.out));
  const char* const ending = device.dialect == Dialect::kCuda ? "cu" : "cpp";
  for (std::size_t i = 0; i < proposals.size(); ++i) {
    const std::string path = fmt::format("{}/{}_{}.{}", options.out, task->name, i, ending);
    LATHE_CHECK_OK(write_output(path, proposals[i].text));
    LATHE_TRY(const Candidate candidate, parse_candidate(proposals[i].text, path));
    print("{}  {}  {}\n", path, candidate.plan().pattern, candidate.plan().knobs);
  }
  return static_cast<int>(kSuccess);
}

}  // namespace

void add_propose(CLI::App& app, Run& run) {
  auto options = std::make_shared<ProposeOptions>();
  CLI::App* verb = app.add_subcommand("propose", "Write the catalogue's kernels for a task, untried");
  verb->add_option("TASK", options->task, "The task's TOML file")->required();
  verb->add_option("--out", options->out, "The folder for candidate files")->required();
  verb->add_option("--count", options->count, "How many, most promising first")->check(one_or_more());
  verb->add_option("--seed", options->seed, "Draws the last quarter's knobs")->check(any_seed());
  verb->add_option("--shape", options->shape, "\"rows=1024,cols=512\": the shape to choose for");
  add_device(*verb, options->common);
  verb->callback([options, &run] {
    run = [options] {
      const auto code = propose(*options);
      return code.ok() ? *code : fail(code.error());
    };
  });
}

}  // namespace lathe::cli

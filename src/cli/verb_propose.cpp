#include <fmt/format.h>

#include "base/fd.h"
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

/// A GPU need not be there: the catalogue asks only for its kind.
Result<DeviceInfo> device_of(const CommonOptions& common) {
  if (common.device == "cuda") {
    DeviceInfo device;
    device.kind = common.device;
    return device;
  }
  LATHE_TRY(const auto backend, open_backend(common, nullptr));
  return backend->device();
}

Result<int> propose(const ProposeOptions& options) {
  LATHE_TRY(TaskSpec task, load_task(options.task));
  LATHE_CHECK_OK(choose_shape(task, options.shape));
  LATHE_TRY(const DeviceInfo device, device_of(options.common));
  Rng rng(Seed::from_number(options.seed));
  LATHE_TRY(const auto proposals,
            make_catalog_policy()->propose({task, device, DevicePeaks{}}, options.count, rng));
  LATHE_CHECK_OK(make_directories(options.out));
  const char* const ending = device.kind == "cuda" ? "cu" : "cpp";
  for (std::size_t i = 0; i < proposals.size(); ++i) {
    const std::string path = fmt::format("{}/{}_{}.{}", options.out, task.name, i, ending);
    LATHE_CHECK_OK(write_file_atomically(path, proposals[i].text));
    LATHE_TRY(const Candidate candidate, parse_candidate(proposals[i].text, path));
    fmt::print("{}  {}  {}\n", path, candidate.plan().pattern, candidate.plan().knobs);
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
  verb->add_option("--seed", options->seed, "Draws the last quarter's knobs");
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

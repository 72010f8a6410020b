#include <fcntl.h>

#include <algorithm>

#include "backend/backend.h"
#include "cli/console.h"
#include "cli/json_log.h"
#include "cli/options.h"
#include "cli/verbs.h"
#include "gym/gym.h"
#include "serve/worker.h"
#include "serve/worker_pool.h"

namespace lathe::cli {
namespace {

/// What builds, verifies and times at once, and a little that is next.
int slots_of(const DeviceInfo& device) { return std::min(16, device.lanes + std::max(2, device.cores / 2)); }

Result<int> work(const CommonOptions& options) {
  if (::fcntl(serve::kWorkerSocketFd, F_GETFD) < 0)
    return invalid("lathe worker has no front end", "lathe serve starts its workers itself");
  ::fcntl(serve::kWorkerSocketFd, F_SETFD, FD_CLOEXEC);
  serve::MessageStream stream{UniqueFd(serve::kWorkerSocketFd)};
  JsonLog log("worker " + options.device);
  LATHE_TRY(const auto backend, open_backend(options, nullptr));
  const auto gym = Gym::start(*backend, gym_options(*backend), log);
  const auto evaluator = gym->connect();
  const DeviceInfo& device = backend->device();
  const serve::WorkerSetup setup{
      .hello = {.kind = {device.kind, kGymVersion}, .device_name = device.name, .slots = slots_of(device)},
      .busy_seconds = [&] { return backend->usage().busy_seconds; },
      .stop = stop_token()};
  const Status status = serve::serve_front_end(stream, *evaluator, setup, log);
  stop_token().cancel();
  LATHE_CHECK_OK(status);
  return static_cast<int>(kSuccess);
}

}  // namespace

void add_worker(CLI::App& app, Run& run) {
  auto options = std::make_shared<CommonOptions>();
  CLI::App* verb = app.add_subcommand("worker", "Evaluate for the lathe serve that has started this process");
  add_threads(*verb, *options);
  add_device(*verb, *options);
  verb->callback([options, &run] {
    run = [options] {
      const auto code = work(*options);
      return code.ok() ? *code : fail(code.error());
    };
  });
}

}  // namespace lathe::cli

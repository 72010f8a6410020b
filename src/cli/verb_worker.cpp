#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <thread>

#include "backend/backend.h"
#include "backend/host/host_backend.h"
#include "base/clock.h"
#include "base/http/client.h"
#include "base/process.h"
#include "cli/console.h"
#include "cli/json_log.h"
#include "cli/options.h"
#include "cli/verbs.h"
#include "cli/worker_programs.h"
#include "gym/gym.h"
#include "gym/version.h"
#include "serve/remote_front_end.h"
#include "serve/worker.h"
#include "serve/worker_pool.h"

namespace lathe::cli {
namespace {

/// What builds, verifies and times at once, and a little that is next.
int slots_of(const DeviceInfo& device) { return std::min(16, device.lanes + std::max(2, device.cores / 2)); }

struct WorkerOptions {
  CommonOptions common;
  std::string front_end;
  std::string queue, store;  ///< of a front end, which this is not
  int drain_seconds = 30;
  int for_each = 1;
  std::string worker_program;
};

/// One that a front end, or the supervisor of work_elsewhere(), has started.
Result<int> work(const CommonOptions& options) {
  if (::fcntl(serve::kWorkerSocketFd, F_GETFD) < 0)
    return invalid("lathe worker has no front end",
                   "name one with --front-end http://HOST:8320; lathe serve starts its own workers itself");
  ::fcntl(serve::kWorkerSocketFd, F_SETFD, FD_CLOEXEC);
  serve::MessageStream stream{UniqueFd(serve::kWorkerSocketFd)};
  JsonLog log("worker " + options.device);
  LATHE_TRY(const auto backend, open_backend(options, nullptr));
  const auto gym = Gym::start(*backend, gym_options(*backend), log);
  const auto evaluator = gym->connect();
  const DeviceInfo& device = backend->device();
  serve::WorkerSetup setup{
      .hello = {.kind = {device.kind, kGymVersion}, .device_name = device.name, .slots = slots_of(device)},
      .busy_seconds = [&] { return backend->usage().busy_seconds; },
      .measure = [&]() -> Result<DeviceRecord> {
        LATHE_TRY(const DevicePeaks peaks, measure_peaks(*backend));
        return DeviceRecord{device, peaks};
      },
      .stop = stop_token()};
  if (device.tier == "HOST")
    setup.complete = [&](TaskSpec spec) { return complete_task(*backend, std::move(spec)); };
  const Status status = serve::serve_front_end(stream, *evaluator, setup, log);
  stop_token().cancel();
  LATHE_CHECK_OK(status);
  return static_cast<int>(kSuccess);
}

std::string machine_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return "machine";
  std::string text(name);
  std::erase_if(text,
                [](char c) { return !std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '.'; });
  return text.empty() ? "machine" : text.substr(0, 64);
}

/// Keeps a worker process for each device, and carries what they and the front end say.
Result<int> work_elsewhere(const WorkerOptions& options) {
  if (!options.queue.empty() || !options.store.empty())
    return invalid(
        "a worker knows no queue and no store: it asks a front end",
        "leave out --queue and --store here; on a machine that may see both, lathe serve --queue ... "
        "--store ... --device DEVICE is a front end with workers of its own");
  if (options.front_end.empty()) return work(options.common);
  JsonLog log("worker");
  const std::string token = take_variable("LATHE_TOKEN");
  LATHE_TRY(const auto front_end,
            serve::RemoteFrontEnd::make({options.front_end, token, machine_name()}, log));
  if (!token.empty() && options.front_end.starts_with("http://") && !http::is_loopback(options.front_end))
    log.on_event({Severity::kWarning, "worker.plain",
                  "the token crosses the network unencrypted: the front end is http://"});
  LATHE_TRY(const auto devices, worker_devices(options.common.device));
  LATHE_TRY(auto programs,
            worker_programs(options.common, devices, {options.worker_program, options.for_each}));
  auto pool = serve::WorkerPool::start(*front_end, std::move(programs), log);
  while (!stop_token().cancelled() && !front_end->refusal() && !pool->hopeless())
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  if (const auto refusal = front_end->refusal()) return *refusal;
  if (const auto hopeless = pool->hopeless()) return *hopeless;
  log.on_event({Severity::kInfo, "worker.draining", "what is in hand is finished"});
  front_end->drain();
  const std::int64_t drain_ns = steady_clock().now_ns();
  while (!front_end->is_idle() && seconds_since(drain_ns) < options.drain_seconds)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  pool.reset();
  log.on_event({Severity::kInfo, "worker.stopped", ""});
  return static_cast<int>(kSuccess);
}

}  // namespace

void add_worker(CLI::App& app, Run& run) {
  auto options = std::make_shared<WorkerOptions>();
  CLI::App* verb = app.add_subcommand(kWorker.name, kWorker.about);
  verb->add_option("--front-end", options->front_end,
                   "http://HOST:8320, a lathe serve; its token for workers comes from LATHE_TOKEN");
  verb->add_option("--drain-seconds", options->drain_seconds, "For what is in hand, after SIGTERM")
      ->check(whole_number(0, 86400))
      ->capture_default_str();
  verb->add_option("--queue", options->queue, "")->group("");
  verb->add_option("--store", options->store, "")->group("");
  verb->add_option("--workers", options->for_each, "")->check(one_or_more())->group("");
  verb->add_option("--worker-program", options->worker_program, "")->group("");
  add_threads(*verb, options->common);
  add_device(*verb, options->common);
  verb->callback([options, &run] {
    run = [options] {
      const auto code = work_elsewhere(*options);
      return code.ok() ? *code : fail(code.error());
    };
  });
}

}  // namespace lathe::cli

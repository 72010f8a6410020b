#include <immintrin.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "backend/cuda/runner/counters.h"
#include "backend/cuda/runner/launcher.h"
#include "backend/cuda/runner/range_counters.h"
#include "backend/cuda/wire/profile_frames.h"
#include "base/clock.h"

namespace lathe::cuda {
namespace {

constexpr int kTimedRuns = 3;
constexpr std::size_t kWarmCalls = 32;
constexpr double kQueuedNs = 1e7;  // work that the loop gives the GPU at a time
constexpr int kMostQueued = 256;
constexpr unsigned kReadThreads = 256, kReadBlocks = 1024;

/// A block's calls, ready to run again and again.
class RecordedCalls {
 public:
  RecordedCalls(const LaunchDevice& device, Graph graph) : device_(device), graph_(graph) {}
  ~RecordedCalls() {
    if (calls_) device_.driver->graph_exec_destroy(calls_);
    device_.driver->graph_destroy(graph_);
  }
  RecordedCalls(const RecordedCalls&) = delete;
  RecordedCalls& operator=(const RecordedCalls&) = delete;

  Status prepare() {
    LATHE_CHECK_OK(check(device_.driver->graph_instantiate(&calls_, graph_, 0), "cannot prepare the calls"));
    return check(device_.driver->graph_upload(calls_, device_.stream), "cannot prepare the calls");
  }
  Status queue() const {
    return check(device_.driver->graph_launch(calls_, device_.stream), "a kernel failed");
  }
  Status finish() const {
    return check(device_.driver->stream_synchronize(device_.stream), "a kernel failed");
  }
  Status run() const {
    LATHE_CHECK_OK(queue());
    return finish();
  }
  /// Nanoseconds on the device.
  Result<double> time() const {
    const Driver& driver = *device_.driver;
    driver.event_record(device_.begin, device_.stream);
    LATHE_CHECK_OK(queue());
    driver.event_record(device_.end, device_.stream);
    LATHE_CHECK_OK(finish());
    float ms = 0;
    LATHE_CHECK_OK(check(driver.event_elapsed_ms(&ms, device_.begin, device_.end), "a kernel failed"));
    return 1e6 * static_cast<double>(ms);
  }

 private:
  const LaunchDevice& device_;
  Graph graph_;
  GraphExec calls_ = nullptr;
};

/// Fills the L2 by reading: what prepare_memory() wrote would else be counted as the candidate's
/// writes.
class CleanL2 {
 public:
  static Result<CleanL2> make(const LaunchDevice& device, const UniqueFd& cubin) {
    CleanL2 reader(device);
    const off_t size = ::lseek(cubin.get(), 0, SEEK_END);
    LATHE_TRY(const Mapping image, map_shared(cubin, static_cast<std::size_t>(size), false));
    Module module = nullptr;
    LATHE_CHECK_OK(check(device.driver->module_load(&module, image.data()), "cannot load Lathe's kernels"));
    LATHE_CHECK_OK(check(device.driver->module_function(&reader.read_, module, "stream_read"),
                         "cannot find Lathe's kernels"));
    return reader;
  }

  Status run() const {
    DevicePointer memory = device_->flush.address();
    auto count = static_cast<std::int64_t>(device_->flush.bytes() / 16);
    std::int64_t rounds = 1;
    void* arguments[] = {&memory, &memory, &count, &rounds};
    LaunchConfig config;
    config.grid[0] = kReadBlocks;
    config.block[0] = kReadThreads;
    config.stream = device_->stream;
    LATHE_CHECK_OK(check(device_->driver->launch(&config, read_, arguments, nullptr), "cannot flush"));
    return check(device_->driver->stream_synchronize(device_->stream), "cannot flush");
  }

 private:
  explicit CleanL2(const LaunchDevice& device) : device_(&device) {}
  const LaunchDevice* device_;
  Function read_ = nullptr;
};

int attribute(const Driver& driver, DeviceAttribute which) {
  int value = 0;
  driver.device_attribute(&value, which, 0);
  return value;
}

int attribute(const Driver& driver, FunctionAttribute which, Function function) {
  int value = 0;
  driver.function_attribute(&value, which, function);
  return value;
}

double product(const Extents& extents) { return 1.0 * extents[0] * extents[1] * extents[2]; }

}  // namespace

/// Of the launch with the most threads.
std::map<std::string, double> Launcher::facts_of_kernels() const {
  const Step* largest = nullptr;
  for (const Step& step : load_.steps)
    if (!step.is_node && (!largest || product(step.grid) * product(step.block) >
                                          product(largest->grid) * product(largest->block)))
      largest = &step;
  if (!largest) return {};
  const Function function = functions_.at(largest->kernel);
  const int reserved = attribute(*driver_, DeviceAttribute::kReservedSharedPerBlock);
  KernelUse use;
  use.blocks = product(largest->grid);
  use.threads = product(largest->block);
  use.registers = attribute(*driver_, FunctionAttribute::kRegisters, function);
  use.local_bytes = attribute(*driver_, FunctionAttribute::kLocalBytes, function);
  use.shared_bytes = attribute(*driver_, FunctionAttribute::kSharedBytes, function) +
                     static_cast<double>(largest->shared_bytes) + reserved;
  int resident = 0;
  if (driver_->blocks_per_multiprocessor(&resident, function, static_cast<int>(use.threads),
                                         largest->shared_bytes) == 0)
    use.blocks_per_sm = resident;
  SmLimits limits;
  limits.multiprocessors = attribute(*driver_, DeviceAttribute::kMultiprocessors);
  limits.threads = attribute(*driver_, DeviceAttribute::kMaxThreadsPerMultiprocessor);
  limits.blocks = attribute(*driver_, DeviceAttribute::kBlocksPerMultiprocessor);
  limits.registers = attribute(*driver_, DeviceAttribute::kRegistersPerMultiprocessor);
  limits.shared_bytes = attribute(*driver_, DeviceAttribute::kSharedPerMultiprocessor);
  return kernel_facts(use, limits);
}

/// The same call again and again: what of its data fits into the L2 stays there.
Result<double> Launcher::time_warm(const ProfileJob& job) const {
  Graph graph = nullptr;
  LATHE_CHECK_OK(record({job.poison, std::vector(kWarmCalls, job.trials.front())}, graph));
  RecordedCalls calls(*device_, graph);
  LATHE_CHECK_OK(calls.prepare());
  LATHE_CHECK_OK(prepare_memory(job.poison, job.trials));
  LATHE_CHECK_OK(calls.run());
  double least_ns = 1e18;
  for (int run = 0; run < kTimedRuns; ++run) {
    LATHE_TRY(const double device_ns, calls.time());
    least_ns = std::min(least_ns, device_ns);
  }
  return least_ns / static_cast<double>(kWarmCalls);
}

Status Launcher::count(const ProfileJob& job, const std::vector<UniqueFd>& fds, ProfileAnswer& answer) const {
  if (fds.size() != 1) return Error{ErrorCode::kCorrupt, "a profile's job came without Lathe's kernels"};
  answer.counters = facts_of_kernels();
  LATHE_TRY(const CleanL2 clean, CleanL2::make(*device_, fds[0]));
  Graph graph = nullptr;
  LATHE_CHECK_OK(record({job.poison, job.trials}, graph));
  RecordedCalls calls(*device_, graph);
  LATHE_CHECK_OK(calls.prepare());
  const auto prepare = [&]() -> Status {
    LATHE_CHECK_OK(prepare_memory(job.poison, job.trials));
    return clean.run();
  };
  CountedBlock block{1e18, static_cast<int>(job.trials.size())};
  for (int run = 0; run < kTimedRuns; ++run) {
    LATHE_CHECK_OK(prepare());
    LATHE_TRY(const double device_ns, calls.time());
    block.device_ns = std::min(block.device_ns, device_ns);
  }
  answer.counters.merge(name_counters({}, block));
  LATHE_TRY(answer.counters["warm_call_ns"], time_warm(job));
  Context context = nullptr;
  LATHE_CHECK_OK(check(driver_->context_current(&context), "no context"));
  LATHE_TRY(const auto metrics,
            count_metrics(context, hardware_metrics(), prepare, [&] { return calls.run(); }));
  answer.counters.merge(name_counters(metrics, block));
  return Ok{};
}

Status Launcher::loop(const ProfileJob& job, ProfileAnswer& answer) const {
  auto* const control = reinterpret_cast<Control*>(control_.data());
  Graph graph = nullptr;
  LATHE_CHECK_OK(record({job.poison, job.trials}, graph));
  RecordedCalls calls(*device_, graph);
  LATHE_CHECK_OK(calls.prepare());
  LATHE_CHECK_OK(prepare_memory(job.poison, job.trials));
  LATHE_TRY(const double block_ns, calls.time());
  const int queued = std::clamp(static_cast<int>(kQueuedNs / std::max(block_ns, 1.0)), 1, kMostQueued);
  control->ready.store(1, std::memory_order_release);
  while (control->go.load(std::memory_order_acquire) == 0) _mm_pause();
  const std::int64_t begin_ns = steady_clock().now_ns();
  double blocks = 0;
  while (seconds_since(begin_ns) < job.seconds) {
    for (int i = 0; i < queued; ++i) LATHE_CHECK_OK(calls.queue());
    LATHE_CHECK_OK(calls.finish());
    blocks += queued;
  }
  control->done.store(1, std::memory_order_release);
  answer.counters["loop_calls"] = blocks * static_cast<double>(job.trials.size());
  return Ok{};
}

bool Launcher::serve_profile(const Channel& channel, const Frame& frame) const {
  const auto job = decode_profile_job(frame.bytes);
  if (!job.ok()) return false;
  for (const std::uint32_t trial : job->trials)
    if (trial >= load_.layout.trials) return false;
  ProfileAnswer answer;
  const Status done =
      job->verb == ProfileJob::Verb::kLoop ? loop(*job, answer) : count(*job, frame.fds, answer);
  answer.ok = done.ok();
  if (!done.ok()) answer.text = done.error().to_string();
  return channel.send(encode(answer)).ok();
}

ProfileAnswer probe_counters(const Driver& driver) {
  ProfileAnswer answer;
  Context context = nullptr;
  const auto nothing = [] { return Status(Ok{}); };
  Status found = check(driver.context_current(&context), "no context");
  if (found.ok()) {
    const std::vector<std::string> metrics = {"gpu__time_duration.sum"};
    auto counted = count_metrics(context, metrics, nothing, nothing);
    if (!counted.ok()) found = counted.error();
  }
  answer.ok = found.ok();
  if (!found.ok()) answer.text = found.error().to_string();
  return answer;
}

}  // namespace lathe::cuda

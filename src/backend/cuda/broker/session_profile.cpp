#include <algorithm>
#include <cstring>
#include <thread>

#include "backend/cuda/broker/device_log.h"
#include "backend/cuda/broker/session.h"
#include "backend/cuda/wire/profile_frames.h"
#include "base/clock.h"

namespace lathe::cuda {
namespace {

constexpr int kPatienceMs = 100;
constexpr double kCountSeconds = 60;  // the first pass of a process takes a second
constexpr double kLoopExtraSeconds = 20;
constexpr auto kBetweenReadings = std::chrono::milliseconds(2);

Result<ProfileAnswer> receive_answer(const Channel& channel, double seconds, const CancelToken& cancel) {
  const std::int64_t begin_ns = steady_clock().now_ns();
  for (;;) {
    auto frame = channel.receive(kPatienceMs);
    if (frame.ok()) return decode_profile_answer(frame->bytes);
    if (frame.error().code != ErrorCode::kTimeout) return frame.error();
    if (cancel.cancelled()) return Error{ErrorCode::kCancelled, "cancelled"};
    if (seconds_since(begin_ns) > seconds) return Error{ErrorCode::kTimeout, "the candidate does not end"};
  }
}

/// The GPU's energy counter moves ten times a second: what lies between two moves is known, not
/// what lies before the first or after the last.
class EnergyMeter {
 public:
  void look(double joules, std::int64_t now_ns) {
    if (joules == last_joules_) return;
    if (last_joules_ > 0 && first_ns_ == 0) first_joules_ = joules, first_ns_ = now_ns;
    last_joules_ = joules;
    last_ns_ = now_ns;
  }
  /// 0 if the counter moved less than twice.
  double watts() const {
    const double seconds = static_cast<double>(last_ns_ - first_ns_) * 1e-9;
    return first_ns_ > 0 && seconds > 0 ? (last_joules_ - first_joules_) / seconds : 0;
  }

 private:
  double first_joules_ = 0, last_joules_ = 0;
  std::int64_t first_ns_ = 0, last_ns_ = 0;
};

Error answered_badly(const ProfileAnswer& answer) { return {ErrorCode::kUnavailable, answer.text}; }

}  // namespace

Status CudaSession::ask_profile(const ProfileJob& job, const std::vector<int>& fds) {
  LATHE_CHECK_OK(bank_.reset(job.poison));
  clear_control();
  return launcher_->process.channel().send(encode(job), fds);
}

Status CudaSession::count(const ProfileRequest& request, CallProfile& profile) {
  ProfileJob job;
  job.verb = ProfileJob::Verb::kCount;
  job.trials.assign(request.trials.begin(), request.trials.end());
  LATHE_TRY(const UniqueFd kernels, make_sealed_memfd("kernels", options_.kernels));
  LATHE_CHECK_OK(ask_profile(job, {kernels.get()}));
  LATHE_TRY(ProfileAnswer answer,
            receive_answer(launcher_->process.channel(), kCountSeconds, request.cancel));
  profile.counters.merge(answer.counters);
  if (!answer.ok) return answered_badly(answer);
  return Ok{};
}

Status CudaSession::measure_energy(const ProfileRequest& request, CallProfile& profile) {
  if (!options_.log) return Error{ErrorCode::kUnavailable, "no energy: NVML is missing"};
  const Nvml& nvml = options_.log->nvml();
  LATHE_TRY(double joules, nvml.joules());
  ProfileJob job;
  job.verb = ProfileJob::Verb::kLoop;
  job.seconds = request.energy_seconds;
  job.trials.assign(request.trials.begin(), request.trials.end());
  LATHE_CHECK_OK(ask_profile(job, {}));
  const auto soon = static_cast<std::int64_t>(1e9 * kLoopExtraSeconds);
  if (!wait_for(control().ready, steady_clock().now_ns() + soon, request.cancel, false))
    return Error{ErrorCode::kTimeout, "no energy: the candidate does not begin"};
  const std::int64_t begin_ns = steady_clock().now_ns();
  control().go.store(1, std::memory_order_release);
  EnergyMeter meter;
  std::vector<DeviceReading> readings;
  while (control().done.load(std::memory_order_acquire) == 0 && !request.cancel.cancelled() &&
         seconds_since(begin_ns) < request.energy_seconds + kLoopExtraSeconds && !answered()) {
    std::this_thread::sleep_for(kBetweenReadings);
    LATHE_TRY(joules, nvml.joules());
    if (control().done.load(std::memory_order_acquire) != 0) break;
    meter.look(joules, steady_clock().now_ns());
    readings.push_back(nvml.read());
  }
  const double seconds = seconds_since(begin_ns);
  LATHE_TRY(const ProfileAnswer answer, receive_answer(launcher_->process.channel(), 1, request.cancel));
  if (!answer.ok) return answered_badly(answer);
  const auto calls = answer.counters.find("loop_calls");
  if (calls == answer.counters.end() || calls->second < 1 || meter.watts() <= 0)
    return Error{ErrorCode::kUnavailable, "no energy: the GPU's counter did not move"};
  profile.counters["loop_call_ns"] = 1e9 * seconds / calls->second;
  profile.counters["loop_power_w"] = meter.watts();
  profile.counters["joules"] = meter.watts() * seconds / calls->second;
  const auto state = summarise(readings);
  for (const auto& [name, value] : state)
    if (name == "clock_mhz" || name.starts_with("throttled.")) profile.counters["loop_" + name] = value;
  return Ok{};
}

CallProfile CudaSession::profile(const ProfileRequest& request) {
  CallProfile profile;
  const auto note = [&](const Status& done) {
    if (!done.ok()) profile.notes.push_back(done.error().to_string());
    return done.ok() || done.error().code == ErrorCode::kUnavailable;
  };
  const auto outputs = bank_.lock();
  if (generation_ != workload_->generation()) launcher_.reset();
  if (!launcher_ && !note(start())) return profile;
  const auto lease = options_.lane->take(DeviceLane::Use::kTiming, DeviceLane::Grain::kBlock);
  if (note(count(request, profile))) note(measure_energy(request, profile));
  launcher_.reset();  // CUPTI stays in a process that it was in
  return profile;
}

}  // namespace lathe::cuda

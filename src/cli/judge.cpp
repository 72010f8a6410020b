#include "cli/judge.h"

#include "backend/host/host_backend.h"
#include "base/process.h"
#include "cli/device_choice.h"
#include "serve/client/remote_gym.h"

namespace lathe::cli {
namespace {

class LocalJudge final : public Judge {
 public:
  LocalJudge(std::unique_ptr<Backend> backend, const DevicePeaks& peaks, const JudgeOptions& more,
             EventSink& events)
      : backend_(std::move(backend)),
        peaks_(peaks),
        gym_(Gym::start(*backend_, options_of_gym(more), events)),
        evaluator_(gym_->connect()) {}

  const DeviceInfo& device() const override { return backend_->device(); }
  const DevicePeaks& peaks() const override { return peaks_; }
  Evaluator& evaluator() override { return *evaluator_; }
  DeviceLane* lane() override { return &backend_->lane(); }
  Result<TaskSpec> complete(TaskSpec task) override {
    if (task.reference != ReferenceKind::kProcess || device().tier != "HOST") return task;
    return complete_task(*backend_, std::move(task));
  }

 private:
  GymOptions options_of_gym(const JudgeOptions& more) {
    GymOptions options = gym_options(*backend_);
    options.inspect_code = more.inspect_code;
    return options;
  }

  const std::unique_ptr<Backend> backend_;
  const DevicePeaks peaks_;
  const std::unique_ptr<Gym> gym_;
  const std::unique_ptr<Evaluator> evaluator_;
};

class RemoteJudge final : public Judge {
 public:
  explicit RemoteJudge(std::unique_ptr<serve::RemoteGym> gym)
      : gym_(std::move(gym)), evaluator_(gym_->connect_client()) {}

  const DeviceInfo& device() const override { return gym_->device().device; }
  const DevicePeaks& peaks() const override { return gym_->device().peaks; }
  Evaluator& evaluator() override { return *evaluator_; }
  DeviceLane* lane() override { return nullptr; }
  Result<TaskSpec> complete(TaskSpec task) override { return task; }  // its workers do

 private:
  const std::unique_ptr<serve::RemoteGym> gym_;
  const std::unique_ptr<Evaluator> evaluator_;
};

Result<std::unique_ptr<Judge>> open_service(const CommonOptions& options, const std::string& url,
                                            EventSink& events) {
  if (options.threads != 1 || options.reduced_jail)
    return invalid("--threads and --reduced-jail are for a device of this machine",
                   "give them to the lathe serve at " + url);
  LATHE_TRY(auto gym, serve::RemoteGym::connect({.url = url, .token = take_variable("LATHE_TOKEN")}, events,
                                                stop_token()));
  return std::unique_ptr<Judge>(std::make_unique<RemoteJudge>(std::move(gym)));
}

}  // namespace

Result<std::unique_ptr<Judge>> Judge::open(const CommonOptions& options, Store* store, EventSink& events,
                                           const JudgeOptions& more) {
  LATHE_TRY(const DeviceChoice choice, parse_device(options.device));
  if (choice.kind == DeviceChoice::Kind::kService) return open_service(options, choice.url, events);
  LATHE_TRY(auto backend, open_backend(options, store));
  LATHE_TRY(const DevicePeaks peaks, measure_peaks(*backend));
  return std::unique_ptr<Judge>(std::make_unique<LocalJudge>(std::move(backend), peaks, more, events));
}

}  // namespace lathe::cli

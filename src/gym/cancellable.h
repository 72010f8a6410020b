#pragma once

#include <memory>

#include "backend/backend.h"
#include "task/cancellable.h"

namespace lathe {

/// A backend whose work ends soon after its token is raised: what runs is killed, nothing new
/// begins. Errors are then kCancelled, blocks end as kInfra. `inner` must outlive it. Peaks are
/// measured to the end.
class CancellableBackend final : public Backend {
 public:
  CancellableBackend(Backend& inner, CancelToken cancel) : inner_(inner), cancel_(std::move(cancel)) {}
  /// For evaluation number `evaluation`, of `candidate`: its processes are that evaluation's own.
  CancellableBackend(Backend& inner, CancelToken cancel, const Digest& candidate, std::uint64_t evaluation,
                     std::atomic<std::int64_t>* waited_ns)
      : inner_(inner),
        cancel_(std::move(cancel)),
        candidate_(candidate),
        evaluation_(evaluation),
        waited_ns_(waited_ns) {}

  const DeviceInfo& device() const override { return inner_.device(); }
  Result<DevicePeaks> peaks() override { return inner_.peaks(); }
  void set_peaks(const DevicePeaks& peaks) override { inner_.set_peaks(peaks); }
  Result<DevicePeaks> remeasure_peaks() override { return inner_.remeasure_peaks(); }
  DeviceUsage usage() const override { return inner_.usage(); }
  DeviceLane& lane() override { return inner_.lane(); }
  DeviceLane::Lease lease(DeviceLane::Use use, DeviceLane::Grain grain) override {
    DeviceLane::Lease lease = inner_.lane().take(use, grain, cancel_);
    if (waited_ns_) *waited_ns_ += lease.waited_ns();
    return lease;
  }
  void on_idle(const Candidate& last) override { inner_.on_idle(last); }
  bool covers(const Candidate& candidate, const BoundTask& task) const override {
    return inner_.covers(candidate, task);
  }
  ProductEngine* products() override { return inner_.products(); }
  Result<std::unique_ptr<Reference>> make_reference(const TaskSpec& spec) override {
    return inner_.make_reference(spec);
  }
  std::map<std::string, double> device_state(std::int64_t begin_ns, std::int64_t end_ns) const override {
    return inner_.device_state(begin_ns, end_ns);
  }
  using Backend::build;
  Result<BuildResult> build(const Candidate& candidate, const BoundTask& task,
                            const CancelToken& cancel) override;
  Result<BuildResult> build_together(const Candidate& candidate, std::span<const BoundTask* const> tasks,
                                     const CancelToken& cancel) override;
  Result<std::map<std::string, double>> inspect(const Artifact& artifact) override {
    return inner_.inspect(artifact);
  }
  Result<std::shared_ptr<const Workload>> prepare(Workload workload) override;
  using Backend::open;
  Result<std::unique_ptr<Session>> open(const Candidate& candidate, const Artifact& artifact,
                                        std::shared_ptr<const Workload> workload, Runner runner) override;
  Result<std::vector<std::unique_ptr<Session>>> open_together(const Candidate& candidate,
                                                              std::span<const Opening> openings,
                                                              Runner runner) override;

 private:
  /// The same with what the evaluation is.
  Runner own(const Candidate& candidate, Runner runner) const;
  std::unique_ptr<Session> wrap(std::unique_ptr<Session> session) const;

  Backend& inner_;
  CancelToken cancel_;
  Digest candidate_;
  std::uint64_t evaluation_ = 0;
  std::atomic<std::int64_t>* waited_ns_ = nullptr;
};

}  // namespace lathe

#include "gym/cancellable.h"

namespace lathe {
namespace {

class CancellableSession final : public Session {
 public:
  CancellableSession(std::unique_ptr<Session> inner, CancelToken cancel, std::atomic<std::int64_t>* waited_ns)
      : inner_(std::move(inner)), cancel_(std::move(cancel)), waited_ns_(waited_ns) {}

  BlockOutcome run(const BlockRequest& request) override {
    BlockRequest cancellable = request;
    cancellable.cancel = cancel_;
    cancellable.waited_ns = waited_ns_;
    return inner_->run(cancellable);
  }

  void get_ready() override { inner_->get_ready(); }

  CallProfile profile(const ProfileRequest& request) override {
    ProfileRequest cancellable = request;
    cancellable.cancel = cancel_;
    return inner_->profile(cancellable);
  }

 private:
  std::unique_ptr<Session> inner_;
  CancelToken cancel_;
  std::atomic<std::int64_t>* waited_ns_;
};

}  // namespace

Result<BuildResult> CancellableBackend::build(const Candidate& candidate, const BoundTask& task,
                                              const CancelToken&) {
  if (cancel_.cancelled()) return cancelled_error();
  return inner_.build(candidate, task, cancel_);
}

Result<BuildResult> CancellableBackend::build_together(const Candidate& candidate,
                                                       std::span<const BoundTask* const> tasks,
                                                       const CancelToken&) {
  if (cancel_.cancelled()) return cancelled_error();
  return inner_.build_together(candidate, tasks, cancel_);
}

Result<std::shared_ptr<const Workload>> CancellableBackend::prepare(Workload workload) {
  if (cancel_.cancelled()) return cancelled_error();
  return inner_.prepare(std::move(workload));
}

Result<std::unique_ptr<Session>> CancellableBackend::open(const Candidate& candidate,
                                                          const Artifact& artifact,
                                                          std::shared_ptr<const Workload> workload,
                                                          Runner runner) {
  if (cancel_.cancelled()) return cancelled_error();
  LATHE_TRY(auto session, inner_.open(candidate, artifact, std::move(workload), own(candidate, runner)));
  return wrap(std::move(session));
}

Result<std::vector<std::unique_ptr<Session>>> CancellableBackend::open_together(
    const Candidate& candidate, std::span<const Opening> openings, Runner runner) {
  if (cancel_.cancelled()) return cancelled_error();
  LATHE_TRY(auto sessions, inner_.open_together(candidate, openings, own(candidate, runner)));
  for (std::unique_ptr<Session>& session : sessions) session = wrap(std::move(session));
  return sessions;
}

Runner CancellableBackend::own(const Candidate& candidate, Runner runner) const {
  if (evaluation_ > 0 && candidate.digest == candidate_) runner.evaluation = evaluation_;
  return runner;
}

std::unique_ptr<Session> CancellableBackend::wrap(std::unique_ptr<Session> session) const {
  return std::make_unique<CancellableSession>(std::move(session), cancel_, waited_ns_);
}

}  // namespace lathe

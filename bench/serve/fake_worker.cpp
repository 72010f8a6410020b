#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <list>
#include <thread>

#include "base/random.h"
#include "bench/serve/fake_verdict.h"
#include "gym/gym.h"
#include "gym/version.h"
#include "serve/worker.h"
#include "serve/worker_pool.h"

// A worker of lathe serve without a device: its verdicts follow from the candidates' texts, and so
// do its faults.
namespace lathe::serve {
namespace {

double number_from(const char* variable) {
  const char* text = std::getenv(variable);
  return text ? std::atof(text) : 0;
}

/// How a text says what is to happen: "... sleep=0.5 ...".
double number_in(const std::string& text, const std::string& name) {
  const std::size_t at = text.find(name + "=");
  return at == std::string::npos ? 0 : std::atof(text.c_str() + at + name.size() + 1);
}

/// A text with "kill=STAGE:worker" or "kill=STAGE:parent" kills this process, or whoever started
/// it, when its evaluation is in that stage: once in all, of which a file is left.
class Killer {
 public:
  explicit Killer(const char* folder) : folder_(folder ? folder : "") {}

  void reach(const EvaluationRequest& request, const std::string& stage) const {
    if (is_due(request, stage + ":worker")) ::kill(::getpid(), SIGKILL);
    if (is_due(request, stage + ":parent")) ::kill(parent_, SIGKILL);
  }
  /// The same some time later, in the middle of what follows.
  void reach_soon(const EvaluationRequest& request, const std::string& stage, double seconds) const {
    const bool worker = is_due(request, stage + ":worker");
    if (!worker && !is_due(request, stage + ":parent")) return;
    std::thread([victim = worker ? ::getpid() : parent_, seconds] {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
      ::kill(victim, SIGKILL);
    }).detach();
  }

 private:
  bool is_due(const EvaluationRequest& request, const std::string& what) const {
    if (folder_.empty() || request.text.find("kill=" + what + " ") == std::string::npos) return false;
    const std::string mark = folder_ + "/" + what + "." + digest_of(request.text).short_hex();
    const int file = ::open(mark.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file >= 0) ::close(file);
    return file >= 0;
  }
  const std::string folder_;
  const pid_t parent_ = ::getppid();  // once it has ended another process would be
};

std::string version_here() {
  const char* const version = std::getenv("LATHE_FAKE_GYM_VERSION");
  return version ? version : kGymVersion;
}

class FakeEvaluator final : public Evaluator {
 public:
  Result<Ticket> submit(EvaluationRequest request) override {
    const std::string& text = request.text;
    killer_.reach(request, "leased");
    if (text.find("fault") != std::string::npos) std::abort();
    if (text.find("exhaust") != std::string::npos || rng_.chance(death_)) ::kill(::getpid(), SIGKILL);
    if (text.find("stop_worker") != std::string::npos) ::kill(::getpid(), SIGSTOP);
    double seconds = number_in(text, "sleep");
    if (prepare_seconds_ > 0) seconds += prepared(request.task->digest);
    std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    const auto cost = std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
    free_at_ = std::max(free_at_, now) + cost;
    jobs_.push_back({++last_, std::move(request), free_at_, cost});
    changed_.notify_one();
    return last_;
  }

  std::optional<Evaluated> poll(double timeout_seconds) override {
    std::unique_lock lock(mutex_);
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_seconds);
    for (;;) {
      const auto now = std::chrono::steady_clock::now();
      for (auto job = jobs_.begin(); job != jobs_.end(); ++job) {
        const bool cancelled = job->request.cancel.cancelled();
        pass_stages(*job, now);
        if (!cancelled && job->ready > now) continue;
        Evaluated done{job->ticket, cancelled ? Result<Verdict>(Error{ErrorCode::kCancelled, "cancelled"})
                                              : Result<Verdict>(fake_verdict(job->request))};
        if (done.verdict.ok()) done.verdict->provenance.gym_version = version_;
        killer_.reach_soon(job->request, "storing", rng_.uniform() * kStoringSeconds);
        jobs_.erase(job);
        return done;
      }
      if (now > end) return std::nullopt;
      const auto next = jobs_.empty() ? now + std::chrono::milliseconds(50) : jobs_.front().ready;
      changed_.wait_until(lock, std::min(next, now + std::chrono::milliseconds(10)));
    }
  }

  int in_flight() const override { return 0; }
  void prepare(std::shared_ptr<const TaskSpec>) override {}
  Result<TaskBaselines> baselines(std::shared_ptr<const TaskSpec>, const CancelToken&) override {
    return TaskBaselines{};
  }

 private:
  struct Job {
    Ticket ticket;
    EvaluationRequest request;
    std::chrono::steady_clock::time_point ready;
    std::chrono::nanoseconds cost;
    std::size_t stages = 0;  ///< that have begun
  };
  static constexpr const char* kStages[] = {"building", "verifying", "timing"};  // a third each
  static constexpr double kStoringSeconds = 0.004;  // for an answer to become durable, about

  void pass_stages(Job& job, std::chrono::steady_clock::time_point now) const {
    constexpr std::size_t kCount = std::size(kStages);
    for (; job.stages < kCount; ++job.stages) {
      if (now < job.ready - job.cost * static_cast<int>(kCount - job.stages) / static_cast<int>(kCount))
        return;
      killer_.reach(job.request, kStages[job.stages]);
    }
  }

  /// The cost of preparing a task, of which a few are kept.
  double prepared(const Digest& task) {
    const auto found = std::find(tasks_.begin(), tasks_.end(), task);
    const double cost = found == tasks_.end() ? prepare_seconds_ : 0;
    if (found != tasks_.end()) tasks_.erase(found);
    tasks_.push_back(task);
    if (tasks_.size() > 4) tasks_.pop_front();
    return cost;
  }

  const double death_ = number_from("LATHE_FAKE_DEATH");
  const double prepare_seconds_ = number_from("LATHE_FAKE_PREPARE_SECONDS");
  const Killer killer_{std::getenv("LATHE_FAKE_KILLS")};
  const std::string version_ = version_here();
  Rng rng_{Seed::from_system()};
  std::list<Digest> tasks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::chrono::steady_clock::time_point free_at_ = {};
  Ticket last_ = 0;
};

}  // namespace
}  // namespace lathe::serve

int main() {
  using namespace lathe;
  using namespace lathe::serve;
  MessageStream stream{UniqueFd(kWorkerSocketFd)};
  FakeEvaluator evaluator;
  const WorkerSetup setup{.hello = {.kind = {"cpu", version_here()}, .device_name = "fake", .slots = 4}};
  return serve_front_end(stream, evaluator, setup, null_sink()).ok() ? 0 : 1;
}

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
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

class FakeEvaluator final : public Evaluator {
 public:
  Result<Ticket> submit(EvaluationRequest request) override {
    const std::string& text = request.text;
    if (text.find("fault") != std::string::npos) std::abort();
    if (text.find("exhaust") != std::string::npos || rng_.chance(death_)) ::kill(::getpid(), SIGKILL);
    if (text.find("stop_worker") != std::string::npos) ::kill(::getpid(), SIGSTOP);
    double seconds = number_in(text, "sleep");
    if (prepare_seconds_ > 0) seconds += prepared(request.task->digest);
    std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    free_at_ = std::max(free_at_, now) + std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
    jobs_.push_back({++last_, std::move(request), free_at_});
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
        if (!cancelled && job->ready > now) continue;
        Evaluated done{job->ticket, cancelled ? Result<Verdict>(Error{ErrorCode::kCancelled, "cancelled"})
                                              : Result<Verdict>(fake_verdict(job->request))};
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
  };

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
  const WorkerSetup setup{.hello = {.kind = {"cpu", kGymVersion}, .device_name = "fake", .slots = 4}};
  return serve_front_end(stream, evaluator, setup, null_sink()).ok() ? 0 : 1;
}

#include "serve/client/remote_gym.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/http/client.h"
#include "base/random.h"
#include "base/statistics.h"
#include "baseline/baseline.h"
#include "record/json.h"
#include "record/json_reader.h"
#include "serve/evaluation.h"
#include "task/task_text.h"

namespace lathe::serve {
namespace {

using nlohmann::json;

constexpr double kShortestPauseSeconds = 0.1, kLongestPauseSeconds = 5;
constexpr double kReplySeconds = 60;
constexpr double kFirstAnswerSeconds = 10;  // an address may be mistyped
constexpr double kFarewellSeconds = 3;
constexpr auto kBusyPause = std::chrono::seconds(2);
constexpr auto kBetweenChecks = std::chrono::milliseconds(50);
constexpr std::size_t kBatchItems = 64, kBatchBytes = 4 << 20;
constexpr int kHighestPriority = 100;
constexpr int kInfraAttempts = 3;
constexpr int kTimesForgotten = 5;  // a service is restarted with another store now and then

/// What a reply that is no success says. `again` where waiting may help.
struct Refusal {
  Error error;
  bool again = false;
};

Refusal refusal_of(const http::Reply& reply, const std::string& url) {
  std::string message = fmt::format("status {}", reply.status);
  if (const auto document = parse_json(reply.body, "the reply"); document.ok() && document->is_object())
    if (const json fault = document->value("error", json()); fault.is_object())
      if (const auto found = fault.find("message"); found != fault.end() && found->is_string())
        message = found->get<std::string>();
  message = fmt::format("the service at {} says: {}", url, message);
  if (reply.status == 401)
    return {invalid(message,
                    "put the token that lathe serve token add NAME --role submit prints into LATHE_TOKEN")};
  if (reply.status == 403)
    return {invalid(message, "lathe serve token add NAME --role submit makes a token for this")};
  if (reply.status == 404) return {{ErrorCode::kNotFound, message}};
  if (reply.status == 429) return {{ErrorCode::kBusy, message}, true};
  if (reply.status >= 500) return {{ErrorCode::kUnavailable, message}, true};
  return {invalid(message)};
}

/// One thread's connection to the service. What fails for want of an answer is tried again.
class Line {
 public:
  Line(const RemoteGymOptions& options, EventSink& events) : options_(options), events_(events) {}

  struct Ask {
    std::string method, target;
    std::string body = {};
    double seconds = kReplySeconds;
    bool returns_busy = false;  ///< instead of waiting until the service has room
  };
  /// Errors: kUnavailable once nobody has answered for the options' patience; kNotFound, kInvalid,
  /// kBusy.
  Result<json> ask(const Ask& ask, const CancelToken& cancel) {
    http::Request request{.url = options_.url + ask.target, .method = ask.method, .body = ask.body};
    request.total_seconds = request.idle_seconds = ask.seconds;
    request.cancel = cancel;
    if (!ask.body.empty()) request.headers.emplace_back("Content-Type: application/json");
    if (!options_.token.empty()) request.headers.push_back("Authorization: Bearer " + options_.token);
    const std::int64_t begin_ns = steady_clock().now_ns();
    for (double pause = kShortestPauseSeconds;; pause = std::min(2 * pause, kLongestPauseSeconds)) {
      const auto reply = connection_.exchange(request);
      if (reply.ok() && reply->status < 300) {
        note_answer();
        return parse_json(reply->body, "the service's reply");
      }
      Refusal refusal = reply.ok() ? refusal_of(*reply, options_.url) : Refusal{reply.error(), true};
      const ErrorCode code = refusal.error.code;
      refusal.again = refusal.again && (code == ErrorCode::kUnavailable || code == ErrorCode::kIo ||
                                        code == ErrorCode::kTimeout || code == ErrorCode::kBusy);
      if (cancel.cancelled()) return Error{ErrorCode::kCancelled, "the request was cancelled"};
      if (!refusal.again || (code == ErrorCode::kBusy && ask.returns_busy)) return refusal.error;
      if (code != ErrorCode::kBusy && seconds_since(begin_ns) > options_.patience_seconds)
        return Error{ErrorCode::kUnavailable,
                     fmt::format("no answer from {} for {:.0f} s: {}", options_.url,
                                 options_.patience_seconds, refusal.error.message),
                     "start lathe serve there, or check the address; what it was asked for is not lost"};
      if (code != ErrorCode::kBusy) note_failure(refusal.error);
      const double asked = reply.ok() ? reply->retry_after_seconds : 0;
      wait(std::max(asked, pause * (0.5 + 0.5 * rng_.uniform())), cancel);
    }
  }

 private:
  static void wait(double seconds, const CancelToken& cancel) {
    const std::int64_t begin_ns = steady_clock().now_ns();
    while (!cancel.cancelled() && seconds_since(begin_ns) < seconds)
      std::this_thread::sleep_for(kBetweenChecks);
  }
  /// One line for many attempts.
  void note_failure(const Error& error) {
    if (std::exchange(is_cut_off_, true)) return;
    events_.on_event({Severity::kWarning, "gym.cut_off", error.to_string() + "; it is tried again"});
  }
  void note_answer() {
    if (!std::exchange(is_cut_off_, false)) return;
    events_.on_event({Severity::kInfo, "gym.back", options_.url + " answers again"});
  }

  const RemoteGymOptions& options_;
  EventSink& events_;
  http::Connection connection_;
  Rng rng_{Seed::from_system()};
  bool is_cut_off_ = false;
};

json task_json(const TaskSpec& task) {
  if (task.reference == ReferenceKind::kNative) return {{"digest", task.digest.hex()}};
  const TaskText text = text_of(task);
  json node = {{"toml", text.toml}};
  if (text.module) node["files"] = {{task.reference_source, *text.module}};
  return node;
}

json item_json(const EvaluationRequest& request) {
  json item = {{"task", task_json(*request.task)},
               {"candidate", request.text},
               {"depth", name(request.depth)},
               {"priority", std::clamp(request.priority, -kHighestPriority, kHighestPriority)}};
  if (request.deadline_seconds > 0) item["deadline_seconds"] = request.deadline_seconds;
  return item;
}

/// A document that is not what the service's interface says.
Error strange(const std::string& what) {
  return {ErrorCode::kCorrupt, "the service's reply is not understood: " + what,
          "it has to be a lathe serve of this version"};
}

class RemoteEvaluator final : public Evaluator {
 public:
  using BaselinesOf =
      std::function<std::shared_future<Result<TaskBaselines>>(std::shared_ptr<const TaskSpec>)>;

  RemoteEvaluator(const RemoteGymOptions& options, std::string device_kind, EventSink& events,
                  BaselinesOf baselines_of)
      : options_(options),
        device_kind_(std::move(device_kind)),
        events_(events),
        baselines_of_(std::move(baselines_of)),
        sending_([this] { send_all(); }),
        listening_([this] { listen(); }) {}

  ~RemoteEvaluator() override {
    {
      const std::lock_guard lock(mutex_);  // else a thread that is about to wait misses it
      stop_.cancel();
    }
    changed_.notify_all();
    sending_.join();
    listening_.join();
    RemoteGymOptions hasty = options_;
    hasty.patience_seconds = 0;
    Line line(hasty, events_);
    const std::int64_t begin_ns = steady_clock().now_ns();
    for (const auto& [id, ticket] : tickets_) unwanted_.insert(id);
    for (const std::string& id : unwanted_)
      if (seconds_since(begin_ns) < kFarewellSeconds) withdraw(line, id, {});
  }

  Result<Ticket> submit(EvaluationRequest request) override {
    auto candidate = candidate_of(request);
    // JSON would carry another text, and the verdict would be about that.
    if (candidate.ok() && json::parse(json_text(request.text)) != json(request.text))
      candidate = invalid("the candidate holds bytes that are not UTF-8", "write text");
    const std::lock_guard lock(mutex_);
    if (static_cast<int>(requests_.size()) >= options_.most_unfinished)
      return Error{ErrorCode::kBusy, fmt::format("{} requests are unfinished", requests_.size())};
    const Ticket ticket = ++last_ticket_;
    if (candidate.ok()) {
      requests_.emplace(ticket, Request{std::move(request), steady_clock().now_ns()});
      outbox_.push_back(ticket);
    } else {
      done_.push_back({ticket, unreadable_verdict(request, candidate.error())});
    }
    changed_.notify_all();
    return ticket;
  }

  std::optional<Evaluated> poll(double timeout_seconds) override {
    std::unique_lock lock(mutex_);
    end_unwanted();  // the sending thread may wait for minutes for a service that is gone
    changed_.wait_for(lock, std::chrono::duration<double>(timeout_seconds),
                      [&] { return !done_.empty() || requests_.empty(); });
    if (done_.empty()) return std::nullopt;
    Evaluated first = std::move(done_.front());
    done_.pop_front();
    return first;
  }

  int in_flight() const override {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(requests_.size() + done_.size());
  }

  void prepare(std::shared_ptr<const TaskSpec> task) override { baselines_of_(std::move(task)); }

  Result<TaskBaselines> baselines(std::shared_ptr<const TaskSpec> task, const CancelToken& cancel) override {
    const auto future = baselines_of_(std::move(task));
    while (future.wait_for(kBetweenChecks) != std::future_status::ready)
      if (cancel.cancelled()) return Error{ErrorCode::kCancelled, "cancelled"};
    return future.get();
  }

 private:
  struct Request {
    EvaluationRequest request;
    std::int64_t submitted_ns;
    std::string id = {};  ///< of the service; empty until it has answered
    int times_forgotten = 0;
  };

  void finish(Ticket ticket, Result<Verdict> verdict) {
    const auto found = requests_.find(ticket);
    if (found == requests_.end()) return;
    const auto [first, last] = tickets_.equal_range(found->second.id);
    for (auto it = first; it != last; ++it)
      if (it->second == ticket) {
        tickets_.erase(it);
        break;
      }
    requests_.erase(found);
    has_room_ = true;
    done_.push_back({ticket, std::move(verdict)});
    changed_.notify_all();
  }

  void finish_all(const Error& error) {
    while (!requests_.empty()) finish(requests_.begin()->first, error);
    outbox_.clear();
  }

  /// Ends what nobody waits for any more, and what is late. What the service knows of it is to be
  /// withdrawn.
  void end_unwanted() {
    std::vector<Evaluated> ended;
    for (const auto& [ticket, one] : requests_) {
      const double deadline = one.request.deadline_seconds;
      if (one.request.cancel.cancelled())
        ended.push_back({ticket, Error{ErrorCode::kCancelled, "the evaluation was cancelled"}});
      else if (deadline > 0 && seconds_since(one.submitted_ns) > deadline)
        ended.push_back(
            {ticket, Error{ErrorCode::kTimeout,
                           fmt::format("no verdict within {:.3g} s of its submission", deadline)}});
    }
    for (Evaluated& one : ended) {
      const std::string id = requests_.at(one.ticket).id;
      std::erase(outbox_, one.ticket);
      finish(one.ticket, std::move(one.verdict));
      if (!id.empty() && !tickets_.contains(id)) unwanted_.insert(id);
    }
  }

  void send_all() {
    Line line(options_, events_);
    std::unique_lock lock(mutex_);
    while (!stop_.cancelled()) {
      changed_.wait_for(lock, kBetweenChecks, [&] { return stop_.cancelled() || !outbox_.empty(); });
      end_unwanted();
      const auto unwanted = std::exchange(unwanted_, {});
      lock.unlock();
      for (const std::string& id : unwanted) withdraw(line, id, stop_);
      lock.lock();
      if (outbox_.empty()) continue;
      if (heard_ >= 0) {
        send_some(line, lock);
        continue;
      }
      lock.unlock();
      const auto newest = find_newest(line);
      lock.lock();
      if (newest.ok())
        heard_ = *newest;
      else
        finish_all(newest.error());
    }
  }

  void send_some(Line& line, std::unique_lock<std::mutex>& lock) {
    std::vector<Ticket> tickets;
    json items = json::array();
    for (std::size_t bytes = 0; !outbox_.empty() && items.size() < kBatchItems && bytes < kBatchBytes;) {
      const Request& one = requests_.at(outbox_.front());
      bytes += one.request.text.size();
      items.push_back(item_json(one.request));
      tickets.push_back(outbox_.front());
      outbox_.pop_front();
    }
    is_sending_ = true;
    changed_.notify_all();
    lock.unlock();
    const std::string body = json_text({{"items", std::move(items)}});
    const auto reply = line.ask(
        {.method = "POST", .target = "/v1/evaluations/batch", .body = body, .returns_busy = true}, stop_);
    lock.lock();
    is_sending_ = false;
    has_room_ = true;
    const auto passed_by = std::exchange(passed_by_, {});
    std::set<std::string> ended;
    for (std::size_t i = 0; i < tickets.size(); ++i) {
      const auto receipt = receipt_in(reply, i);
      take_receipt(tickets[i], receipt);
      if (receipt.ok() && (receipt->state == "done" || passed_by.contains(receipt->id)))
        ended.insert(receipt->id);
    }
    lock.unlock();
    for (const std::string& id : ended) fetch(line, id);
    lock.lock();
    changed_.wait_for(lock, kBusyPause, [&] { return stop_.cancelled() || has_room_; });
  }

  struct Receipt {
    std::string id, state;
  };
  /// Errors: kBusy; why the service refuses the item.
  Result<Receipt> receipt_in(const Result<json>& reply, std::size_t item) const {
    if (!reply.ok()) return reply.error();
    const json items = reply->is_object() ? reply->value("items", json()) : json();
    if (!items.is_array() || item >= items.size()) return strange("an item is missing");
    JsonReader reader(items[item], "item");
    Receipt receipt;
    std::string code, message;
    if (reader.has("error")) {
      reader.read_object("error", [&](JsonReader& error) {
        error.read("code", code);
        error.read("message", message);
      });
    } else {
      reader.read("id", receipt.id);
      reader.read("state", receipt.state);
    }
    if (!reader.status().ok()) return strange(reader.status().error().message);
    if (code == "busy") return Error{ErrorCode::kBusy, message};
    if (!code.empty())
      return invalid(fmt::format("the service at {} refuses an evaluation: {}", options_.url, message));
    return receipt;
  }

  void take_receipt(Ticket ticket, const Result<Receipt>& receipt) {
    const auto found = requests_.find(ticket);
    if (found == requests_.end()) {  // nobody waits for it any more
      if (receipt.ok() && !tickets_.contains(receipt->id)) unwanted_.insert(receipt->id);
      return;
    }
    if (receipt.ok()) {
      found->second.id = receipt->id;
      tickets_.emplace(receipt->id, ticket);
    } else if (receipt.error().code == ErrorCode::kBusy) {
      outbox_.push_back(ticket);
      has_room_ = false;
    } else {
      finish(ticket, receipt.error());
    }
  }

  void listen() {
    Line line(options_, events_);
    std::unique_lock lock(mutex_);
    while (!stop_.cancelled()) {
      changed_.wait(lock,
                    [&] { return stop_.cancelled() || (heard_ >= 0 && (!tickets_.empty() || is_sending_)); });
      lock.unlock();
      const Status heard = hear(line);
      lock.lock();
      if (!heard.ok() && !stop_.cancelled()) finish_all(heard.error());
    }
  }

  /// The number of this client's request that finished last. Numbers rise, so it is found by
  /// halving.
  Result<std::int64_t> find_newest(Line& line) {
    const auto is_beyond = [&](std::int64_t number) -> Result<bool> {
      LATHE_TRY(const json reply,
                line.ask({"GET", fmt::format("/v1/evaluations?after={}&limit=1", number)}, stop_));
      return reply.is_object() && !reply.value("items", json()).empty();
    };
    std::int64_t low = 0, high = 1;  // there is one beyond low - 1, none beyond high
    for (;; low = high, high *= 2) {
      LATHE_TRY(const bool beyond, is_beyond(high));
      if (!beyond) break;
      if (high > INT64_MAX / 4) return strange("the numbers of finished requests do not end");
    }
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      LATHE_TRY(const bool beyond, is_beyond(middle));
      if (beyond)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }

  Status hear(Line& line) {
    const Line::Ask ask{
        "GET",
        fmt::format("/v1/evaluations?after={}&limit=200&wait={}", heard_.load(), options_.silence_seconds),
        {},
        options_.silence_seconds + kReplySeconds};
    LATHE_TRY(const json reply, line.ask(ask, stop_));
    if (!reply.is_object() || !reply.value("items", json()).is_array()) return strange("a list is missing");
    for (const json& item : reply["items"]) {
      std::string id;
      std::int64_t sequence = 0;
      JsonReader reader(item, "item");
      reader.read("id", id);
      reader.read("sequence", sequence);
      if (!reader.status().ok()) return strange(reader.status().error().message);
      if (sequence <= heard_) return strange("the numbers of what has finished do not rise");
      if (is_mine(id)) fetch(line, id);
      heard_ = sequence;
    }
    if (reply["items"].empty()) check_each(line);
    return Ok{};
  }

  bool is_mine(const std::string& id) {
    const std::lock_guard lock(mutex_);
    if (is_sending_) passed_by_.insert(id);  // its receipt may be on the way
    return tickets_.contains(id);
  }

  /// After silence: what the list has not told, and what the service has forgotten, is asked for.
  void check_each(Line& line) {
    std::set<std::string> ids;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [id, ticket] : tickets_) ids.insert(id);
    }
    for (const std::string& id : ids) fetch(line, id);
  }

  /// Takes the evaluation's answer, if there is one.
  void fetch(Line& line, const std::string& id) {
    const auto reply = line.ask({"GET", "/v1/evaluations/" + id + "/evidence"}, stop_);
    if (stop_.cancelled()) return;
    auto answer = reply.ok() ? answer_in(line, id, *reply) : Result<std::optional<Verdict>>(reply.error());
    if (answer.ok() && !*answer) return;
    const bool forgotten = !answer.ok() && answer.error().code == ErrorCode::kNotFound;
    const std::lock_guard lock(mutex_);
    for (auto it = tickets_.find(id); it != tickets_.end(); it = tickets_.find(id)) {
      const Ticket ticket = it->second;
      if (forgotten) {
        tickets_.erase(it);
        Request& lost = requests_.at(ticket);
        lost.id.clear();
        if (++lost.times_forgotten > kTimesForgotten) {
          finish(ticket, strange("it forgets or cancels each time what it was asked"));
          continue;
        }
        outbox_.push_back(ticket);
        continue;
      }
      finish(ticket, answer.ok() ? Result<Verdict>(**answer) : answer.error());
    }
  }

  /// Errors: why there is no verdict; kNotFound where asking again brings one. nullopt: not yet.
  Result<std::optional<Verdict>> answer_in(Line& line, const std::string& id, const json& document) {
    std::string state;
    JsonReader reader(document, "evaluation");
    reader.read("state", state);
    if (!reader.status().ok()) return strange(reader.status().error().message);
    if (state == "queued" || state == "running") return std::optional<Verdict>();
    if (document.contains("verdict")) {
      auto verdict = verdict_from_json(document["verdict"]);
      if (!verdict.ok()) return strange(verdict.error().message);
      if (!answers(*verdict, id)) return strange("a verdict is about something else than was asked");
      return std::optional(*std::move(verdict));
    }
    if (state == "cancelled")  // by another process with this token: what is ended here has no ticket
      return Error{ErrorCode::kNotFound, "the evaluation was cancelled at the service"};
    if (state == "expired") return Error{ErrorCode::kTimeout, "the evaluation's deadline has passed"};
    LATHE_TRY(const json report, line.ask({"GET", "/v1/evaluations/" + id}, stop_));
    std::string why = state;
    JsonReader(report, "evaluation").read("error", why);
    return Error{why == kOutdated ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
                 "the service has no verdict: " + why};
  }

  /// All that wait for one id must have asked the same.
  bool answers(const Verdict& verdict, const std::string& id) {
    const std::lock_guard lock(mutex_);
    const auto [first, last] = tickets_.equal_range(id);
    return std::all_of(first, last, [&](const auto& waiting) {
      const EvaluationRequest& asked = requests_.at(waiting.second).request;
      return verdict.task == asked.task->digest && verdict.candidate == digest_of(asked.text) &&
             verdict.depth == asked.depth &&
             (verdict.provenance.device_kind.empty() || verdict.provenance.device_kind == device_kind_);
    });
  }

  void withdraw(Line& line, const std::string& id, const CancelToken& cancel) {
    (void)line.ask({"DELETE", "/v1/evaluations/" + id, {}, kFarewellSeconds}, cancel);
  }

  const RemoteGymOptions& options_;
  const std::string device_kind_;
  EventSink& events_;
  const BaselinesOf baselines_of_;
  const CancelToken stop_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Ticket last_ticket_ = 0;
  std::map<Ticket, Request> requests_;
  std::multimap<std::string, Ticket> tickets_;  // of evaluations that the service knows
  std::deque<Ticket> outbox_;
  std::atomic<std::int64_t> heard_{-1};  // the number of what ended last; -1: not known yet
  bool is_sending_ = false;
  bool has_room_ = false;            // something has ended since the service said that it is full
  std::set<std::string> passed_by_;  // ended while a batch was on its way
  std::set<std::string> unwanted_;   // evaluations to withdraw
  std::deque<Evaluated> done_;
  std::thread sending_, listening_;  // last, for they use the rest
};

Result<TaskBaselines> baselines_beside(const Verdict& naive) {
  TaskBaselines baselines;
  std::vector<std::string> names = {"naive"};
  for (const Speedup& speedup : naive.speedups)
    if (std::ranges::find(names, speedup.baseline) == names.end()) names.push_back(speedup.baseline);
  for (const std::string& peer : names) {
    BaselineTime time{peer};
    std::vector<double> medians;
    for (Timing timing : naive.timings) {
      for (const Speedup& speedup : naive.speedups)
        if (peer != "naive" && speedup.baseline == peer && speedup.shape == timing.shape)
          timing.median_ns *= speedup.ratio.mid;
      medians.push_back(timing.median_ns);
      time.timings.push_back(std::move(timing));
    }
    if (medians.empty()) return strange("a verdict at depth screen has no times");
    time.median_ns = geometric_mean(medians);
    baselines.times.push_back(std::move(time));
  }
  baselines.best = std::ranges::min_element(baselines.times, {}, &BaselineTime::median_ns)->name;
  return baselines;
}

class HttpGym final : public RemoteGym {
 public:
  HttpGym(RemoteGymOptions options, EventSink& events, const CancelToken& cancel)
      : options_(std::move(options)), events_(events), stop_(cancel.child()) {}
  ~HttpGym() override { stop_.cancel(); }

  Status learn_device() {
    RemoteGymOptions hasty = options_;
    hasty.patience_seconds = std::min(hasty.patience_seconds, kFirstAnswerSeconds);
    LATHE_CHECK_OK(Line(hasty, events_).ask({"GET", "/healthz"}, stop_));
    Line line(options_, events_);
    LATHE_TRY(const json reply, line.ask({"GET", "/v1/device"}, stop_));
    LATHE_TRY(device_, device_record_from_json(reply.is_object() ? reply.value("device", json::object())
                                                                 : json::object()));
    return Ok{};
  }

  const DeviceRecord& device() const override { return device_; }

  std::unique_ptr<Evaluator> connect_client() override {
    return std::make_unique<RemoteEvaluator>(
        options_, device_.device.kind, events_,
        [this](std::shared_ptr<const TaskSpec> task) { return baselines_of(std::move(task)); });
  }

 private:
  using Future = std::shared_future<Result<TaskBaselines>>;

  /// An error is not kept: the next who asks tries again.
  Future baselines_of(std::shared_ptr<const TaskSpec> task) {
    const std::lock_guard lock(mutex_);
    Future& known = baselines_[task->digest];
    const bool failed = known.valid() &&
                        known.wait_for(std::chrono::seconds(0)) == std::future_status::ready &&
                        !known.get().ok();
    if (!known.valid() || failed)
      known = std::async(std::launch::async, [this, task] { return measure_baselines(task); });
    return known;
  }

  Result<TaskBaselines> measure_baselines(const std::shared_ptr<const TaskSpec>& task) {
    LATHE_TRY(const Candidate naive, naive_candidate(*task, device_.device.dialect));
    RemoteEvaluator client(options_, device_.device.kind, events_, {});
    for (int attempt = 1;; ++attempt) {
      LATHE_TRY(
          const Verdict verdict,
          evaluate_alone(client,
                         {.task = task, .text = naive.text, .priority = kHighestPriority, .cancel = stop_}));
      if (verdict.passed()) return baselines_beside(verdict);
      const bool machine_failed = verdict.outcome == Outcome::kInfra;
      if (!machine_failed || attempt == kInfraAttempts)
        return Error{
            machine_failed ? ErrorCode::kUnavailable : ErrorCode::kInternal,
            fmt::format("the naive build of '{}' fails: {} {}", task->name, verdict.reason, verdict.detail)};
    }
  }

  const RemoteGymOptions options_;
  EventSink& events_;
  const CancelToken stop_;
  DeviceRecord device_;
  std::mutex mutex_;
  std::map<Digest, Future> baselines_;  // last: its threads use the rest
};

}  // namespace

Result<std::unique_ptr<RemoteGym>> RemoteGym::connect(RemoteGymOptions options, EventSink& events,
                                                      const CancelToken& cancel) {
  while (options.url.ends_with("/")) options.url.pop_back();
  LATHE_CHECK_OK(http::check_url(options.url));
  LATHE_TRY(options.token, http::header_secret(options.token, "LATHE_TOKEN"));
  if (!options.token.empty() && options.url.starts_with("http://") && !http::is_loopback(options.url))
    events.on_event({Severity::kWarning, "gym.plain",
                     "the token crosses the network unencrypted: the service is http://"});
  auto gym = std::make_unique<HttpGym>(std::move(options), events, cancel);
  LATHE_CHECK_OK(gym->learn_device());
  return std::unique_ptr<RemoteGym>(std::move(gym));
}

}  // namespace lathe::serve

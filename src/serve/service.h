#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/events.h"
#include "serve/ledger.h"
#include "serve/message.h"
#include "serve/shared_queue.h"
#include "serve/work_queue.h"

namespace lathe::serve {

/// The wall clock, which may jump: for display and for deadlines that outlive the process.
std::int64_t unix_milliseconds();

struct ServiceOptions {
  std::int64_t max_unfinished = 100'000;  ///< requests of all clients together, before submit() says kBusy
  int most_lost_workers = 3;      ///< that failed while they had an evaluation, before it becomes a CRASH
  int most_killed_workers = 24;   ///< killed from outside while they had it, before it becomes one too
  std::string gym_version = {};   ///< of all workers that will join; empty: unknown
  double tick_seconds = 0.2;      ///< between checks of leases and deadlines
  double keep_seconds = 0;        ///< finished requests are forgotten so long after their end; 0: never
  SharedQueue* shared = nullptr;  ///< the queue that several front ends share; null for one front end alone
};

/// What became of one item of a submission. Errors: kBusy where the client's share or the whole
/// queue is full, naming which.
struct Receipt {
  Digest id;
  Admission admission = Admission::kNew;
};

enum class WorkerEnd {
  kAsked,   ///< told to stop, or announced that it would: does not count against its items
  kFailed,  ///< crashed, or was stopped because it was silent or broke the protocol
  kKilled,  ///< from outside: by an operator, or by the system when memory ran out
};

/// The service's connection to one worker. Neither call waits.
class WorkerLink {
 public:
  virtual ~WorkerLink() = default;
  virtual void send(const FrontMessage& message) = 0;
  virtual void end() = 0;  ///< at once, even in the middle of an evaluation; worker_ended() follows
  /// How its evaluations count when it falls silent.
  virtual WorkerEnd when_silent() const { return WorkerEnd::kFailed; }
};

/// Receives what happens to workers. Thread-safe.
class WorkerSink {
 public:
  virtual ~WorkerSink() = default;
  virtual void worker_joined(std::string name, WorkerHello hello, std::shared_ptr<WorkerLink> link) = 0;
  virtual void worker_said(std::string name, WorkerMessage message) = 0;
  virtual void worker_ended(std::string name, WorkerEnd end) = 0;
};

struct WorkerState {
  std::string name;
  std::string device_name;
  int in_hand = 0;
  double busy_share = 0;  ///< share of recent time that the device was busy
  /// What its last timed verdict says of the device meanwhile: "clock_mhz", "throttled.<reason>",
  /// ...
  std::map<std::string, double> device_state = {};
};

/// What /metrics and /v1/device show of the service.
struct ServiceCounts {
  QueueCounts queue;
  std::map<std::string, std::int64_t> verdicts;    ///< by outcome, since the start
  std::map<std::string, std::int64_t> unanswered;  ///< "failed", "cancelled", "expired"
  std::map<std::string, std::int64_t> admissions;  ///< "new", "joined", "known", "refused"
  std::int64_t unfinished_requests = 0;
  std::int64_t late_answers = 0;     ///< that arrived after their lease had ended
  std::int64_t refused_answers = 0;  ///< that did not match any order
  std::int64_t write_failures = 0;
  std::int64_t lost_workers = 0;
  /// Seconds by stage; bucket i counts those at or below kStageBounds[i], the last bucket counts
  /// all.
  struct Histogram {
    std::vector<std::int64_t> buckets;
    double sum = 0;
  };
  std::map<std::string, Histogram> stages;
  std::vector<WorkerState> workers;
  std::optional<DeviceRecord> device;  ///< of the worker that has told it last
  bool ready =
      false;  ///< the last write to the ledger succeeded, and a worker is connected or may be elsewhere
};
inline constexpr double kStageBounds[] = {0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300};

/// The front end between clients, ledger, queue and workers. Every public member is thread-safe and
/// returns at once; callbacks run on the thread that calls turn(), once what they report is
/// durable. Everything that arrived since the last turn is one transaction.
class Service : public WorkerSink {
 public:
  /// All must outlive it. Errors: the ledger cannot be read.
  static Result<std::unique_ptr<Service>> start(Ledger& ledger, WorkQueue& queue, const Clock& clock,
                                                const ServiceOptions& options, EventSink& events);
  ~Service() override = default;

  struct Batch {
    std::vector<Submission> submissions;  ///< all from one client
    std::vector<StoredTask> tasks;        ///< that the ledger may not have yet
    std::int64_t max_unfinished = 0;      ///< requests of this client
  };
  using Receipts = Result<std::vector<Result<Receipt>>>;
  virtual void submit(Batch batch, std::function<void(Receipts)> done) = 0;

  using Found = Result<std::optional<Report>>;
  virtual void find(std::string client, Digest id, std::function<void(Found)> done) = 0;
  /// Calls `done` once: immediately if the client has no such request or it is final, otherwise
  /// when it becomes final or after `seconds`. The number is for stop_waiting(). In the `done` of a
  /// submit(), what that has queued is waited for without another look into the ledger.
  virtual std::int64_t wait_for(std::string client, Digest id, double seconds,
                                std::function<void(Found)> done) = 0;
  /// Calls `done` once: as soon as the client has requests that finished after `sequence`, or with
  /// none after `seconds`.
  using Reports = Result<std::vector<Report>>;
  virtual std::int64_t wait_for_next(std::string client, std::int64_t sequence, int limit, double seconds,
                                     std::function<void(Reports)> done) = 0;
  /// The `done` of that wait is not called any more, unless the call is already under way.
  virtual void stop_waiting(std::int64_t number) = 0;
  /// The same of a request by one of its names, as it is for that name (own_report()).
  using FoundNamed = Result<std::optional<NamedReport>>;
  virtual void find_named(NameQuery query, double seconds, std::function<void(FoundNamed)> done) = 0;
  /// False: there was nothing to cancel.
  virtual void cancel(std::string client, Digest id, std::function<void(Result<bool>)> done) = 0;
  /// One name of a request, which ends with its last.
  virtual void cancel_named(std::string client, Digest id, std::string name,
                            std::function<void(Result<bool>)> done) = 0;
  virtual void counts(std::function<void(Result<ServiceCounts>)> done) = 0;

  /// Stops handing out work. Submissions are still accepted; they are worked on after a restart.
  virtual void drain() = 0;
  virtual bool is_idle() const = 0;  ///< no worker has an evaluation

  /// Handles what has arrived and what is due; waits up to `wait_seconds` for something to do.
  /// Called by one thread.
  virtual void turn(double wait_seconds) = 0;
};

}  // namespace lathe::serve

#pragma once

#include <functional>
#include <memory>
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
  int most_lost_workers = 3;              ///< that failed with an evaluation in hand, before it is a CRASH
  int most_killed_workers = 24;           ///< that somebody else killed, before it is one too
  std::string gym_version = {};           ///< of all workers that will come; empty: not known
  double tick_seconds = 0.2;              ///< between looks at leases and deadlines
  SharedQueue* shared = nullptr;          ///< with other front ends, where there are such
};

/// What became of one item of a submission. Errors: kBusy where the client's share or the whole
/// queue is full.
struct Receipt {
  Digest id;
  Admission admission = Admission::kNew;
};

enum class WorkerEnd {
  kAsked,   ///< it was told to end, or said that it leaves: its items have not lost it
  kFailed,  ///< by itself, or it was ended because it was silent or wrong
  kKilled,  ///< by somebody else, an operator or the system for want of memory
};

/// A worker's side that the service talks to. Neither call waits.
class WorkerLink {
 public:
  virtual ~WorkerLink() = default;
  virtual void send(const FrontMessage& message) = 0;
  virtual void end() = 0;  ///< at once, whatever it does; worker_ended() follows
  /// What it means for the evaluations in its hand when nothing is heard of it.
  virtual WorkerEnd when_silent() const { return WorkerEnd::kFailed; }
};

/// Who is told of workers. Thread-safe.
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
  double busy_share = 0;  ///< of the device, lately
};

/// What /metrics shows of the service.
struct ServiceCounts {
  QueueCounts queue;
  std::map<std::string, std::int64_t> verdicts;    ///< by outcome, since the start
  std::map<std::string, std::int64_t> unanswered;  ///< "failed", "cancelled", "expired"
  std::map<std::string, std::int64_t> admissions;  ///< "new", "joined", "known", "refused"
  std::int64_t unfinished_requests = 0;
  std::int64_t late_answers = 0;     ///< under a lease that was over
  std::int64_t refused_answers = 0;  ///< that were not about what was asked
  std::int64_t write_failures = 0;
  std::int64_t lost_workers = 0;
  /// Seconds by stage; bucket i counts those at or below kStageBounds[i], the last one all.
  struct Histogram {
    std::vector<std::int64_t> buckets;
    double sum = 0;
  };
  std::map<std::string, Histogram> stages;
  std::vector<WorkerState> workers;
  bool ready = false;  ///< a worker is there, and the ledger took the last write
};
inline constexpr double kStageBounds[] = {0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300};

/// The front end between clients, ledger, queue and workers. Every public member is thread-safe and
/// returns at once; callbacks come from the thread that calls turn(), after what they tell is
/// durable. Whatever arrived since the last turn is one transaction.
class Service : public WorkerSink {
 public:
  /// All must outlive it. Errors: the ledger cannot be read.
  static Result<std::unique_ptr<Service>> start(Ledger& ledger, WorkQueue& queue, const Clock& clock,
                                                const ServiceOptions& options, EventSink& events);
  ~Service() override = default;

  struct Batch {
    std::vector<Submission> submissions;  ///< of one client
    std::vector<StoredTask> tasks;        ///< that the ledger may not have
    std::int64_t max_unfinished = 0;      ///< of this client
  };
  using Receipts = Result<std::vector<Result<Receipt>>>;
  virtual void submit(Batch batch, std::function<void(Receipts)> done) = 0;

  using Found = Result<std::optional<Report>>;
  virtual void find(std::string client, Digest id, std::function<void(Found)> done) = 0;
  /// Calls `done` once: at once if the client has no such request or it is final, else when it is,
  /// or after so long. The number is for stop_waiting().
  virtual std::int64_t wait_for(std::string client, Digest id, double seconds,
                                std::function<void(Found)> done) = 0;
  /// Calls `done` once: as soon as the client has requests that finished after `sequence`, or with
  /// none after so long.
  using Reports = Result<std::vector<Report>>;
  virtual std::int64_t wait_for_next(std::string client, std::int64_t sequence, int limit, double seconds,
                                     std::function<void(Reports)> done) = 0;
  /// `done` of that wait is not called any more, unless it is being called.
  virtual void stop_waiting(std::int64_t number) = 0;
  /// False: there was nothing to cancel.
  virtual void cancel(std::string client, Digest id, std::function<void(Result<bool>)> done) = 0;
  virtual void counts(std::function<void(Result<ServiceCounts>)> done) = 0;

  /// No more orders go out. Submissions are still taken: the next start works on them.
  virtual void drain() = 0;
  virtual bool is_idle() const = 0;  ///< no worker has anything in hand

  /// Does what has arrived, and what is due. Waits for something at most so long. One thread calls
  /// it.
  virtual void turn(double wait_seconds) = 0;
};

}  // namespace lathe::serve

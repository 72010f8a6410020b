#include "serve/service.h"

#include <chrono>
#include <thread>

#include "bench/serve/fake_verdict.h"
#include "serve/memory_queue.h"
#include "serve/sqlite_ledger.h"
#include "tests/serve/fixtures.h"
#include "tests/store/fixtures.h"

namespace lathe::serve {
namespace {

/// What a worker was sent.
class RecordingLink final : public WorkerLink {
 public:
  void send(const FrontMessage& message) override {
    if (const auto* order = std::get_if<WorkOrder>(&message)) orders.push_back(*order);
    if (const auto* cancel = std::get_if<CancelOrder>(&message)) cancelled.push_back(cancel->lease);
  }
  void end() override { ended = true; }
  WorkerEnd when_silent() const override { return silence; }

  std::vector<WorkOrder> orders;
  std::vector<std::int64_t> cancelled;
  bool ended = false;
  WorkerEnd silence = WorkerEnd::kFailed;
};

/// A ledger whose disk is full at times, or whose answers are lost.
class FullLedger final : public Ledger {
 public:
  explicit FullLedger(Ledger& ledger) : ledger_(ledger) {}
  Result<LedgerOutcome> write(const LedgerChanges& changes) override {
    ++writes;
    if (full) return Error{ErrorCode::kIo, "the disk is full"};
    auto outcome = ledger_.write(changes);
    if (mute) return Error{ErrorCode::kIo, "the connection was lost"};
    return outcome;
  }
  Result<std::vector<std::optional<Report>>> find(std::span<const Name> names) override {
    ++looks;
    return ledger_.find(names);
  }
  Result<std::vector<std::optional<NamedReport>>> find_named(std::span<const NameQuery> queries) override {
    return ledger_.find_named(queries);
  }
  Result<std::vector<std::vector<Report>>> finished(std::span<const FinishedQuery> queries) override {
    return ledger_.finished(queries);
  }
  Result<std::vector<Pending>> pending() override { return ledger_.pending(); }
  Result<std::vector<Wanted>> wanted(std::span<const Digest> ids) override { return ledger_.wanted(ids); }
  Result<std::vector<Name>> overdue(std::int64_t grace_ms) override {
    auto names = ledger_.overdue(grace_ms);
    if (after_overdue) std::exchange(after_overdue, {})();
    return names;
  }
  Result<std::int64_t> forget(std::int64_t ended_before_unix_ms, int most) override {
    return ledger_.forget(ended_before_unix_ms, most);
  }
  Result<std::vector<std::string>> candidates(std::span<const Digest> ids) override {
    return ledger_.candidates(ids);
  }
  Result<std::optional<StoredTask>> task(const Digest& digest) override { return ledger_.task(digest); }
  Result<std::vector<StoredTask>> tasks() override { return ledger_.tasks(); }
  Result<std::int64_t> unfinished() override {
    ++sums;
    return ledger_.unfinished();
  }

  bool full = false, mute = false;
  int looks = 0, sums = 0, writes = 0;
  std::function<void()> after_overdue;  ///< once: what another front end does in between

 private:
  Ledger& ledger_;
};

/// What a front end tells the others, and what they tell it next.
class RecordingQueue final : public SharedQueue {
 public:
  Result<News> exchange(const Turn& turn) override {
    added.insert(added.end(), turn.added.begin(), turn.added.end());
    over.insert(over.end(), turn.over.begin(), turn.over.end());
    return std::exchange(news, {});
  }
  void leave() override {}
  Result<QueueCounts> counts() override { return QueueCounts{}; }
  void on_news(std::function<void()>) override {}

  std::vector<Item> added;
  std::vector<Over> over;
  News news;
};

class ServiceTest : public testing::Test {
 protected:
  ServiceTest() { start(); }

  /// As a front end does that begins, after kill -9 of the last one.
  void start() {
    service_.reset();
    ledger_.reset();
    disk_.reset();
    auto ledger = open_sqlite_ledger(folder_.path());
    ASSERT_TRUE(ledger.ok());
    disk_ = *std::move(ledger);
    ledger_ = std::make_unique<FullLedger>(*disk_);
    queue_ = make_memory_queue({.lease_seconds = 5}, clock_);
    service_ = *Service::start(*ledger_, *queue_, clock_, options_, null_sink());
  }
  void turn() { service_->turn(0); }
  void pass(double seconds) {
    for (double passed = 0; passed < seconds; passed += 0.5) {
      clock_.advance_ns(500'000'000);
      turn();
    }
  }

  std::shared_ptr<RecordingLink> join(const std::string& name, int slots = 4) {
    auto link = std::make_shared<RecordingLink>();
    service_->worker_joined(name, {.kind = {"cpu", "1"}, .device_name = "fake", .slots = slots}, link);
    turn();
    return link;
  }

  Result<Receipt> submit(const Submission& submission, std::int64_t max_unfinished = 1000) {
    Result<Receipt> receipt = Error{ErrorCode::kInternal, "no answer"};
    service_->submit({.submissions = {submission},
                      .tasks = {{digest_of("task"), "task", "task"}},
                      .max_unfinished = max_unfinished},
                     [&](Service::Receipts receipts) {
                       receipt = receipts.ok() ? receipts->front() : Result<Receipt>(receipts.error());
                     });
    turn();
    return receipt;
  }

  void answer(const std::string& worker, const WorkOrder& order, Outcome outcome = Outcome::kPass) {
    WorkerAnswer answer{order.lease, Verdict{}, {}};
    answer.verdict->outcome = outcome;
    answer.verdict->task = order.task;
    answer.verdict->candidate = digest_of(order.candidate);
    answer.verdict->depth = order.depth;
    service_->worker_said(worker, answer);
    turn();
  }

  Report find(const Submission& submission) {
    Report report;
    service_->find(submission.client, submission.key.id(), [&](const Service::Found& found) {
      ASSERT_TRUE(found.ok() && *found);
      report = **found;
    });
    turn();
    return report;
  }
  ServiceCounts counts() {
    ServiceCounts now;
    service_->counts([&](const Result<ServiceCounts>& counts) { now = *counts; });
    turn();
    return now;
  }

  const TemporaryFolder folder_;
  ServiceOptions options_;
  FakeClock clock_;
  std::unique_ptr<Ledger> disk_;
  std::unique_ptr<FullLedger> ledger_;
  std::unique_ptr<WorkQueue> queue_;
  std::unique_ptr<Service> service_;
  const Submission x_ = make_submission("x");
};

TEST_F(ServiceTest, ForgetsWhatEndedLongAgoWhereItIsTold) {
  for (const double keep_seconds : {0.0, 86400.0, 1e-3}) {
    options_.keep_seconds = keep_seconds;
    start();
    const auto worker = join("w");
    const Submission one = make_submission(std::to_string(keep_seconds));
    ASSERT_TRUE(submit(one).ok());
    answer("w", worker->orders.at(0));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    pass(61);
    const Ledger::Name names[] = {{one.client, one.key.id()}};
    EXPECT_EQ(ledger_->find(names).value()[0].has_value(), keep_seconds != 1e-3) << keep_seconds;
  }
}

TEST(OwnReport, ItsOwnEndComesBeforeThatOfTheRequest) {
  NamedReport named{.submitted_unix_ms = 10, .deadline_unix_ms = 100};
  named.report = {.state = State::kQueued, .submitted_unix_ms = 5};
  EXPECT_EQ(own_report(named, 100).state, State::kQueued);
  EXPECT_EQ(own_report(named, 100).submitted_unix_ms, 10);
  EXPECT_EQ(own_report(named, 101).state, State::kExpired) << "the request goes on for another name";
  named.report = {.state = State::kDone, .finished_unix_ms = 90, .verdict = "{}"};
  EXPECT_EQ(own_report(named, 1000).state, State::kDone) << "it was in time";
  named.report.finished_unix_ms = 150;
  EXPECT_EQ(own_report(named, 1000).state, State::kExpired);
  EXPECT_EQ(own_report(named, 1000).finished_unix_ms, 100);
  EXPECT_EQ(own_report(named, 1000).verdict, "") << "that of others";
  named.cancelled_unix_ms = 50;
  EXPECT_EQ(own_report(named, 1000).state, State::kCancelled);
  EXPECT_EQ(own_report(named, 1000).finished_unix_ms, 50);
}

TEST_F(ServiceTest, OnePostOneVerdict) {
  const auto worker = join("w");
  ASSERT_TRUE(submit(x_).ok());
  ASSERT_EQ(worker->orders.size(), 1u);
  EXPECT_EQ(worker->orders[0].candidate, "x");
  EXPECT_EQ(worker->orders[0].task_text, "task");
  EXPECT_EQ(find(x_).state, State::kRunning);
  answer("w", worker->orders[0]);
  EXPECT_EQ(find(x_).state, State::kDone);
  EXPECT_EQ(submit(x_)->admission, Admission::kKnown);
  EXPECT_EQ(worker->orders.size(), 1u);
}

TEST_F(ServiceTest, AKilledWorkersCandidateIsBackInWorkAtOnce) {
  join("w");
  (void)submit(x_);
  service_->worker_ended("w", WorkerEnd::kFailed);
  const auto other = join("v");
  ASSERT_EQ(other->orders.size(), 1u);
  answer("v", other->orders[0]);
  EXPECT_EQ(find(x_).state, State::kDone);
}

TEST_F(ServiceTest, ASilentWorkersCandidateIsBackInWorkWithinTheLease) {
  const auto silent = join("w");
  (void)submit(x_);
  pass(5.5);
  EXPECT_TRUE(silent->ended);
  const auto other = join("v");
  ASSERT_EQ(other->orders.size(), 1u);
  answer("v", other->orders[0], Outcome::kWrong);
  answer("w", silent->orders[0], Outcome::kPass);
  EXPECT_THAT(find(x_).verdict, testing::HasSubstr("WRONG"))
      << "the answer of the lost worker counts no more";
  EXPECT_EQ(counts().late_answers, 1);
}

TEST_F(ServiceTest, AKilledFrontEndLosesNothingAndDoublesNothing) {
  const Submission y = make_submission("y");
  const auto worker = join("w", 1);
  (void)submit(x_);
  (void)submit(y);
  answer("w", worker->orders[0]);
  start();
  EXPECT_EQ(find(x_).state, State::kDone);
  const auto next = join("w");
  ASSERT_EQ(next->orders.size(), 1u);
  EXPECT_EQ(next->orders[0].candidate, "y");
  answer("w", next->orders[0]);
  EXPECT_EQ(find(y).sequence, 2);
  start();
  EXPECT_TRUE(join("w")->orders.empty());
}

TEST_F(ServiceTest, ACandidateThatKillsThreeWorkersIsAVerdict) {
  const Submission y = make_submission("bystander");
  join("w");
  (void)submit(x_);
  (void)submit(y);
  service_->worker_ended("w", WorkerEnd::kFailed);
  std::string victim;
  for (int round = 0; round < 20 && find(x_).state != State::kDone; ++round) {
    const auto worker = join("w");
    ASSERT_EQ(worker->orders.size(), 1u) << "suspects are alone";
    if (worker->orders[0].candidate == "x") {
      if (round == 1) start();  // the count outlives the front end
      service_->worker_ended("w", WorkerEnd::kFailed);
      turn();
    } else {
      answer("w", worker->orders[0]);
      service_->worker_ended("w", WorkerEnd::kAsked);
      turn();
    }
  }
  EXPECT_THAT(find(x_).verdict, testing::HasSubstr("worker_killed"));
  if (find(y).state != State::kDone) answer("w", join("w")->orders.at(0));
  EXPECT_THAT(find(y).verdict, testing::HasSubstr("PASS"));
}

TEST_F(ServiceTest, WhoeverElseKillsWorkersCondemnsNobodySoon) {
  join("w");
  (void)submit(x_);
  for (int kill = 1; kill < 24; ++kill) {
    service_->worker_ended("w", WorkerEnd::kKilled);
    ASSERT_EQ(join("w")->orders.size(), 1u) << kill;
  }
  service_->worker_ended("w", WorkerEnd::kKilled);
  turn();
  EXPECT_THAT(find(x_).verdict, testing::HasSubstr("worker_killed")) << "but an end there is";
}

TEST_F(ServiceTest, ThreeSilentWorkersAreACrashUnlessTheNetworkIsSilent) {
  const Submission y = make_submission("y");
  for (const auto silence : {WorkerEnd::kKilled, WorkerEnd::kFailed}) {
    const Submission& asked = silence == WorkerEnd::kKilled ? x_ : y;
    (void)submit(asked);
    for (int i = 0; i < 3; ++i) {
      const auto worker = join("w", 1);
      ASSERT_EQ(worker->orders.size(), 1u) << i;
      worker->silence = silence;
      pass(5.5);
    }
    turn();
    if (silence == WorkerEnd::kFailed) {
      EXPECT_THAT(find(asked).verdict, testing::HasSubstr("worker_killed"));
      continue;
    }
    EXPECT_FALSE(is_final(find(asked).state)) << "cut off, and no fault of the candidate's";
    answer("w", join("w", 1)->orders.at(0));
    EXPECT_EQ(find(asked).state, State::kDone);
    service_->worker_ended("w", WorkerEnd::kAsked);
    turn();
  }
}

TEST_F(ServiceTest, AWorkersEndCountsOnceWhoeverTellsIt) {
  join("w");
  (void)submit(x_);
  for (int i = 0; i < 3; ++i) service_->worker_ended("w", WorkerEnd::kFailed);
  turn();
  EXPECT_FALSE(is_final(find(x_).state));
  EXPECT_EQ(counts().lost_workers, 1);
}

TEST_F(ServiceTest, AnAnswerAboutSomethingElseIsRefusedAndItsWorkerEnds) {
  const auto worker = join("w");
  (void)submit(x_);
  WorkOrder other = worker->orders[0];
  other.candidate = "forged";
  answer("w", other);
  EXPECT_TRUE(worker->ended);
  EXPECT_NE(find(x_).state, State::kDone);
  EXPECT_EQ(counts().refused_answers, 1);
  service_->worker_ended("w", WorkerEnd::kFailed);
  const auto honest = join("v");
  ASSERT_EQ(honest->orders.size(), 1u);
  answer("v", honest->orders[0]);
  EXPECT_EQ(find(x_).state, State::kDone);
}

TEST_F(ServiceTest, AnswersForLeasesThatNobodyHasAreIgnored) {
  join("w");
  answer("w", WorkOrder{.lease = 77, .task = digest_of("task"), .candidate = "x"});
  answer("nobody", WorkOrder{.lease = 1, .task = digest_of("task"), .candidate = "x"});
  EXPECT_EQ(counts().late_answers, 2);
}

TEST_F(ServiceTest, CancellationReachesARunningEvaluation) {
  const auto worker = join("w");
  (void)submit(x_);
  bool cancelled = false;
  service_->cancel("a", x_.key.id(), [&](const Result<bool>& done) { cancelled = done.ok() && *done; });
  turn();
  EXPECT_TRUE(cancelled);
  ASSERT_EQ(worker->cancelled.size(), 1u);
  EXPECT_EQ(worker->cancelled[0], worker->orders[0].lease);
  EXPECT_EQ(find(x_).state, State::kCancelled);
  service_->worker_said(
      "w", WorkerAnswer{worker->orders[0].lease, std::nullopt, {ErrorCode::kCancelled, "cancelled"}});
  turn();
  EXPECT_EQ(find(x_).state, State::kCancelled);
  EXPECT_EQ(counts().workers.at(0).in_hand, 0);
}

TEST_F(ServiceTest, OneClientsCancellationIsNotAnothers) {
  Submission other = x_;
  other.client = "b";
  const auto worker = join("w");
  (void)submit(x_);
  (void)submit(other);
  service_->cancel("a", x_.key.id(), [](const Result<bool>&) {});
  turn();
  EXPECT_TRUE(worker->cancelled.empty());
  answer("w", worker->orders.at(0));
  EXPECT_EQ(find(x_).state, State::kCancelled);
  EXPECT_EQ(find(other).state, State::kDone);
}

TEST_F(ServiceTest, WhatIsAskedForInTheTurnThatEndsItIsWorkedOnAnew) {
  const auto worker = join("w");
  const Submission theirs = make_submission("x", "b");
  (void)submit(x_);
  service_->submit({.submissions = {theirs}, .max_unfinished = 10}, [](const Service::Receipts&) {});
  service_->cancel("a", x_.key.id(), [](const Result<bool>&) {});
  turn();
  ASSERT_EQ(worker->orders.size(), 2u);
  service_->submit({.submissions = {x_}, .max_unfinished = 10}, [](const Service::Receipts&) {});
  answer("w", worker->orders[1], Outcome::kInfra);
  EXPECT_EQ(find(theirs).state, State::kDone);
  ASSERT_EQ(worker->orders.size(), 3u);
  answer("w", worker->orders[2]);
  EXPECT_THAT(find(x_).verdict, testing::HasSubstr("PASS"));
}

TEST_F(ServiceTest, ADeadlineEndsWaitingAndRunningWork) {
  Submission urgent = x_, queued = make_submission("y");
  for (Submission* submission : {&urgent, &queued}) submission->deadline_unix_ms = unix_milliseconds() + 3000;
  const auto worker = join("w", 1);
  (void)submit(urgent);
  (void)submit(queued);
  EXPECT_NEAR(worker->orders.at(0).deadline_seconds, 3, 0.5);
  pass(4);
  EXPECT_EQ(find(urgent).state, State::kExpired);
  EXPECT_EQ(find(queued).state, State::kExpired);
  EXPECT_EQ(worker->cancelled.size(), 1u);
}

TEST_F(ServiceTest, WhoAsksAgainIsWaitedForUntilTheLaterDeadline) {
  Submission hasty = x_, patient = x_, endless = make_submission("y");
  hasty.deadline_unix_ms = unix_milliseconds() + 2000;
  patient.deadline_unix_ms = hasty.deadline_unix_ms + 4000;
  endless.deadline_unix_ms = hasty.deadline_unix_ms;
  (void)submit(patient);
  (void)submit(hasty);
  (void)submit(endless);
  endless.deadline_unix_ms = 0;
  (void)submit(endless);
  pass(4);
  EXPECT_FALSE(is_final(find(x_).state));
  pass(4);
  EXPECT_EQ(find(x_).state, State::kExpired);
  EXPECT_FALSE(is_final(find(endless).state));
}

TEST_F(ServiceTest, AFullQueueSaysSoAndRetriesStayFree) {
  options_.max_unfinished = 3;
  start();
  EXPECT_TRUE(submit(x_, 2).ok());
  EXPECT_TRUE(submit(make_submission("y"), 2).ok());
  const Error share = submit(make_submission("z"), 2).error();
  EXPECT_EQ(share.code, ErrorCode::kBusy);
  EXPECT_THAT(share.message, testing::HasSubstr("this client has 2 unfinished requests"));
  EXPECT_EQ(submit(x_, 2)->admission, Admission::kJoined);
  EXPECT_TRUE(submit(make_submission("z", "b"), 2).ok());
  const Error whole = submit(make_submission("u", "c"), 2).error();
  EXPECT_EQ(whole.code, ErrorCode::kBusy);
  EXPECT_THAT(whole.message, testing::HasSubstr("the queue is full: 3 requests of all clients"));
  answer("w", join("w")->orders.at(0));
  EXPECT_TRUE(submit(make_submission("u", "c"), 2).ok());
}

TEST_F(ServiceTest, WaitersAreToldOnceAndTimeOut) {
  int told = 0, timed_out = 0, reports = 0;
  (void)submit(x_);
  service_->wait_for("a", x_.key.id(), 2, [&](const Service::Found& found) {
    EXPECT_EQ((*found)->state, State::kQueued);
    ++timed_out;
  });
  service_->wait_for("a", x_.key.id(), 100, [&](const Service::Found& found) {
    EXPECT_EQ((*found)->state, State::kDone);
    ++told;
  });
  service_->wait_for_next("a", 0, 10, 100,
                          [&](const Service::Reports& next) { reports += static_cast<int>(next->size()); });
  pass(3);
  EXPECT_EQ(timed_out, 1);
  EXPECT_EQ(told, 0);
  answer("w", join("w")->orders.at(0));
  turn();
  EXPECT_EQ(told, 1);
  EXPECT_EQ(reports, 1);
}

TEST_F(ServiceTest, WhoSubmitsAndWaitsIsNotLookedUp) {
  const auto worker = join("w");
  std::vector<State> told;
  const auto submit_and_wait = [&](const Submission& submission, double seconds) {
    service_->submit(
        {.submissions = {submission}, .tasks = {{digest_of("task"), "task", "task"}}, .max_unfinished = 10},
        [&, submission, seconds](const Service::Receipts& receipts) {
          service_->wait_for(submission.client, receipts->front()->id, seconds,
                             [&](const Service::Found& found) { told.push_back((*found)->state); });
        });
    turn();
  };
  submit_and_wait(x_, 1e6);
  submit_and_wait(make_submission("x", "b"), 3);
  EXPECT_THAT(told, testing::IsEmpty());
  EXPECT_EQ(ledger_->looks, 0);
  pass(3.5);
  EXPECT_THAT(told, testing::ElementsAre(State::kRunning)) << "b's time is over";
  EXPECT_EQ(ledger_->looks, 1);
  answer("w", worker->orders.at(0));
  EXPECT_THAT(told, testing::ElementsAre(State::kRunning, State::kDone));
  EXPECT_EQ(ledger_->looks, 1) << "the transaction has told";
  submit_and_wait(x_, 1e6);
  turn();
  EXPECT_THAT(told, testing::ElementsAre(State::kRunning, State::kDone, State::kDone)) << "known";
}

TEST_F(ServiceTest, WhatIsThereIsToldAlsoToThoseWhoDoNotWait) {
  (void)submit(x_);
  answer("w", join("w")->orders.at(0));
  turn();
  int reports = 0;
  clock_.advance_ns(1'000'000'000);  // the turn ends what waits
  service_->wait_for_next("a", 0, 10, 0,
                          [&](const Service::Reports& next) { reports += static_cast<int>(next->size()); });
  turn();
  EXPECT_EQ(reports, 1);
}

TEST_F(ServiceTest, AFullDiskAcknowledgesNothingAndLosesNoAnswer) {
  const auto worker = join("w");
  (void)submit(x_);
  ledger_->full = true;
  EXPECT_EQ(submit(make_submission("y")).error().code, ErrorCode::kIo);
  answer("w", worker->orders.at(0));
  EXPECT_FALSE(counts().ready);
  EXPECT_EQ(find(x_).state, State::kRunning);
  ledger_->full = false;
  pass(1);
  EXPECT_EQ(find(x_).state, State::kDone) << "written as soon as there was room";
  EXPECT_EQ(worker->orders.size(), 1u) << "and not computed again";
  EXPECT_TRUE(submit(make_submission("y")).ok());
  EXPECT_TRUE(counts().ready);
}

TEST_F(ServiceTest, WhenThereIsRoomAgainTheServiceIsReadyThoughNobodyAsksForAnything) {
  join("w");
  const auto pass_beating = [&](double seconds) {
    for (double passed = 0; passed < seconds; passed += 0.5) {
      service_->worker_said("w", WorkerBeat{});
      pass(0.5);
    }
  };
  ledger_->full = true;
  EXPECT_FALSE(submit(x_).ok());
  const int attempts = ledger_->writes;
  pass_beating(5);
  EXPECT_FALSE(counts().ready);
  EXPECT_NEAR(ledger_->writes - attempts, 5, 1) << "one a second, however often it is asked";
  EXPECT_EQ(counts().write_failures, 1) << "nobody's request failed";
  ledger_->full = false;
  pass_beating(1.5);
  EXPECT_TRUE(counts().ready);
  const int probes = ledger_->writes;
  pass_beating(5);
  EXPECT_EQ(ledger_->writes, probes) << "what works is not tried";
}

TEST_F(ServiceTest, WhatWasWrittenThoughNobodySaidSoReachesTheOthers) {
  RecordingQueue others;
  options_.shared = &others;
  options_.gym_version = "2";
  start();
  others.news = {.rebuild = true, .live_versions = {"1", "2"}};
  turn();
  ledger_->mute = true;
  EXPECT_FALSE(submit(x_).ok());
  ledger_->mute = false;
  EXPECT_EQ(submit(x_)->admission, Admission::kJoined) << "it was durable";
  EXPECT_TRUE(others.added.empty()) << "who else is there is told by the next beat";
  others.news = {.live_versions = {"1", "2"}};
  turn();
  turn();
  ASSERT_EQ(others.added.size(), 1u);
  EXPECT_EQ(others.added[0].id, x_.key.id());
  EXPECT_FALSE(is_final(find(x_).state)) << "its version is alive";
  others.news = {.live_versions = {"1", "2"}};
  turn();
  turn();
  EXPECT_EQ(others.added.size(), 1u) << "once";
  ledger_->mute = true;
  EXPECT_FALSE(submit(make_submission("y")).ok());
  ledger_->mute = false;
  for (int i = 0; i < 20 && others.added.size() == 1; ++i) {
    others.news = {.live_versions = {"1", "2"}};
    pass(0.5);
  }
  EXPECT_THAT(others.added,
              testing::Contains(testing::Field(&SharedQueue::Item::id, make_submission("y").key.id())))
      << "also where nothing else is written";
  service_.reset();
}

TEST_F(ServiceTest, ManyWhoAskForCountsInATurnCostOneCount) {
  int told = 0;
  for (int i = 0; i < 50; ++i)
    service_->counts([&](const Result<ServiceCounts>& counts) { told += counts.ok() && !counts->ready; });
  turn();
  EXPECT_EQ(told, 50);
  EXPECT_EQ(ledger_->sums, 1);
}

TEST_F(ServiceTest, ADeadlineThatAnotherFrontEndHasPutOffHolds) {
  RecordingQueue others;
  options_.shared = &others;
  start();
  const auto worker = join("w");
  Submission once = x_;
  once.deadline_unix_ms = unix_milliseconds() + 2000;
  (void)submit(once);
  others.news.given = {x_.key.id()};
  turn();
  ASSERT_EQ(worker->orders.size(), 1u);
  Submission again = once;
  again.deadline_unix_ms += 60'000;
  ASSERT_TRUE(ledger_->write({.submissions = {{again, 10}}, .max_all = 10}).ok());
  pass(3);
  EXPECT_FALSE(is_final(find(x_).state));
  service_->worker_said("w",
                        WorkerAnswer{worker->orders[0].lease, std::nullopt, {ErrorCode::kTimeout, "late"}});
  turn();
  turn();
  ASSERT_EQ(worker->orders.size(), 2u);
  EXPECT_GT(worker->orders[1].deadline_seconds, 30) << "the ledger knows the new one";
  service_.reset();
}

TEST_F(ServiceTest, ADeadlineHoldsForThoseWhoWaitAsWell) {
  RecordingQueue others;
  options_.shared = &others;
  start();
  Submission urgent = x_;
  urgent.deadline_unix_ms = unix_milliseconds() + 3000;
  (void)submit(urgent);
  bool told = false;
  service_->wait_for("a", urgent.key.id(), 100, [&](const Service::Found& found) {
    EXPECT_EQ((*found)->state, State::kExpired);
    told = true;
  });
  turn();
  others.news = {.rebuild = true, .live_versions = {"1"}};
  turn();
  EXPECT_FALSE(told);
  pass(5);
  EXPECT_TRUE(told);
  service_.reset();
}

TEST_F(ServiceTest, AnOverdueDeadlineThatIsPutOffMeanwhileHolds) {
  RecordingQueue others;
  options_.shared = &others;
  start();
  Submission once = x_;
  once.deadline_unix_ms = unix_milliseconds() - 10'000;
  Submission again = once;
  again.deadline_unix_ms += 60'000;
  const auto write = [&](const Submission& submission) {
    return disk_
        ->write({.tasks = {{digest_of("task"), "task", "task"}},
                 .submissions = {{submission, 10}},
                 .max_all = 10})
        .ok();
  };
  ASSERT_TRUE(write(once));
  bool put_off = false;
  ledger_->after_overdue = [&] { put_off = write(again); };
  pass(8);
  ASSERT_TRUE(put_off);
  EXPECT_FALSE(is_final(find(x_).state));
  service_.reset();
}

TEST_F(ServiceTest, DrainingGivesNoMoreOrdersAndKeepsWhatIsAsked) {
  const auto worker = join("w", 1);
  (void)submit(x_);
  service_->drain();
  EXPECT_TRUE(submit(make_submission("y")).ok());
  EXPECT_FALSE(service_->is_idle());
  answer("w", worker->orders.at(0));
  EXPECT_TRUE(service_->is_idle());
  EXPECT_EQ(worker->orders.size(), 1u);
  start();
  EXPECT_EQ(join("w")->orders.at(0).candidate, "y");
}

TEST_F(ServiceTest, AfterAnUpdateOldRequestsSaySoInsteadOfWaitingForEver) {
  (void)submit(x_);
  options_.gym_version = "2";
  start();
  EXPECT_EQ(find(x_).state, State::kFailed);
  EXPECT_THAT(find(x_).error, testing::HasSubstr("submit it again"));
  EXPECT_EQ(counts().queue.waiting, 0);
}

TEST_F(ServiceTest, ATaskThatCannotBePreparedIsNoVerdict) {
  const auto worker = join("w");
  (void)submit(x_);
  service_->worker_said(
      "w",
      WorkerAnswer{worker->orders.at(0).lease, std::nullopt, {ErrorCode::kIo, "cannot read /etc/secret"}});
  turn();
  EXPECT_EQ(find(x_).state, State::kFailed);
  EXPECT_THAT(find(x_).error, testing::Not(testing::HasSubstr("secret"))) << "nothing of the host";
  EXPECT_EQ(submit(x_)->admission, Admission::kNew);
}

}  // namespace
}  // namespace lathe::serve

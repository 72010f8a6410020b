#pragma once

#include <gmock/gmock.h>

#include <functional>
#include <memory>

#include "serve/ledger.h"
#include "tests/serve/fixtures.h"

namespace lathe::serve {

/// What every Ledger promises. `open` opens the same ledger again and again, one at a time.
struct LedgerMaker {
  const char* name;
  std::function<std::function<std::unique_ptr<Ledger>()>()> make;
};

class LedgerContract : public testing::TestWithParam<LedgerMaker> {
 protected:
  void reopen() {
    ledger_.reset();
    ledger_ = open_();
  }
  LedgerOutcome write(const LedgerChanges& changes) {
    auto outcome = ledger_->write(changes);
    EXPECT_TRUE(outcome.ok()) << outcome.error().to_string();
    return outcome.ok() ? *std::move(outcome) : LedgerOutcome{};
  }
  Admission admit(const Submission& submission, bool may_add = true) {
    const auto outcome =
        write({.submissions = {{submission, may_add ? 1000 : 0}}, .max_all = 1000, .unix_ms = 5});
    return outcome.submissions.empty() ? Admission::kRefused : outcome.submissions[0];
  }
  bool conclude(const Submission& submission, const Conclusion& conclusion) {
    const auto outcome = write({.ends = {{submission.key.id(), conclusion}}, .unix_ms = 5});
    return !outcome.ends.empty() && outcome.ends[0].first;
  }
  Withdrawal withdraw(const Submission& submission) {
    const auto outcome =
        write({.withdrawals = {{submission.client, submission.key.id(), State::kCancelled}}, .unix_ms = 6});
    return outcome.withdrawals.empty() ? Withdrawal{} : outcome.withdrawals[0];
  }
  Submission named(const std::string& name, std::int64_t deadline_unix_ms = 0,
                   const std::optional<Submission>& submission = {}) {
    Submission one = submission.value_or(x_);
    one.naming = {name, "details of " + name};
    one.deadline_unix_ms = deadline_unix_ms;
    return one;
  }
  Withdrawal withdraw_name(const std::string& name, const std::string& client = "a") {
    const auto outcome =
        write({.withdrawals = {{.client = client, .id = x_.key.id(), .name = name}}, .unix_ms = 6});
    return outcome.withdrawals.empty() ? Withdrawal{} : outcome.withdrawals[0];
  }
  std::optional<NamedReport> find_named(const std::string& name, const std::string& client = "a") {
    const NameQuery queries[] = {{client, name}};
    auto found = ledger_->find_named(queries);
    EXPECT_TRUE(found.ok()) << found.error().to_string();
    return found.ok() ? found->at(0) : std::nullopt;
  }
  Report find(const Submission& submission) {
    const Ledger::Name names[] = {{submission.client, submission.key.id()}};
    const auto report = ledger_->find(names);
    EXPECT_TRUE(report.ok() && report->at(0));
    return report.ok() && report->at(0) ? *report->at(0) : Report{};
  }
  std::vector<Report> finished(const std::string& client, std::int64_t after, int limit) {
    const FinishedQuery queries[] = {{client, after, limit}};
    return ledger_->finished(queries).value().at(0);
  }
  std::string candidate(const Digest& id) {
    const Digest ids[] = {id};
    return ledger_->candidates(ids).value().at(0);
  }

  const std::function<std::unique_ptr<Ledger>()> open_ = GetParam().make();
  std::unique_ptr<Ledger> ledger_ = open_();
  const Submission x_ = make_submission("x");
};

TEST_P(LedgerContract, WhatWasWrittenIsThereAfterReopening) {
  EXPECT_EQ(admit(x_), Admission::kNew);
  reopen();
  const auto pending = ledger_->pending().value();
  ASSERT_EQ(pending.size(), 1u);
  EXPECT_EQ(pending[0].submission.key.id(), x_.key.id());
  EXPECT_EQ(pending[0].submission.tag, x_.tag);
  EXPECT_EQ(candidate(x_.key.id()), "x");
  EXPECT_EQ(find(x_).state, State::kQueued);
}

TEST_P(LedgerContract, ATransactionTellsWhatItHasMadeOfRequests) {
  const Submission y = make_submission("y");
  const LedgerChanges::Name x_name = {"a", x_.key.id()}, y_name = {"a", y.key.id()},
                            none = {"b", x_.key.id()};
  (void)admit(x_);
  const auto ended =
      write({.ends = {{x_.key.id(), make_conclusion(x_)}}, .looks = {none, x_name}, .unix_ms = 5});
  ASSERT_EQ(ended.looks.size(), 2u);
  EXPECT_FALSE(ended.looks[0]);
  ASSERT_TRUE(ended.looks[1]);
  EXPECT_EQ(ended.looks[1]->state, State::kDone);
  EXPECT_EQ(ended.looks[1]->sequence, find(x_).sequence);
  EXPECT_EQ(ended.looks[1]->verdict, find(x_).verdict);
  const auto both = write({.submissions = {{y, 10}}, .looks = {y_name, x_name}, .max_all = 10});
  ASSERT_EQ(both.looks.size(), 2u);
  EXPECT_EQ(both.looks[0]->state, State::kQueued);
  EXPECT_EQ(both.looks[1]->state, State::kDone);
  EXPECT_EQ(both.submissions.at(0), Admission::kNew);
  reopen();
  EXPECT_EQ(find(y).state, State::kQueued);
}

TEST_P(LedgerContract, ManyChangesOfOneTransactionAreLikeOneAfterTheOther) {
  Submission other = x_;
  other.client = "b";
  const Submission y = make_submission("y"), z = make_submission("z");
  EXPECT_THAT(
      write({.submissions = {{x_, 2}, {x_, 2}, {other, 2}, {y, 2}, {z, 2}}, .max_all = 100}).submissions,
      testing::ElementsAre(Admission::kNew, Admission::kJoined, Admission::kJoined, Admission::kNew,
                           Admission::kRefusedOwn))
      << "two of its own are enough for a";
  const auto ended = write({.ends = {{x_.key.id(), make_conclusion(x_)},
                                     {x_.key.id(), make_conclusion(x_)},
                                     {digest_of("nothing"), make_conclusion(x_)},
                                     {y.key.id(), make_conclusion(y)}},
                            .withdrawals = {{"a", y.key.id(), State::kExpired}},
                            .submissions = {{x_, 2}, {z, 2}},
                            .max_all = 100});
  ASSERT_EQ(ended.ends.size(), 4u);
  EXPECT_TRUE(ended.ends[0].first);
  EXPECT_THAT(ended.ends[0].clients, testing::UnorderedElementsAre("a", "b"));
  EXPECT_FALSE(ended.ends[1].first);
  EXPECT_FALSE(ended.ends[2].first);
  EXPECT_TRUE(ended.ends[3].first);
  EXPECT_FALSE(ended.withdrawals.at(0).withdrawn) << "its answer came first";
  EXPECT_THAT(ended.submissions, testing::ElementsAre(Admission::kKnown, Admission::kNew));
  EXPECT_EQ(find(x_).sequence, 1);
  EXPECT_EQ(find(y).sequence, 2);
  EXPECT_EQ(ledger_->unfinished().value(), 1);
}

TEST_P(LedgerContract, AProbeIsWrittenAndChangesNothing) {
  admit(x_);
  EXPECT_FALSE(LedgerChanges{.probe = true}.empty()) << "it reaches the ledger";
  (void)write({.probe = true});
  EXPECT_EQ(ledger_->unfinished().value(), 1);
  conclude(x_, make_conclusion(x_));
  EXPECT_EQ(find(x_).sequence, 1) << "it takes no number";
}

TEST_P(LedgerContract, LimitsCountWhatIsUnfinishedAlsoAfterReopening) {
  const Submission y = make_submission("y"), z = make_submission("z", "b");
  admit(x_);
  reopen();
  EXPECT_EQ(write({.submissions = {{y, 1}}, .max_all = 100}).submissions.at(0), Admission::kRefusedOwn);
  EXPECT_EQ(write({.submissions = {{z, 1}}, .max_all = 1}).submissions.at(0), Admission::kRefused);
  EXPECT_EQ(write({.submissions = {{z, 1}}, .max_all = 2}).submissions.at(0), Admission::kNew);
  withdraw(x_);
  EXPECT_EQ(write({.submissions = {{y, 1}}, .max_all = 2}).submissions.at(0), Admission::kNew);
}

TEST_P(LedgerContract, TextsMayHoldAnything) {
  Submission odd = make_submission(std::string("a\0b\"{},\\ \xc3\xa9", 12));
  odd.tag = std::string("\0'", 2);
  admit(odd);
  const auto wanted = ledger_->wanted(std::vector{odd.key.id(), digest_of("nothing")}).value();
  ASSERT_EQ(wanted.size(), 1u);
  EXPECT_EQ(wanted[0].submission.candidate, odd.candidate);
  EXPECT_EQ(find(odd).tag, odd.tag);
}

TEST_P(LedgerContract, WhatAWorkerNeedsAndWhoWaits) {
  Submission other = x_;
  other.client = "b";
  other.deadline_unix_ms = 1'700'000'001'000;
  admit(x_);
  admit(other);
  const auto wanted = ledger_->wanted(std::vector{x_.key.id()}).value();
  ASSERT_EQ(wanted.size(), 1u);
  EXPECT_EQ(wanted[0].submission.key.id(), x_.key.id());
  EXPECT_EQ(wanted[0].deadlines_unix_ms.size(), 2u);
  EXPECT_THAT(ledger_->overdue(1000).value(), testing::ElementsAre(Ledger::Name("b", x_.key.id())));
  conclude(x_, make_conclusion(x_));
  EXPECT_TRUE(ledger_->wanted(std::vector{x_.key.id()}).value().empty());
  EXPECT_TRUE(ledger_->overdue(1000).value().empty());
}

TEST_P(LedgerContract, TasksThatOnlyRefusedRequestsHaveAreNotKept) {
  Submission y = make_submission("y"), z = make_submission("z");
  y.key.task = digest_of("wanted"), z.key.task = digest_of("refused");
  const std::vector<StoredTask> tasks = {{digest_of("wanted"), "wanted", "text"},
                                         {digest_of("refused"), "refused", "text"}};
  write({.tasks = tasks, .submissions = {{y, 1}, {z, 1}}, .max_all = 100});
  EXPECT_TRUE(ledger_->task(digest_of("wanted")).value());
  EXPECT_FALSE(ledger_->task(digest_of("refused")).value());
  write({.tasks = {tasks[1]}});
  EXPECT_TRUE(ledger_->task(digest_of("refused")).value()) << "by itself";
}

TEST_P(LedgerContract, ARetriedRequestIsTheSameOne) {
  EXPECT_EQ(admit(x_), Admission::kNew);
  EXPECT_EQ(admit(x_), Admission::kJoined);
  EXPECT_EQ(admit(x_, false), Admission::kJoined) << "it is free even where the queue is full";
  EXPECT_TRUE(conclude(x_, make_conclusion(x_)));
  EXPECT_EQ(admit(x_, false), Admission::kKnown);
  EXPECT_EQ(find(x_).sequence, 1) << "it finished once";
}

TEST_P(LedgerContract, OfSeveralAnswersTheFirstCounts) {
  admit(x_);
  EXPECT_TRUE(conclude(x_, make_conclusion(x_, Outcome::kPass)));
  EXPECT_FALSE(conclude(x_, make_conclusion(x_, Outcome::kWrong)));
  EXPECT_THAT(find(x_).verdict, testing::HasSubstr("PASS"));
  EXPECT_EQ(finished("a", 0, 10).size(), 1u);
}

TEST_P(LedgerContract, EveryClientThatAskedHasTheAnswer) {
  Submission other = x_;
  other.client = "b";
  EXPECT_EQ(admit(x_), Admission::kNew);
  EXPECT_EQ(admit(other), Admission::kJoined);
  conclude(x_, make_conclusion(x_));
  EXPECT_EQ(find(x_).state, State::kDone);
  EXPECT_EQ(find(other).state, State::kDone);
  Submission late = x_;
  late.client = "c";
  EXPECT_EQ(admit(late, false), Admission::kKnown);
  EXPECT_EQ(find(late).verdict, find(x_).verdict);
  EXPECT_EQ(finished("c", 0, 10).size(), 1u);
}

TEST_P(LedgerContract, AnotherKeyIsAnotherEvaluation) {
  admit(x_);
  conclude(x_, make_conclusion(x_));
  for (const auto& change : std::vector<std::function<void(EvaluationKey&)>>{
           [](EvaluationKey& key) { key.gym_version = "2"; },
           [](EvaluationKey& key) { key.device_kind = "cuda"; },
           [](EvaluationKey& key) { key.depth = Depth::kFinal; },
           [](EvaluationKey& key) { key.task = digest_of("u"); },
           [](EvaluationKey& key) { key.candidate = digest_of("y"); }}) {
    Submission other = x_;
    change(other.key);
    EXPECT_EQ(admit(other), Admission::kNew) << "no stale answer";
  }
}

TEST_P(LedgerContract, InfraAndFailuresDoNotLast) {
  admit(x_);
  conclude(x_, make_conclusion(x_, Outcome::kInfra));
  EXPECT_EQ(find(x_).state, State::kDone);
  EXPECT_EQ(admit(x_, false), Admission::kRefusedOwn);
  EXPECT_EQ(find(x_).state, State::kDone) << "refused: nothing has changed";
  EXPECT_EQ(admit(x_), Admission::kNew);
  EXPECT_EQ(find(x_).state, State::kQueued);
  conclude(x_, {.state = State::kFailed, .verdict = {}, .error = "no such op"});
  EXPECT_EQ(find(x_).error, "no such op");
  EXPECT_EQ(admit(x_), Admission::kNew);
  EXPECT_TRUE(conclude(x_, make_conclusion(x_)));
  EXPECT_EQ(find(x_).state, State::kDone);
  EXPECT_EQ(find(x_).sequence, 3);
}

TEST_P(LedgerContract, FinishedRequestsComeInOrderOfCompletion) {
  std::vector<Submission> all;
  for (int i = 0; i < 5; ++i) admit(all.emplace_back(make_submission(std::to_string(i))));
  for (const int i : {3, 1, 4})
    conclude(all[static_cast<std::size_t>(i)], make_conclusion(all[static_cast<std::size_t>(i)]));
  const auto first = finished("a", 0, 2);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].tag, "tag of 3");
  EXPECT_EQ(first[1].tag, "tag of 1");
  const auto rest = finished("a", first[1].sequence, 10);
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].tag, "tag of 4");
  EXPECT_TRUE(finished("b", 0, 10).empty()) << "clients see their own";
}

TEST_P(LedgerContract, AWithdrawnRequestLeavesOthersTheirs) {
  Submission other = x_;
  other.client = "b";
  admit(x_);
  admit(other);
  const Withdrawal first = withdraw(x_);
  EXPECT_TRUE(first.withdrawn);
  EXPECT_FALSE(first.unwanted);
  EXPECT_FALSE(withdraw(x_).withdrawn) << "twice";
  EXPECT_TRUE(withdraw(other).unwanted);
  EXPECT_EQ(find(x_).state, State::kCancelled);
  EXPECT_TRUE(ledger_->pending().value().empty());
  EXPECT_EQ(admit(x_), Admission::kNew) << "and it may be asked for anew";
  conclude(x_, make_conclusion(x_));
  EXPECT_EQ(find(x_).state, State::kDone);
  EXPECT_EQ(find(other).state, State::kCancelled);
}

TEST_P(LedgerContract, LostWorkersAreCountedForGood) {
  admit(x_);
  for (int lost = 1; lost <= 2; ++lost) {
    EXPECT_THAT(write({.lost_workers = {x_.key.id()}}).lost_workers, testing::ElementsAre(lost));
    reopen();
  }
  EXPECT_EQ(ledger_->pending().value().at(0).lost_workers, 2);
}

TEST_P(LedgerContract, AWithdrawalForgetsNoLostWorker) {
  admit(x_);
  write({.lost_workers = {x_.key.id(), x_.key.id()}});
  EXPECT_TRUE(withdraw(x_).unwanted);
  EXPECT_EQ(admit(x_), Admission::kNew);
  EXPECT_EQ(ledger_->pending().value().at(0).lost_workers, 2);
  EXPECT_THAT(write({.lost_workers = {x_.key.id()}}).lost_workers, testing::ElementsAre(3));
  conclude(x_, make_conclusion(x_, Outcome::kInfra));
  EXPECT_EQ(admit(x_), Admission::kNew);
  EXPECT_EQ(ledger_->pending().value().at(0).lost_workers, 0) << "an answer does";
}

TEST_P(LedgerContract, OfARepeatedRequestTheLaterDeadlineHolds) {
  const auto deadline_after = [&](std::vector<std::int64_t> deadlines) {
    LedgerChanges changes{.max_all = 1000};
    for (const std::int64_t deadline : deadlines) {
      Submission again = x_;
      again.deadline_unix_ms = deadline;
      changes.submissions.push_back({again, 1000});
    }
    const auto now = write(changes).deadlines_unix_ms;
    const std::int64_t kept = ledger_->pending().value().at(0).submission.deadline_unix_ms;
    EXPECT_EQ(now.size(), deadlines.size());
    EXPECT_EQ(now.empty() ? -1 : now.back(), kept);
    return kept;
  };
  EXPECT_EQ(deadline_after({2000}), 2000);
  EXPECT_EQ(deadline_after({1000}), 2000);
  EXPECT_EQ(deadline_after({3000, 5000, 4000}), 5000);
  EXPECT_EQ(deadline_after({0}), 0) << "none is the latest";
  EXPECT_EQ(deadline_after({1000}), 0);
  withdraw(x_);
  EXPECT_EQ(deadline_after({1000, 3000, 2000}), 3000) << "of the new one alone";
}

TEST_P(LedgerContract, ARequestThatWasPutOffDoesNotExpireEarlier) {
  const auto expires = [&](std::int64_t deadline) {
    return write({.withdrawals = {{"a", x_.key.id(), State::kExpired, deadline}}, .unix_ms = 6})
        .withdrawals.at(0)
        .withdrawn;
  };
  Submission due = x_;
  for (const std::int64_t deadline : {2000, 0}) {
    due.deadline_unix_ms = deadline;
    admit(due);
    EXPECT_FALSE(expires(1000));
  }
  EXPECT_EQ(ledger_->unfinished().value(), 1);
  EXPECT_TRUE(withdraw(x_).withdrawn);
  due.deadline_unix_ms = 2000;
  admit(due);
  EXPECT_TRUE(expires(2000));
  admit(due);
  const auto both = write({.withdrawals = {{"a", x_.key.id(), State::kExpired, 1000}, {"a", x_.key.id()}}});
  EXPECT_FALSE(both.withdrawals.at(0).withdrawn);
  EXPECT_TRUE(both.withdrawals.at(1).withdrawn) << "cancelled in the same turn";
}

TEST_P(LedgerContract, WhatEndedLongAgoIsForgotten) {
  const Submission late = make_submission("late"), open = make_submission("open");
  (void)admit(x_), (void)conclude(x_, make_conclusion(x_));
  (void)admit(late), (void)admit(open);
  (void)write({.ends = {{late.key.id(), make_conclusion(late)}}, .unix_ms = 50});
  EXPECT_EQ(ledger_->forget(5, 10).value(), 0) << "it ended at 5";
  EXPECT_EQ(ledger_->forget(50, 10).value(), 1);
  EXPECT_EQ(ledger_->forget(50, 10).value(), 0);
  const Ledger::Name names[] = {
      {x_.client, x_.key.id()}, {late.client, late.key.id()}, {open.client, open.key.id()}};
  const auto left = ledger_->find(names).value();
  EXPECT_FALSE(left[0]);
  EXPECT_TRUE(left[1] && left[2]);
  EXPECT_EQ(ledger_->unfinished().value(), 1);
  const Digest ids[] = {x_.key.id()};
  EXPECT_FALSE(ledger_->candidates(ids).ok()) << "nor its text";
  EXPECT_EQ(admit(x_), Admission::kNew) << "it is evaluated again";
}

TEST_P(LedgerContract, AVerdictThatSomebodyStillHasIsKept) {
  Submission other = x_;
  other.client = "b";
  (void)admit(x_), (void)conclude(x_, make_conclusion(x_));
  EXPECT_EQ(write({.submissions = {{other, 1000}}, .max_all = 1000, .unix_ms = 90}).submissions[0],
            Admission::kKnown);
  EXPECT_EQ(ledger_->forget(60, 1).value(), 1);
  EXPECT_EQ(find(other).state, State::kDone);
  EXPECT_EQ(candidate(x_.key.id()), "x");
}

TEST_P(LedgerContract, NamesAreForgottenWithTheirRequest) {
  const Submission late = make_submission("late");
  Submission named_late = late;
  named_late.naming.name = "late";
  (void)admit(named("x")), (void)admit(named_late);
  (void)conclude(x_, make_conclusion(x_));
  (void)write({.ends = {{late.key.id(), make_conclusion(late)}}, .unix_ms = 50});
  EXPECT_EQ(ledger_->forget(50, 10).value(), 1);
  EXPECT_FALSE(find_named("x"));
  EXPECT_TRUE(find_named("late"));
}

TEST_P(LedgerContract, MuchIsForgottenBitByBit) {
  for (int i = 0; i < 5; ++i) {
    const Submission one = make_submission(std::to_string(i));
    (void)admit(one), (void)conclude(one, make_conclusion(one));
  }
  for (const int left : {2, 2, 1, 0}) EXPECT_EQ(ledger_->forget(100, 2).value(), left);
}

TEST_P(LedgerContract, NamesOfARequestEndEachByItself) {
  EXPECT_EQ(admit(named("one")), Admission::kNew);
  EXPECT_EQ(admit(named("two")), Admission::kJoined);
  EXPECT_EQ(ledger_->unfinished().value(), 1) << "it is one request";
  const Withdrawal first = withdraw_name("one");
  EXPECT_TRUE(first.withdrawn);
  EXPECT_FALSE(first.ended);
  EXPECT_FALSE(first.unwanted);
  EXPECT_FALSE(withdraw_name("one").withdrawn) << "twice";
  EXPECT_FALSE(withdraw_name("three").withdrawn) << "it has no such name";
  EXPECT_EQ(find(x_).state, State::kQueued);
  reopen();
  EXPECT_EQ(find_named("one")->cancelled_unix_ms, 6);
  EXPECT_EQ(find_named("two")->cancelled_unix_ms, 0);
  const Withdrawal last = withdraw_name("two");
  EXPECT_TRUE(last.withdrawn);
  EXPECT_TRUE(last.ended);
  EXPECT_TRUE(last.unwanted);
  EXPECT_EQ(find(x_).state, State::kCancelled);
  EXPECT_EQ(ledger_->unfinished().value(), 0);
  EXPECT_EQ(admit(named("one")), Admission::kNew) << "and it may be asked for anew";
  EXPECT_EQ(find_named("one")->cancelled_unix_ms, 0);
}

TEST_P(LedgerContract, NamesThatEndInOneTransactionEndTheRequest) {
  admit(named("one"));
  admit(named("two"));
  const Digest id = x_.key.id();
  const auto ended = write({.withdrawals = {{.client = "a", .id = id, .name = "one"},
                                            {.client = "a", .id = id, .name = "two"}},
                            .unix_ms = 6})
                         .withdrawals;
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_TRUE(ended[0].withdrawn);
  EXPECT_FALSE(ended[0].ended);
  EXPECT_TRUE(ended[1].ended);
  EXPECT_EQ(find(x_).state, State::kCancelled);
  EXPECT_EQ(ledger_->unfinished().value(), 0);
}

TEST_P(LedgerContract, ANameLeavesOtherClientsTheirs) {
  Submission other = x_;
  other.client = "b";
  admit(named("one"));
  admit(other);
  EXPECT_FALSE(withdraw_name("one", "b").withdrawn) << "it has no such name";
  const Withdrawal own = withdraw_name("one");
  EXPECT_TRUE(own.ended);
  EXPECT_FALSE(own.unwanted);
  EXPECT_EQ(find(other).state, State::kQueued);
  EXPECT_FALSE(find_named("one", "b"));
}

TEST_P(LedgerContract, ARequestHasTheLatestDeadlineOfTheNamesThatKeepIt) {
  admit(named("one", 9000));
  admit(named("two", 2000));
  admit(named("three", 3000));
  admit(named("over", 5));
  const auto deadline = [&] { return ledger_->pending().value().at(0).submission.deadline_unix_ms; };
  EXPECT_EQ(deadline(), 9000);
  EXPECT_EQ(withdraw_name("one").deadline_unix_ms, 3000);
  EXPECT_EQ(deadline(), 3000);
  admit(named("two", 1000));
  EXPECT_EQ(find_named("two")->deadline_unix_ms, 2000) << "the later of its own";
  EXPECT_EQ(withdraw_name("three").deadline_unix_ms, 2000);
  admit(named("three", 1000));
  EXPECT_EQ(find_named("three")->deadline_unix_ms, 1000) << "it begins anew";
  admit(named("four", 0));
  EXPECT_EQ(withdraw_name("two").deadline_unix_ms, 0) << "none is the latest";
  EXPECT_EQ(deadline(), 0);
  EXPECT_FALSE(withdraw_name("four").ended);
  EXPECT_TRUE(withdraw_name("three").ended) << "the deadline of the one that is left has passed";
}

TEST_P(LedgerContract, ANameIsOfTheRequestThatWasGivenItLast) {
  const Submission y = named("one", 0, make_submission("y"));
  admit(named("one"));
  EXPECT_EQ(write({.submissions = {{y, 10}, {named("one"), 10}, {y, 10}}, .max_all = 10}).submissions.size(),
            3u);
  EXPECT_EQ(find_named("one")->report.id, y.key.id());
  conclude(x_, make_conclusion(x_));
  admit(named("one"));
  reopen();
  const auto latest = find_named("one");
  EXPECT_EQ(latest->report.id, x_.key.id()) << "also of one whose verdict was known";
  EXPECT_EQ(latest->report.state, State::kDone);
  EXPECT_FALSE(latest->report.verdict.empty());
  EXPECT_EQ(latest->details, "details of one");
  EXPECT_EQ(latest->submitted_unix_ms, x_.submitted_unix_ms);
  const NameQuery queries[] = {{"a", "none"}, {"a", "one", y.key.id()}, {"a", "one"}};
  const auto found = ledger_->find_named(queries).value();
  ASSERT_EQ(found.size(), 3u);
  EXPECT_FALSE(found[0]);
  EXPECT_EQ(found[1]->report.state, State::kQueued) << "it keeps its name";
  EXPECT_EQ(found[2]->report.id, x_.key.id());
}

TEST_P(LedgerContract, ARefusedRequestHasNoName) {
  EXPECT_EQ(admit(named("one"), false), Admission::kRefusedOwn);
  EXPECT_FALSE(find_named("one"));
  const std::string odd("\0'\xff", 3);
  admit(named(odd));
  EXPECT_TRUE(find_named(odd)) << "a name may hold anything";
}

TEST_P(LedgerContract, TasksAreKeptByDigest) {
  write({.tasks = {{digest_of("t"), "softmax", "text"}, {digest_of("t"), "softmax", "text"}}});
  write({.tasks = {{digest_of("t"), "softmax", "text"}}});
  EXPECT_EQ(ledger_->task(digest_of("t")).value()->text, "text");
  EXPECT_FALSE(ledger_->task(digest_of("u")).value());
  EXPECT_EQ(ledger_->tasks().value().size(), 1u);
}

}  // namespace lathe::serve

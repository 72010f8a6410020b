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
  Admission admit(const Submission& submission, bool may_add = true) {
    Admission admission = Admission::kRefused;
    EXPECT_TRUE(ledger_
                    ->write([&](LedgerWriter& writer) -> Status {
                      LATHE_TRY(admission, writer.admit(submission, may_add));
                      return Ok{};
                    })
                    .ok());
    return admission;
  }
  bool conclude(const Submission& submission, const Conclusion& conclusion) {
    bool first = false;
    EXPECT_TRUE(ledger_
                    ->write([&](LedgerWriter& writer) -> Status {
                      LATHE_TRY(first, writer.conclude(submission.key.id(), conclusion, 5));
                      return Ok{};
                    })
                    .ok());
    return first;
  }
  Withdrawal withdraw(const Submission& submission) {
    Withdrawal withdrawal;
    EXPECT_TRUE(ledger_
                    ->write([&](LedgerWriter& writer) -> Status {
                      LATHE_TRY(withdrawal, writer.withdraw(submission.client, submission.key.id(),
                                                            State::kCancelled, 6));
                      return Ok{};
                    })
                    .ok());
    return withdrawal;
  }
  Report find(const Submission& submission) {
    const auto report = ledger_->find(submission.client, submission.key.id());
    EXPECT_TRUE(report.ok() && *report);
    return report.ok() && *report ? **report : Report{};
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
  EXPECT_EQ(ledger_->candidate(x_.key.id()).value(), "x");
  EXPECT_EQ(find(x_).state, State::kQueued);
}

TEST_P(LedgerContract, AFailedChangeHasNotHappened) {
  const Status status = ledger_->write([&](LedgerWriter& writer) -> Status {
    EXPECT_TRUE(writer.admit(x_, true).ok());
    return Error{ErrorCode::kIo, "the disk is full"};
  });
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_TRUE(ledger_->pending().value().empty());
  EXPECT_EQ(admit(x_), Admission::kNew);
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
  EXPECT_EQ(ledger_->finished_after("a", 0, 10).value().size(), 1u);
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
  EXPECT_EQ(ledger_->finished_after("c", 0, 10).value().size(), 1u);
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
  EXPECT_EQ(admit(x_, false), Admission::kRefused);
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
  const auto first = ledger_->finished_after("a", 0, 2).value();
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].tag, "tag of 3");
  EXPECT_EQ(first[1].tag, "tag of 1");
  const auto rest = ledger_->finished_after("a", first[1].sequence, 10).value();
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].tag, "tag of 4");
  EXPECT_TRUE(ledger_->finished_after("b", 0, 10).value().empty()) << "clients see their own";
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
    EXPECT_TRUE(ledger_
                    ->write([&](LedgerWriter& writer) -> Status {
                      EXPECT_EQ(writer.count_lost_worker(x_.key.id()).value(), lost);
                      return Ok{};
                    })
                    .ok());
    reopen();
  }
  EXPECT_EQ(ledger_->pending().value().at(0).lost_workers, 2);
}

TEST_P(LedgerContract, TasksAreKeptByDigest) {
  ASSERT_TRUE(ledger_
                  ->write([&](LedgerWriter& writer) -> Status {
                    LATHE_CHECK_OK(writer.add_task({digest_of("t"), "softmax", "text"}));
                    return writer.add_task({digest_of("t"), "softmax", "text"});
                  })
                  .ok());
  EXPECT_EQ(ledger_->task(digest_of("t")).value()->text, "text");
  EXPECT_FALSE(ledger_->task(digest_of("u")).value());
  EXPECT_EQ(ledger_->tasks().value().size(), 1u);
}

}  // namespace lathe::serve

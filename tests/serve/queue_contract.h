#pragma once

#include <gmock/gmock.h>

#include <functional>
#include <memory>

#include "base/clock.h"
#include "serve/work_queue.h"

namespace lathe::serve {

/// What every WorkQueue promises; an implementation instantiates it with how to make one.
/// A lease lasts kLeaseSeconds of the clock.
struct QueueMaker {
  const char* name;
  std::function<std::unique_ptr<WorkQueue>(const Clock&)> make;
};
inline constexpr double kLeaseSeconds = 5;
inline const WorkerKind kKind{"cpu", "1"};

inline WorkItem make_item(const std::string& id, const std::string& task = "task",
                          const std::string& client = "a") {
  return {.id = digest_of(id), .task = digest_of(task), .kind = kKind, .client = client};
}

class QueueContract : public testing::TestWithParam<QueueMaker> {
 protected:
  std::vector<Lease> take(const std::string& worker, int most = 100) {
    auto leases = queue_->take(worker, kKind, most);
    EXPECT_TRUE(leases.ok());
    return leases.ok() ? *leases : std::vector<Lease>{};
  }
  void add(const WorkItem& item) { ASSERT_TRUE(queue_->add(item).ok()); }
  /// The clock goes on in steps of a look at it.
  void pass(double seconds) {
    for (double passed = 0; passed < seconds; passed += 0.5) {
      clock_.advance_ns(500'000'000);
      silent_ = queue_->silent_workers().value();
    }
  }

  FakeClock clock_;
  std::unique_ptr<WorkQueue> queue_ = GetParam().make(clock_);
  std::vector<std::string> silent_;
};

TEST_P(QueueContract, GivesAnItemOnce) {
  add(make_item("x"));
  add(make_item("x"));
  const auto leases = take("w");
  ASSERT_EQ(leases.size(), 1u);
  EXPECT_EQ(leases[0].item.id, digest_of("x"));
  EXPECT_TRUE(take("w").empty());
  EXPECT_TRUE(take("v").empty());
  EXPECT_TRUE(queue_->is_leased(digest_of("x")).value());
}

TEST_P(QueueContract, AFinishedItemIsGone) {
  add(make_item("x"));
  const auto lease = take("w").at(0);
  EXPECT_TRUE(queue_->finish(lease.number, 0.1).value());
  EXPECT_FALSE(queue_->finish(lease.number, 0.1).value()) << "twice";
  EXPECT_TRUE(take("w").empty());
  add(make_item("x"));
  EXPECT_EQ(take("w").size(), 1u) << "it may be asked for anew";
}

TEST_P(QueueContract, ALostWorkersItemsWaitAgainAndItsOldLeaseIsOver) {
  add(make_item("x"));
  const auto old = take("w").at(0);
  const auto released = queue_->release("w", true).value();
  ASSERT_EQ(released.size(), 1u);
  EXPECT_EQ(released[0].lost_workers, 1);
  const auto fresh = take("v").at(0);
  EXPECT_NE(fresh.number, old.number);
  EXPECT_FALSE(queue_->finish(old.number, 0.1).value());
  EXPECT_TRUE(queue_->finish(fresh.number, 0.1).value());
}

TEST_P(QueueContract, WhatIsWithdrawnFromAWorkerHasCostItsClientTheTime) {
  add(make_item("x", "task", "hasty"));
  const auto lease = take("w").at(0);
  EXPECT_EQ(queue_->leased_seconds(lease.item.id).value(), 0);
  clock_.advance_ns(3'000'000'000);
  EXPECT_EQ(queue_->leased_seconds(lease.item.id).value(), 3);
  EXPECT_EQ(queue_->drop(lease.item.id).value(), lease.number);
  EXPECT_EQ(queue_->leased_seconds(lease.item.id).value(), 0);
  for (const char* one : {"1", "2", "3"}) {
    add(make_item(std::string("hasty") + one, "task", "hasty"));
    add(make_item(std::string("other") + one, "task", "other"));
  }
  for (const Lease& next : take("w", 3)) EXPECT_EQ(next.item.client, "other");
}

TEST_P(QueueContract, AWorkerThatLeavesHasNotBeenLost) {
  add(make_item("x"));
  take("w");
  EXPECT_EQ(queue_->release("w", false).value().at(0).lost_workers, 0);
}

TEST_P(QueueContract, WhatHasLostAWorkerIsGivenAlone) {
  add(make_item("killer"));
  add(make_item("bystander"));
  EXPECT_EQ(take("w").size(), 2u);
  (void)queue_->release("w", true);
  add(make_item("fresh"));
  const auto alone = take("v");
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_EQ(alone[0].item.lost_workers, 1);
  EXPECT_TRUE(take("v").empty()) << "nothing beside it";
  (void)queue_->finish(alone[0].number, 0.1);
  const auto next = take("v");
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].item.lost_workers, 1);
  (void)queue_->finish(next[0].number, 0.1);
  EXPECT_EQ(take("v").at(0).item.id, digest_of("fresh"));
}

TEST_P(QueueContract, ABusyWorkerMakesRoomForASuspectAndOthersGoOn) {
  add(make_item("killer"));
  take("w");
  (void)queue_->release("w", true);
  EXPECT_EQ(take("v", 1).size(), 1u);  // the suspect, alone: v holds nothing
  (void)queue_->release("v", true);
  for (int i = 0; i < 4; ++i) add(make_item("ordinary" + std::to_string(i)));
  (void)queue_->take("busy", {"cpu", "1"}, 0);
  EXPECT_EQ(take("u", 1).at(0).item.id, digest_of("killer"));
  EXPECT_EQ(take("busy", 2).size(), 2u) << "work that is no suspect's goes on";
}

TEST_P(QueueContract, SilenceEndsALeaseAndAHeartbeatKeepsIt) {
  add(make_item("x"));
  take("w");
  pass(kLeaseSeconds - 1);
  EXPECT_THAT(silent_, testing::IsEmpty());
  (void)queue_->renew("w");
  pass(kLeaseSeconds - 1);
  EXPECT_THAT(silent_, testing::IsEmpty());
  pass(2);
  EXPECT_THAT(silent_, testing::ElementsAre("w"));
}

TEST_P(QueueContract, AJumpOfTheClockEndsNoLease) {
  add(make_item("x"));
  take("w");
  for (const double hours : {1.0, 100.0}) {
    clock_.advance_ns(static_cast<std::int64_t>(hours * 3600e9));
    EXPECT_THAT(queue_->silent_workers().value(), testing::IsEmpty());
  }
  pass(kLeaseSeconds + 1);
  EXPECT_THAT(silent_, testing::ElementsAre("w")) << "and silence still counts afterwards";
}

TEST_P(QueueContract, ADroppedItemIsGoneAndItsLeaseIsTold) {
  add(make_item("x"));
  add(make_item("y"));
  EXPECT_EQ(queue_->drop(digest_of("y")).value(), 0);
  const auto lease = take("w").at(0);
  EXPECT_EQ(queue_->drop(digest_of("x")).value(), lease.number);
  EXPECT_EQ(queue_->drop(digest_of("x")).value(), 0);
  EXPECT_TRUE(queue_->release("w", true).value().empty());
  EXPECT_TRUE(take("v").empty());
}

TEST_P(QueueContract, AWorkerGetsWhatItsKindCanDo) {
  WorkItem other = make_item("gpu");
  other.kind = {"cuda", "1"};
  add(other);
  WorkItem older = make_item("old");
  older.kind = {"cpu", "0"};
  add(older);
  EXPECT_TRUE(take("w").empty());
  EXPECT_EQ(queue_->take("g", {"cuda", "1"}, 5).value().size(), 1u);
  EXPECT_EQ(queue_->take("o", {"cpu", "0"}, 5).value().size(), 1u) << "versions may run beside each other";
}

TEST_P(QueueContract, CountsByPriorityAndClient) {
  add(make_item("x"));
  clock_.advance_ns(2'000'000'000);
  WorkItem urgent = make_item("y", "task", "b");
  urgent.priority = 5;
  urgent.waiting_since_ns = clock_.now_ns();
  add(urgent);
  const auto counts = queue_->counts().value();
  EXPECT_EQ(counts.waiting, 2);
  EXPECT_EQ(counts.by_priority.at(0).waiting, 1);
  EXPECT_NEAR(counts.by_priority.at(0).oldest_seconds, 2, 1e-6);
  EXPECT_EQ(counts.by_client.at("b"), 1);
}

}  // namespace lathe::serve

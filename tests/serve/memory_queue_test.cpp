#include "serve/memory_queue.h"

#include <set>

#include "base/random.h"
#include "tests/serve/queue_contract.h"

namespace lathe::serve {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

INSTANTIATE_TEST_SUITE_P(Memory, QueueContract,
                         testing::Values(QueueMaker{"memory",
                                                    [](const Clock& clock) {
                                                      return make_memory_queue(
                                                          {.lease_seconds = kLeaseSeconds}, clock);
                                                    }}),
                         [](const auto& maker) { return maker.param.name; });

class Schedule : public testing::Test {
 protected:
  void use(const SchedulePolicy& policy) { queue_ = make_memory_queue(policy, clock_); }
  void add(const std::string& id, const std::string& task, const std::string& client = "a",
           int priority = 0) {
    WorkItem item = make_item(id, task, client);
    item.priority = priority;
    item.waiting_since_ns = clock_.now_ns();
    ASSERT_TRUE(queue_->add(item).ok());
  }
  Lease next(const std::string& worker = "w") { return queue_->take(worker, kKind, 1).value().at(0); }
  /// The next item, done in a second.
  WorkItem work(const std::string& worker = "w", double seconds = 1) {
    const Lease lease = next(worker);
    EXPECT_TRUE(queue_->finish(lease.number, seconds).value());
    return lease.item;
  }

  FakeClock clock_;
  std::unique_ptr<WorkQueue> queue_ = make_memory_queue({}, clock_);
};

TEST_F(Schedule, ClientsShareTheWorkersWhateverTheySend) {
  for (int i = 0; i < 1000; ++i) add("a" + std::to_string(i), "t", "greedy", 100);
  for (int i = 0; i < 100; ++i) add("b" + std::to_string(i), "t", "modest", -100);
  int modest = 0;
  for (int i = 0; i < 200; ++i) modest += work().client == "modest";
  EXPECT_NEAR(modest, 100, 2);
}

TEST_F(Schedule, TheShareIsOfSecondsNotOfItems) {
  for (int i = 0; i < 500; ++i) {
    add("a" + std::to_string(i), "long", "slow");
    add("b" + std::to_string(i), "short", "quick");
  }
  std::map<std::string, double> seconds;
  for (int i = 0; i < 400; ++i) {
    const Lease lease = next();
    const double cost = lease.item.client == "slow" ? 4 : 1;
    seconds[lease.item.client] += cost;
    (void)queue_->finish(lease.number, cost);
  }
  EXPECT_NEAR(seconds["slow"] / seconds["quick"], 1, 0.1);
}

TEST_F(Schedule, AnIdleClientSavesNothingUp) {
  for (int i = 0; i < 300; ++i) add("a" + std::to_string(i), "t", "steady");
  for (int i = 0; i < 100; ++i) work();
  for (int i = 0; i < 100; ++i) add("b" + std::to_string(i), "t", "late");
  int late = 0;
  for (int i = 0; i < 40; ++i) late += work().client == "late";
  EXPECT_NEAR(late, 20, 2);
}

TEST_F(Schedule, PriorityGoesFirstAndAgeCatchesUp) {
  use({.aging_seconds = 10, .locality_seconds = 0});
  add("old", "t", "a", 0);
  clock_.advance_ns(25 * kSecond);
  add("urgent", "t", "a", 3);
  EXPECT_EQ(work().id, digest_of("urgent")) << "three steps are worth thirty seconds";
  clock_.advance_ns(10 * kSecond);
  add("urgent later", "t", "a", 3);
  EXPECT_EQ(work().id, digest_of("old"));
}

TEST_F(Schedule, NothingStarvesUnderAStreamOfUrgentWork) {
  use({.aging_seconds = 1, .locality_seconds = 5});
  add("patient", "rare", "a", -10);
  int until = 0;
  for (int i = 0;; ++i) {
    ASSERT_LT(i, 1000);
    add("u" + std::to_string(2 * i), "common", "a", 10);
    add("u" + std::to_string(2 * i + 1), "common", "a", 10);
    clock_.advance_ns(kSecond);
    if (work().id == digest_of("patient")) break;
    ++until;
  }
  EXPECT_LE(until, 2 * (20 + 5) + 5) << "twenty steps of aging and the bonus, at two a second";
}

TEST_F(Schedule, AWorkerStaysWithItsTask) {
  Rng rng(Seed::from_number(3));
  std::vector<int> tasks;
  for (int i = 0; i < 64 * 16; ++i) tasks.push_back(i % 64);
  rng.shuffle(tasks);
  for (std::size_t i = 0; i < tasks.size(); ++i) add(std::to_string(i), std::to_string(tasks[i]));
  int switches = 0;
  Digest last;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const WorkItem item = work();
    switches += item.task != last;
    last = item.task;
  }
  EXPECT_EQ(switches, 64) << "as if the stream had been sorted";
}

TEST_F(Schedule, WorkersTakeDifferentTasks) {
  for (int i = 0; i < 40; ++i) add(std::to_string(i), std::to_string(i % 4));
  std::set<Digest> tasks;
  for (const char* worker : {"w0", "w1", "w2", "w3"}) tasks.insert(next(worker).item.task);
  EXPECT_EQ(tasks.size(), 4u);
}

TEST_F(Schedule, ADeepQueueIsWorkedOffWhole) {
  for (int i = 0; i < 100'000; ++i)
    add(std::to_string(i), std::to_string(i % 50), std::to_string(i % 7), i % 3);
  for (int i = 0; i < 100'000; ++i) work("w" + std::to_string(i % 16), 0.1);
  EXPECT_EQ(queue_->counts()->waiting, 0);
}

}  // namespace
}  // namespace lathe::serve

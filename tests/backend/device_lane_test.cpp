#include "backend/device_lane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "sandbox/process.h"

namespace lathe {
namespace {

using testing::HasSubstr;
using Grain = DeviceLane::Grain;
using Use = DeviceLane::Use;

constexpr auto kSoon = std::chrono::milliseconds(50);
constexpr double kLong = 20;  // seconds in which even a busy machine gives a free device

/// Another process that holds a lease.
class Holder {
 public:
  Holder(const std::string& folder, const std::string& use) : Holder({folder, "gpu", use}) {}
  explicit Holder(const std::vector<std::string>& args) {
    int to[2], from[2];
    EXPECT_EQ(::pipe(to), 0);
    EXPECT_EQ(::pipe(from), 0);
    input_ = UniqueFd(to[1]);
    output_ = UniqueFd(from[0]);
    const UniqueFd its_input(to[0]), its_output(from[1]);
    Command command{.argv = {*sibling_program("lane_user")}};
    command.argv.insert(command.argv.end(), args.begin(), args.end());
    const std::array<Process::Descriptor, 2> descriptors{{{its_input.get(), 0}, {its_output.get(), 1}}};
    auto started = Process::start(command, descriptors);
    EXPECT_TRUE(started.ok());
    process_ = std::make_unique<Process>(*std::move(started));
  }

  /// Waits for its next line.
  std::string line() const {
    std::string text;
    for (char c = 0; ::read(output_.get(), &c, 1) == 1 && c != '\n';) text += c;
    return text;
  }
  void let_go() { input_.reset(); }
  void kill() { process_->kill(); }
  Process& process() { return *process_; }

 private:
  UniqueFd input_, output_;
  std::unique_ptr<Process> process_;
};

/// A lease that a thread of its own waits for.
class Waiter {
 public:
  Waiter(DeviceLane& lane, Use use)
      : thread_([this, &lane, use] {
          const auto lease = lane.take(use, Grain::kBlock, cancel_);
          held_ = lease.held();
          returned_ = true;
        }) {}
  bool returns_within(double seconds) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!returned_ && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return returned_;
  }
  bool waits() const {
    std::this_thread::sleep_for(kSoon);
    return !returned_;
  }
  bool held() const { return held_; }
  void cancel() { cancel_.cancel(); }
  ~Waiter() { cancel_.cancel(); }

 private:
  CancelToken cancel_;
  std::atomic<bool> returned_ = false, held_ = false;
  std::jthread thread_;
};

class DeviceLaneTest : public testing::Test {
 protected:
  DeviceLaneTest() {
    std::string name = testing::TempDir() + "lanes-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~DeviceLaneTest() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

TEST_F(DeviceLaneTest, TimingWaitsForAnotherProcessThatTimes) {
  Holder other(folder_, "timing");
  EXPECT_THAT(other.line(), HasSubstr("held"));
  DeviceLane lane(Grain::kBlock, "gpu", folder_);
  Waiter timing(lane, Use::kTiming);
  EXPECT_TRUE(timing.waits());
  other.let_go();
  EXPECT_TRUE(timing.returns_within(kLong));
  EXPECT_TRUE(timing.held());
  EXPECT_GT(lane.waited_seconds(), 0.04);
}

TEST_F(DeviceLaneTest, WorkWaitsForAnotherProcessThatTimes) {
  Holder other(folder_, "timing");
  other.line();
  DeviceLane lane(Grain::kBlock, "gpu", folder_);
  Waiter work(lane, Use::kWork);
  EXPECT_TRUE(work.waits());
  other.let_go();
  EXPECT_TRUE(work.returns_within(kLong));
}

TEST_F(DeviceLaneTest, TimingWaitsForAnotherProcessThatWorks) {
  Holder other(folder_, "work");
  other.line();
  DeviceLane lane(Grain::kBlock, "gpu", folder_);
  Waiter timing(lane, Use::kTiming);
  EXPECT_TRUE(timing.waits());
  other.let_go();
  EXPECT_TRUE(timing.returns_within(kLong));
}

TEST_F(DeviceLaneTest, ProcessesWorkSideBySide) {
  Holder other(folder_, "work");
  other.line();
  DeviceLane lane(Grain::kBlock, "gpu", folder_);
  EXPECT_TRUE(Waiter(lane, Use::kWork).returns_within(kLong));
  EXPECT_EQ(lane.waited_seconds(), 0);
}

TEST_F(DeviceLaneTest, AnotherDeviceIsFree) {
  Holder other(folder_, "timing");
  other.line();
  DeviceLane lane(Grain::kBlock, "another gpu", folder_);
  EXPECT_TRUE(Waiter(lane, Use::kTiming).returns_within(kLong));
}

TEST_F(DeviceLaneTest, AKilledHolderFreesTheDevice) {
  Holder other(folder_, "timing");
  other.line();
  DeviceLane lane(Grain::kBlock, "gpu", folder_);
  Waiter timing(lane, Use::kTiming);
  EXPECT_TRUE(timing.waits());
  other.kill();
  EXPECT_TRUE(timing.returns_within(kLong));
}

TEST_F(DeviceLaneTest, AKilledProcessThatWaitedIsNotWaitedFor) {
  Holder timing(folder_, "timing");
  timing.line();
  Holder next(folder_, "timing");
  DeviceLane lane(Grain::kBlock, "gpu", folder_);
  std::this_thread::sleep_for(kSoon);  // it is in the queue
  Waiter last(lane, Use::kTiming);
  next.kill();
  timing.let_go();
  EXPECT_TRUE(last.returns_within(kLong));
}

TEST_F(DeviceLaneTest, ChildrenOfAHolderHoldNothing) {
  Holder other(folder_, "timing_with_child");
  const pid_t child = std::atoi(other.line().substr(5).c_str());
  ASSERT_GT(child, 0);
  other.kill();
  DeviceLane lane(Grain::kBlock, "gpu", folder_);
  EXPECT_TRUE(Waiter(lane, Use::kTiming).returns_within(kLong));
  EXPECT_EQ(::kill(child, SIGKILL), 0) << "the child ended before the end of the test";
}

TEST_F(DeviceLaneTest, TimingAndWorkOfTwoProcessesAlternate) {
  constexpr int kTurns = 200;
  Holder other({folder_, "gpu", "turns", std::to_string(kTurns)});
  EXPECT_EQ(other.line(), "turn");
  DeviceLane lane(Grain::kBlock, "gpu", folder_);
  // The other process times without a pause, and yet each of these waits for a turn or two.
  for (int i = 0; i < kTurns / 10; ++i) const auto work = lane.take(Use::kWork, Grain::kBlock);
  for (int i = 0; i < kTurns / 10; ++i) const auto timing = lane.take(Use::kTiming, Grain::kBlock);
  EXPECT_FALSE(other.process().has_ended()) << "the lane was given only when the other had done";
  EXPECT_TRUE(other.process().wait(kLong).ok());
}

TEST_F(DeviceLaneTest, LanesOfOneProcessExcludeEachOther) {
  DeviceLane one(Grain::kBlock, "gpu", folder_), other(Grain::kBlock, "gpu", folder_);
  auto lease = one.take(Use::kTiming, Grain::kBlock);
  Waiter timing(other, Use::kTiming);
  EXPECT_TRUE(timing.waits());
  lease = {};
  EXPECT_TRUE(timing.returns_within(kLong));
}

TEST_F(DeviceLaneTest, StagesThatWaitToBeTimedGoBeforeOtherWorkAndBlocksTakeTurnsWithIt) {
  for (const Grain grain : {Grain::kStage, Grain::kBlock}) {
    DeviceLane lane(grain);
    auto verifying = lane.take(Use::kWork, grain);
    std::mutex mutex;
    std::vector<Use> order;
    std::vector<std::jthread> threads;
    for (const Use use : {Use::kTiming, Use::kTiming, Use::kWork}) {
      threads.emplace_back([&, use] {
        const auto lease = lane.take(use, grain);
        const std::lock_guard lock(mutex);
        order.push_back(use);
      });
      std::this_thread::sleep_for(kSoon);
    }
    verifying = {};
    threads.clear();
    const std::vector<Use> together = {Use::kTiming, Use::kTiming, Use::kWork};
    const std::vector<Use> in_turn = {Use::kTiming, Use::kWork, Use::kTiming};
    EXPECT_EQ(order, grain == Grain::kStage ? together : in_turn);
  }
}

TEST_F(DeviceLaneTest, ALeaseSaysForHowLongOthersHadTheDevice) {
  DeviceLane lane(Grain::kBlock, "gpu", folder_);
  auto first = lane.take(Use::kTiming, Grain::kBlock);
  std::atomic<std::int64_t> waited_ns = 0;
  std::thread second([&] { waited_ns = lane.take(Use::kTiming, Grain::kBlock).waited_ns(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  first = {};
  second.join();
  EXPECT_GT(waited_ns, 0);
  EXPECT_EQ(DeviceLane(Grain::kStage, "gpu", folder_).take(Use::kTiming, Grain::kBlock).waited_ns(), 0);
}

TEST_F(DeviceLaneTest, CancellingEndsTheWaitAndLeavesTheLaneFree) {
  Holder other(folder_, "timing");
  other.line();
  DeviceLane lane(Grain::kBlock, "gpu", folder_);
  Waiter timing(lane, Use::kTiming);
  EXPECT_TRUE(timing.waits());
  timing.cancel();
  EXPECT_TRUE(timing.returns_within(kLong));
  EXPECT_FALSE(timing.held());
  other.let_go();
  EXPECT_TRUE(Waiter(lane, Use::kTiming).returns_within(kLong));
}

TEST_F(DeviceLaneTest, AnUnusableFolderLeavesALaneOfThisProcessAlone) {
  for (const std::string& folder : {folder_ + "/missing", std::string("/dev/null"), std::string("/proc")}) {
    DeviceLane lane(Grain::kBlock, "gpu", folder);
    EXPECT_THAT(lane.unshared(), HasSubstr("LATHE_LOCKS"));
    auto lease = lane.take(Use::kTiming, Grain::kBlock);
    EXPECT_TRUE(lease.held());
    Waiter work(lane, Use::kWork);
    EXPECT_TRUE(work.waits());
    lease = {};
    EXPECT_TRUE(work.returns_within(kLong));
  }
}

TEST_F(DeviceLaneTest, ALockThatSomebodyDeletesIsMadeAnew) {
  DeviceLane lane(Grain::kBlock, "gpu", folder_);
  for (const auto& file : std::filesystem::directory_iterator(folder_)) std::filesystem::remove(file);
  const auto lease = lane.take(Use::kTiming, Grain::kBlock);
  DeviceLane other(Grain::kBlock, "gpu", folder_);
  Waiter timing(other, Use::kTiming);
  EXPECT_TRUE(timing.waits());
}

TEST_F(DeviceLaneTest, ALinkIsNoLock) {
  std::filesystem::create_symlink("/etc/passwd", folder_ + "/gpu.lock");
  EXPECT_NE(DeviceLane(Grain::kBlock, "gpu", folder_).unshared(), "");
}

TEST_F(DeviceLaneTest, DevicesNamesCannotLeaveTheFolder) {
  const auto lock = DeviceLock::open(folder_, "../GPU-1/2");
  ASSERT_TRUE(lock.ok());
  EXPECT_EQ(lock->path(), folder_ + "/___GPU-1_2.lock");
}

TEST_F(DeviceLaneTest, AnotherGrainHoldsNothing) {
  DeviceLane lane(Grain::kBlock, "gpu", folder_);
  const auto stage = lane.take(Use::kTiming, Grain::kStage);
  EXPECT_FALSE(stage.held());
  EXPECT_TRUE(Waiter(lane, Use::kTiming).returns_within(kLong));
}

TEST(DeviceLockFolderTest, TheDefaultIsTheUsersAlone) {
  ::unsetenv("LATHE_LOCKS");
  const auto folder = device_lock_folder();
  ASSERT_TRUE(folder.ok()) << folder.error().to_string();
  struct stat meta {};
  ASSERT_EQ(::stat(folder->c_str(), &meta), 0);
  EXPECT_EQ(meta.st_uid, ::geteuid());
  EXPECT_EQ(meta.st_mode & 0077, 0u);
}

TEST(DeviceLockFolderTest, TheEnvironmentNamesAnother) {
  const std::string chosen = testing::TempDir() + "chosen-locks";
  ::setenv("LATHE_LOCKS", chosen.c_str(), 1);
  const auto folder = device_lock_folder();
  ::setenv("LATHE_LOCKS", (chosen + "/in/none").c_str(), 1);
  EXPECT_FALSE(device_lock_folder().ok());
  ::unsetenv("LATHE_LOCKS");
  ASSERT_TRUE(folder.ok());
  EXPECT_TRUE(std::filesystem::is_directory(*folder));
  std::filesystem::remove_all(*folder);
}

}  // namespace
}  // namespace lathe

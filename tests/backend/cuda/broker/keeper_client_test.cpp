#include "backend/cuda/broker/keeper_client.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "sandbox/memfd.h"

namespace lathe::cuda {
namespace {

namespace fs = std::filesystem;

/// A client of the keeper that fails once as `fault` says, with a workload of two banks.
class KeeperClientTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "keeper.XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override {
    client_.reset();
    fs::remove_all(folder_);
  }

  void start(const std::string& fault) {
    fs::copy_file(fs::read_symlink("/proc/self/exe").parent_path() / "faulty_keeper", folder_ / fault);
    auto client =
        KeeperClient::start({.program = (folder_ / fault).string(), .channels = 4, .reply_timeout_ms = 200});
    ASSERT_TRUE(client.ok()) << client.error().to_string();
    client_ = *std::move(client);
    const auto workload = client_->create(layout(), memory());
    ASSERT_TRUE(workload.ok());
    workload_ = *workload;
    for (std::uint32_t bank = 0; bank < 2; ++bank)
      ASSERT_TRUE(client_->add_bank(workload_, bank, memory()).ok());
  }

  static Layout layout() {
    Layout layout;
    layout.trials = 2;
    layout.outputs = region_of({64});
    layout.inout_source = {-1};
    return layout;
  }
  static UniqueFd memory() { return *make_memfd("memory", 4096); }
  Status reset() { return client_->reset(workload_, 0, 0xff); }
  void expect_all_made_again() {
    EXPECT_EQ(client_->generation(), 1u);
    const auto made = client_->measure();
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    EXPECT_EQ(*made, (std::vector<double>{1, 2}));
  }

  fs::path folder_;
  std::unique_ptr<KeeperClient> client_;
  std::uint64_t workload_ = 0;
};

TEST_F(KeeperClientTest, WhateverGoesWrongAnotherProcessGetsTheSameWorkloads) {
  for (const char* const fault : {"dies", "hangs", "late", "garbles", "confuses"}) {
    SCOPED_TRACE(fault);
    start(fault);
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(reset().ok());
    expect_all_made_again();
  }
}

TEST_F(KeeperClientTest, AnAnswerThatComesTooLateAnswersNothingElse) {
  start("late");
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(reset().ok());
    const auto broken = client_->collect(workload_, 1, {});
    ASSERT_TRUE(broken.ok());
    EXPECT_EQ(*broken, -1);
  }
  expect_all_made_again();
}

TEST_F(KeeperClientTest, ThreadsThatLoseItTogetherReplaceItOnce) {
  start("dies");
  std::atomic<int> failed = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 10; ++i)
          if (!reset().ok()) ++failed;
      });
  }
  EXPECT_EQ(failed, 0);
  expect_all_made_again();
}

TEST_F(KeeperClientTest, OutputsOfABlockAreNotAskedForTwice) {
  start("dies");
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(reset().ok());
  const auto reserved = client_->reserve();
  ASSERT_TRUE(reset().ok());
  EXPECT_FALSE(client_->sample(*reserved, workload_, 0, {}).ok()) << "it belongs to the process that died";
  expect_all_made_again();
}

TEST_F(KeeperClientTest, AnotherDeviceIsNotTheSame) {
  start("changes");
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(reset().ok());
  const Status lost = reset();
  ASSERT_FALSE(lost.ok());
  EXPECT_NE(lost.error().message.find("another one came: another GPU"), std::string::npos);
  EXPECT_EQ(client_->facts().name, "a GPU");
}

TEST_F(KeeperClientTest, ARefusalIsNoLoss) {
  start("dies");
  client_->destroy(workload_ + 7);
  EXPECT_EQ(client_->generation(), 0u);
}

}  // namespace
}  // namespace lathe::cuda

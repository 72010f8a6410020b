#include "gemm/runtime/workspace.h"

#include <gmock/gmock.h>

#include <functional>
#include <set>

#include "gemm/runtime/plan.h"

namespace lathe::gemm {
namespace {

/// A driver that counts.
struct FakeGpu {
  std::set<DevicePointer> allocated, cleared;
  std::map<DevicePointer, std::size_t> bytes;
  DevicePointer next = 4096;
  std::size_t free_bytes = std::size_t{1} << 30;
  int capturing = 0;
  std::uint64_t capture = 0;
  int mode = 0, mode_of_allocation = -1;
  std::vector<std::function<void()>> graph;  ///< what its end calls

  void end_graph() {
    for (const auto& gone : graph) gone();
    graph.clear();
  }
};
FakeGpu* gpu = nullptr;
std::pair<void (*)(void*), void*> object;

Driver fake_driver() {
  Driver driver{};
  driver.allocate = [](DevicePointer* at, std::size_t bytes) {
    if (bytes > gpu->free_bytes) return 2;
    gpu->mode_of_allocation = gpu->mode;
    gpu->free_bytes -= bytes;
    *at = gpu->next += 1 << 26;
    gpu->allocated.insert(*at);
    gpu->bytes[*at] = bytes;
    return 0;
  };
  driver.release = [](DevicePointer at) { return gpu->allocated.erase(at) == 1 ? 0 : 1; };
  driver.fill_words = [](DevicePointer at, unsigned word, std::size_t count, Stream) {
    if (word == 0 && count * 4 == std::size_t{kCounterBytes}) gpu->cleared.insert(at);
    return 0;
  };
  driver.stream_create = [](Stream* stream, unsigned) {
    *stream = reinterpret_cast<Stream>(std::uintptr_t{77});
    return 0;
  };
  driver.stream_destroy = [](Stream) { return 0; };
  driver.stream_synchronize = [](Stream) { return 0; };
  driver.capture_info = [](Stream, int* status, std::uint64_t* capture, GraphTag**, const void**,
                           std::size_t*) {
    *status = gpu->capturing, *capture = gpu->capture;
    return 0;
  };
  driver.exchange_capture_mode = [](int* mode) {
    std::swap(*mode, gpu->mode);
    return 0;
  };
  driver.user_object_create = [](UserObjectTag**, void* argument, void (*destroy)(void*), unsigned,
                                 unsigned) {
    object = {destroy, argument};
    return 0;
  };
  driver.graph_retain = [](GraphTag*, UserObjectTag*, unsigned, unsigned) {
    gpu->graph.push_back([kept = object] { kept.first(kept.second); });
    return 0;
  };
  return driver;
}

Stream stream_of(std::uintptr_t number) { return reinterpret_cast<Stream>(number); }

class GemmWorkspaces : public testing::Test {
 protected:
  void SetUp() override { gpu = &fake_; }
  void TearDown() override {
    fake_.end_graph();
    spaces_.reset();
    EXPECT_TRUE(fake_.allocated.empty()) << "memory is lost";
  }
  FakeGpu fake_;
  Driver driver_ = fake_driver();
  std::unique_ptr<Workspaces> spaces_ = std::make_unique<Workspaces>(driver_);
};

TEST_F(GemmWorkspaces, AStreamHasOneWithCountersOfZero) {
  const DevicePointer first = spaces_->of(stream_of(16), 100);
  EXPECT_NE(first, 0u);
  EXPECT_EQ(spaces_->of(stream_of(16), 200), first);
  EXPECT_NE(spaces_->of(stream_of(32), 100), first);
  EXPECT_EQ(fake_.bytes[first], std::size_t{kWorkspaceBytes});
  EXPECT_EQ(fake_.cleared, fake_.allocated);
}

TEST_F(GemmWorkspaces, WhatIsCapturedHasItsOwnUntilTheGraphGoes) {
  const DevicePointer eager = spaces_->of(stream_of(16), 100);
  fake_.capturing = 1, fake_.capture = 5;
  const DevicePointer captured = spaces_->of(stream_of(16), 1 << 20);
  EXPECT_NE(captured, eager);
  EXPECT_EQ(fake_.mode_of_allocation, 2) << "allocating would end the capture";
  EXPECT_EQ(fake_.mode, 0);
  EXPECT_EQ(spaces_->of(stream_of(16), 1 << 19), captured) << "one stream's calls follow one another";
  EXPECT_NE(spaces_->of(stream_of(32), 1 << 19), captured);
  fake_.capture = 6;
  const DevicePointer other = spaces_->of(stream_of(16), 1 << 20);
  EXPECT_NE(other, captured);
  fake_.end_graph();
  fake_.capture = 7;
  const std::size_t before = fake_.allocated.size();
  EXPECT_NE(spaces_->of(stream_of(16), 1 << 20), 0u);
  EXPECT_EQ(fake_.allocated.size(), before) << "what graphs gave back is used again";
}

TEST_F(GemmWorkspaces, TheCallersIsUsedWhileItIsLent) {
  spaces_->lend(stream_of(16), 4096);
  EXPECT_EQ(spaces_->of(stream_of(16), 100), 4096u);
  EXPECT_TRUE(fake_.allocated.empty());
  spaces_->lend(stream_of(16), 0);
  EXPECT_NE(spaces_->of(stream_of(16), 100), 4096u);
}

TEST_F(GemmWorkspaces, WithoutMemoryThereIsNone) {
  fake_.free_bytes = 1 << 20;
  EXPECT_EQ(spaces_->of(stream_of(16), 100), 0u);
}

}  // namespace
}  // namespace lathe::gemm

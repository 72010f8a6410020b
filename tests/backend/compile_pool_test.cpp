#include "backend/compile_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/processors.h"

namespace lathe {
namespace {

class CompilePoolTest : public testing::Test {
 protected:
  static std::string worker() { return *sibling_program("pool_worker"); }

  Result<CompiledObject> run(const std::string& source, const CancelToken& cancel = {}) {
    return pool_.run({source, {}, 30}, cancel);
  }

  CompilePool pool_{worker(), {}};
};

TEST_F(CompilePoolTest, ThreadsGetTheObjectsOfTheirOwnSources) {
  std::atomic<int> right = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 25; ++i) {
          const auto object = run("source " + std::to_string(100 * t + i));
          right += object.ok() && object->bytes == "SOURCE " + std::to_string(100 * t + i);
        }
      });
  }
  EXPECT_EQ(right, 8 * 25);
}

TEST_F(CompilePoolTest, AWorkerThatDiesCostsItsJobOnly) {
  std::atomic<int> right = 0, lost = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 10; ++i) (t == 0 ? lost : right) += run(t == 0 ? "die" : "fine").ok() == (t != 0);
      });
  }
  EXPECT_EQ(lost, 10);
  EXPECT_EQ(right, 30);
}

TEST_F(CompilePoolTest, CancellingEndsAJobAndThoseThatWaitForAWorker) {
  const CancelToken cancel;
  std::atomic<int> cancelled = 0;
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < usable_processors().size() + 2; ++t)
      threads.emplace_back([&] {
        const auto object = run("sleep", cancel);
        cancelled += !object.ok() && object.error().code == ErrorCode::kCancelled;
      });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    cancel.cancel();
  }
  EXPECT_EQ(cancelled, static_cast<int>(usable_processors().size()) + 2);
  EXPECT_TRUE(run("fine").ok());
}

TEST(PlacedCompilePoolTest, ThePlaceOfWorkersIsNotTheirCallers) {
  const std::vector<int> before = usable_processors();
  CompilePool pool(*sibling_program("pool_worker"), {}, {before.front()});
  EXPECT_TRUE(pool.run({"fine", {}, 30}, {}).ok());
  EXPECT_EQ(usable_processors(), before);
}

}  // namespace
}  // namespace lathe

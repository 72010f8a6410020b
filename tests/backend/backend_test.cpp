#include "backend/backend.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(MemoryFloor, LetsEachLevelHoldWhatFits) {
  DevicePeaks peaks;
  peaks.levels = {{"L1", 100, 50}, {"L2", 1000, 10}, {"memory", 1e18, 2}};
  EXPECT_DOUBLE_EQ(peaks.memory_floor_seconds(50), 1);
  EXPECT_DOUBLE_EQ(peaks.memory_floor_seconds(100), 2);
  EXPECT_DOUBLE_EQ(peaks.memory_floor_seconds(1000), 2 + 900 / 10.0);
  EXPECT_DOUBLE_EQ(peaks.memory_floor_seconds(3000), 2 + 900 / 10.0 + 2000 / 2.0);
}

TEST(MemoryFloor, IsNothingWhileNoPeakIsKnown) { EXPECT_EQ(DevicePeaks{}.memory_floor_seconds(1e6), 0); }

TEST(DevicePeaks, ACallTakesAsLongAsItsBytesOrItsArithmetic) {
  DevicePeaks peaks;
  peaks.levels = {{"memory", 1e18, 1e9}};
  const TaskSpec spec;
  BoundTask task;
  task.spec = &spec;
  task.bytes_min = 3000;
  task.essential_flops = 1e6;
  EXPECT_DOUBLE_EQ(peaks.floor_ns(task), 3000) << "how fast it computes is not known";
  peaks.flops_per_second = 1e9;
  EXPECT_DOUBLE_EQ(peaks.floor_ns(task), 1e6);
  EXPECT_EQ(DevicePeaks{}.floor_ns(task), 0);
}

TEST(DevicePeaks, TheBestOfTwoMeasurementsTakesEachPeakFromEither) {
  DevicePeaks a, b;
  a.flops_per_second = 3;
  a.tensor_flops_per_second = 30;
  b.flops_per_second = 4;
  a.levels = {{"L1", 100, 50}, {"memory", 1e18, 2}};
  b.levels = {{"L1", 100, 40}, {"memory", 1e18, 3}};
  const DevicePeaks best = a.best_of(b);
  EXPECT_EQ(best.flops_per_second, 4);
  EXPECT_EQ(best.tensor_flops_per_second, 30);
  TaskSpec task;
  task.tensors.emplace_back().dtype = DType::kF32;
  EXPECT_EQ(best.flops_limit(task), 10) << "three products of halves make one";
  task.tensors.emplace_back().dtype = DType::kF16;
  EXPECT_EQ(best.flops_limit(task), 30);
  task.tensors.emplace_back().dtype = DType::kBool;
  EXPECT_EQ(best.flops_limit(task), 30) << "masks are not multiplied";
  task.tensors.emplace_back().dtype = DType::kI8;
  EXPECT_EQ(best.flops_limit(task), 60);
  EXPECT_EQ(best.levels[0].bytes_per_second, 50);
  EXPECT_EQ(best.levels[1].bytes_per_second, 3);
}

}  // namespace
}  // namespace lathe

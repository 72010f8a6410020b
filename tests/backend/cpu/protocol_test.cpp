#include "backend/cpu/protocol.h"

#include <gtest/gtest.h>

#include "backend/compile_job.h"
#include "base/random.h"

namespace lathe::protocol {
namespace {

Load sample_load() {
  Load load;
  load.threads = 2;
  load.cpus = {0, 1};
  load.trials = 2;
  load.inputs = {32768, 16384, {64, 8192}, {100, 4}, {4096, 12288}};
  load.outputs = {16384, 8192, {128}, {512}, {4096}};
  load.scratch = {{100, ScratchFill::kZero}};
  load.steps = {{false,
                 "f",
                 7,
                 {{ArgKind::kInput, 0},
                  {ArgKind::kOutput, 0},
                  {ArgKind::kScratch, 0},
                  {ArgKind::kInteger, -3},
                  {ArgKind::kScalarF32, 1}}},
                {true, "{}", 0, {{ArgKind::kOutput, 0}}}};
  return load;
}

TEST(Protocol, ALoadSurvivesARoundTrip) {
  const auto load = decode_load(encode(sample_load()));
  ASSERT_TRUE(load.ok()) << load.error().message;
  EXPECT_EQ(encode(*load), encode(sample_load()));
}

TEST(Protocol, RefusesBuffersOutsideTheirMemory) {
  Load load = sample_load();
  load.outputs.sizes[0] = 4000;
  EXPECT_FALSE(decode_load(encode(load)).ok());
  load = sample_load();
  load.trials = 3;
  EXPECT_FALSE(decode_load(encode(load)).ok());
  load = sample_load();
  load.inputs.guards[1] = 16384;
  EXPECT_FALSE(decode_load(encode(load)).ok());
}

TEST(Protocol, RefusesBuffersThatReachOverAGuard) {
  Load load = sample_load();
  load.inputs.offsets[1] = 4096;
  EXPECT_FALSE(decode_load(encode(load)).ok());
  load = sample_load();
  load.inputs.sizes[0] = 5000;
  EXPECT_FALSE(decode_load(encode(load)).ok());
  load = sample_load();
  load.outputs.guards.clear();
  EXPECT_FALSE(decode_load(encode(load)).ok());
}

TEST(Protocol, RefusesArgumentsThatNameNoBuffer) {
  for (const Arg arg : {Arg{ArgKind::kInput, 2}, Arg{ArgKind::kOutput, -1}, Arg{ArgKind::kScratch, 1},
                        Arg{ArgKind::kScalarF64, 1}, Arg{ArgKind::kScalarBits8, 2}}) {
    Load load = sample_load();
    load.steps[0].args[0] = arg;
    EXPECT_FALSE(decode_load(encode(load)).ok());
  }
}

TEST(Protocol, RefusesMoreFloatingPointScalarsThanRegistersTake) {
  Load load = sample_load();
  load.steps[0].args.assign(kMaxReals, {ArgKind::kScalarF32, 1});
  EXPECT_TRUE(decode_load(encode(load)).ok());
  load.steps[0].args.push_back({ArgKind::kScalarF32, 1});
  EXPECT_FALSE(decode_load(encode(load)).ok());
}

TEST(Protocol, EveryTruncationIsRefused) {
  const std::string bytes = encode(sample_load());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode_load(bytes.substr(0, size)).ok()) << size;
  EXPECT_FALSE(decode_load(bytes + "x").ok());
}

TEST(Protocol, DamagedFramesNeverCrash) {
  Rng rng(Seed::from_number(3));
  for (int round = 0; round < 5000; ++round) {
    std::string bytes = encode(sample_load());
    for (int i = 0; i < 4; ++i) bytes[rng.below(bytes.size())] = static_cast<char>(rng.next());
    (void)decode_load(bytes);
    (void)decode_block(bytes);
    (void)decode_block_reply(bytes);
    (void)decode_compile_job(bytes);
    (void)decode_compile_reply(bytes);
  }
}

}  // namespace
}  // namespace lathe::protocol

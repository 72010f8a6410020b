#include "backend/cuda/wire/profile_frames.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/runner_frames.h"

namespace lathe::cuda {
namespace {

TEST(ProfileFrames, JobsAndAnswersSurviveTheChannel) {
  const ProfileJob job{ProfileJob::Verb::kLoop, 0x7f, 2.5, {0, 3, 1}};
  const auto read = decode_profile_job(encode(job));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->verb, job.verb);
  EXPECT_EQ(read->poison, job.poison);
  EXPECT_EQ(read->seconds, job.seconds);
  EXPECT_EQ(read->trials, job.trials);
  const ProfileAnswer answer{false, "no CUPTI", {{"registers", 32}, {"stall.barrier", 0.25}}};
  const auto answered = decode_profile_answer(encode(answer));
  ASSERT_TRUE(answered.ok());
  EXPECT_EQ(answered->text, answer.text);
  EXPECT_EQ(answered->counters, answer.counters);
}

TEST(ProfileFrames, ABlockIsNotAJob) {
  EXPECT_TRUE(is_profile_job(encode(ProfileJob{})));
  for (int poison = 0; poison < 256; ++poison)
    EXPECT_FALSE(
        is_profile_job(protocol::encode(protocol::Block{static_cast<std::uint8_t>(poison), {1, 2}})));
}

TEST(ProfileFrames, MalformedFramesAreRefused) {
  const std::string job = encode(ProfileJob{ProfileJob::Verb::kCount, 0, 1, {1, 2}});
  for (std::size_t bytes = 0; bytes < job.size(); ++bytes)
    EXPECT_FALSE(decode_profile_job(job.substr(0, bytes)).ok());
  for (const double seconds : {-1.0, 1e9, std::nan("")})
    EXPECT_FALSE(decode_profile_job(encode(ProfileJob{ProfileJob::Verb::kLoop, 0, seconds, {}})).ok());
  const std::string answer = encode(ProfileAnswer{true, "", {{"call_ns", 1}}});
  for (std::size_t bytes = 0; bytes < answer.size(); ++bytes)
    EXPECT_FALSE(decode_profile_answer(answer.substr(0, bytes)).ok());
  EXPECT_FALSE(decode_profile_answer(answer + "x").ok());
}

TEST(ProfileFrames, NonFiniteNumbersAndDuplicateNamesAreRefused) {
  for (const double none : {HUGE_VAL, -HUGE_VAL, std::nan("")})
    EXPECT_FALSE(decode_profile_answer(encode(ProfileAnswer{true, "", {{"a", none}}})).ok());
  std::string twice = encode(ProfileAnswer{true, "", {{"a", 1}, {"b", 1}}});
  twice[twice.find('b')] = 'a';
  EXPECT_FALSE(decode_profile_answer(twice).ok());
}

}  // namespace
}  // namespace lathe::cuda

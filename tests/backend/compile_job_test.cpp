#include "backend/compile_job.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <ctime>

namespace lathe {
namespace {

/// What wait_for_job() says of a child that runs `body` and ends with what it returns.
template <class Body>
int status_of(double cpu_seconds, Body body) {
  const auto channels = Channel::make_pair();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  return wait_for_job(child, child, cpu_seconds, channels->first);
}

int sleep_for(double seconds) {
  const timespec time{static_cast<time_t>(seconds), static_cast<long>(1e9 * (seconds - std::floor(seconds)))};
  return ::nanosleep(&time, nullptr);
}

int compute_for(double seconds, int code) {
  while (static_cast<double>(std::clock()) < seconds * CLOCKS_PER_SEC) {
  }
  return code;
}

TEST(WaitForJob, CountsTheProcessorsTimeNotWhatOthersTakeBesideIt) {
  EXPECT_EQ(status_of(0.2, [] { return sleep_for(0.3); }), 0);
  EXPECT_EQ(status_of(0.1, [] { return compute_for(0.15, 1); }), -1);
  EXPECT_EQ(status_of(0.1, [] { return compute_for(0.15, 0); }), 0) << "it is done";
  const int refused = status_of(0.1, [] { return 1; });
  EXPECT_TRUE(WIFEXITED(refused) && WEXITSTATUS(refused) == 1);
}

TEST(WaitForJob, EndsOneThatNeverDoes) {
  EXPECT_EQ(status_of(0.05, [] { return sleep_for(60); }), -1);
}

}  // namespace
}  // namespace lathe

#include "base/result.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <system_error>

#include "base/guard.h"

namespace lathe {
namespace {

Result<int> half_of(int number) {
  if (number % 2 != 0) return invalid("odd", "give an even number", {"numbers.txt", 3, 7});
  return number / 2;
}

Result<int> quarter_of(int number) {
  LATHE_TRY(const int half, half_of(number));
  LATHE_TRY(const int quarter, half_of(half));
  return quarter;
}

Status must_be_even(int number) {
  LATHE_CHECK_OK(half_of(number));
  return Ok{};
}

TEST(Result, HoldsAValueOrAnError) {
  const Result<int> good = half_of(8);
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(*good, 4);
  const Result<int> bad = half_of(7);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, ErrorCode::kInvalid);
}

TEST(Result, TryReturnsTheFirstErrorWithItsPlace) {
  EXPECT_EQ(*quarter_of(12), 3);
  const auto failed = quarter_of(6);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().where.line, 3);
  EXPECT_FALSE(must_be_even(5).ok());
  EXPECT_TRUE(must_be_even(4).ok());
}

TEST(Result, CarriesValuesThatOnlyMove) {
  Result<std::unique_ptr<int>> made = std::make_unique<int>(5);
  const std::unique_ptr<int> taken = *std::move(made);
  EXPECT_EQ(*taken, 5);
}

TEST(Error, PrintsPlaceMessageAndHint) {
  EXPECT_EQ(half_of(1).error().to_string(), "numbers.txt:3:7: odd\n  hint: give an even number");
  EXPECT_EQ(invalid("bad", "", {"a.toml"}).to_string(), "a.toml: bad");
  EXPECT_EQ(invalid("bad", "", {"a.jsonl", 3, 0}).to_string(), "a.jsonl:3: bad");
  EXPECT_EQ(invalid("bad").to_string(), "bad");
}

TEST(Error, FromErrnoNamesTheActionAndTheReason) {
  errno = ENOSPC;
  const Error error = errno_error("cannot write 'x'");
  EXPECT_EQ(error.code, ErrorCode::kIo);
  EXPECT_EQ(error.message, "cannot write 'x': No space left on device");
}

TEST(Error, FromErrnoNamesTheLimitOnOpenFilesWhoeverMeetsIt) {
  errno = EMFILE;
  EXPECT_EQ(errno_error("cannot open 'x'", "check that it can be read").hint,
            "raise the limit on open files: ulimit -n");
}

TEST(WithoutExceptions, AThreadThatMayNotBeStartedIsNoFaultOfLathe) {
  const auto error = without_exceptions([]() -> Status {
                       throw std::system_error(EAGAIN, std::generic_category());
                     }).error();
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_NE(error.hint.find("ulimit -u"), std::string::npos);
}

}  // namespace
}  // namespace lathe

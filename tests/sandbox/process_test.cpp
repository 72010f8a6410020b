#include "sandbox/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace lathe {
namespace {

/// What tests/sandbox/helper.cpp answers: its view of itself.
Result<std::string> ask(const std::string& question, const std::vector<std::string>& args = {}) {
  LATHE_TRY(const std::string program, sibling_program("sandbox_test_helper"));
  LATHE_TRY(const HelperProcess helper, HelperProcess::spawn(program, args));
  LATHE_CHECK_OK(helper.channel().send(question));
  LATHE_TRY(Frame frame, helper.channel().receive(5000));
  return frame.bytes;
}

TEST(HelperProcess, GetsItsArgumentsAndAnEmptyEnvironment) {
  ::setenv("LATHE_SECRET", "x", 1);
  EXPECT_EQ(*ask("args", {"a b", ""}), "[a b][]");
  EXPECT_EQ(*ask("environment"), "PATH=/usr/local/bin:/usr/bin:/bin;");
}

TEST(HelperProcess, InheritsNoDescriptorButItsChannel) {
  const UniqueFd opened(::open("/etc/passwd", O_RDONLY | O_CLOEXEC));
  const UniqueFd secret(::fcntl(opened.get(), F_DUPFD, 100));  // not close-on-exec
  ASSERT_TRUE(secret.valid());
  EXPECT_EQ(*ask("descriptors"), "0 1 2 3 ");
}

TEST(HelperProcess, IsKilledAndReapedWithItsOwner) {
  pid_t pid = -1;
  {
    const auto program = sibling_program("sandbox_test_helper");
    const auto helper = HelperProcess::spawn(*program, {});
    ASSERT_TRUE(helper.ok());
    pid = helper->pid();
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_EQ(::kill(pid, 0), -1);
  EXPECT_EQ(::waitpid(pid, nullptr, WNOHANG), -1);
}

TEST(HelperProcess, AKillThatNobodyWaitsForIsReapedLater) {
  auto helper = HelperProcess::spawn(*sibling_program("sandbox_test_helper"), {});
  ASSERT_TRUE(helper.ok());
  const pid_t pid = helper->pid();
  EXPECT_FALSE(helper->has_ended());
  helper->begin_kill();
  while (!helper->has_ended()) ::usleep(1000);
  EXPECT_EQ(::waitpid(pid, nullptr, WNOHANG), -1) << "reaped";
}

TEST(HelperProcess, OneThatEndsWithoutAWordIsNamedWithHowItEnded) {
  auto helper = HelperProcess::spawn(*sibling_program("sandbox_test_helper"), {});
  ASSERT_TRUE(helper.ok());
  ASSERT_TRUE(helper->channel().send("crash").ok());
  const auto frame = helper->first_frame(5000);
  ASSERT_FALSE(frame.ok());
  EXPECT_EQ(frame.error().message,
            "sandbox_test_helper ended before it could answer: killed by Segmentation fault");
}

TEST(HelperProcess, AMissingProgramIsNamed) {
  const auto helper = HelperProcess::spawn("/no/such/program", {});
  ASSERT_FALSE(helper.ok());
  EXPECT_EQ(helper.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(helper.error().message.find("/no/such/program"), std::string::npos);
}

/// The error of a helper's first frame.
Error first_error(const std::string& program, const std::vector<std::string>& args = {}) {
  const auto helper = HelperProcess::spawn(program, args);
  if (!helper.ok()) return helper.error();
  const auto frame = helper->channel().receive(5000);
  return frame.ok() ? Error{ErrorCode::kInternal, "it answered"} : frame.error();
}

TEST(HelperProcess, OneWhoseLibraryIsMissingIsQuotedFromItsLoader) {
  auto bytes = read_file(*sibling_program("sandbox_test_helper"));
  ASSERT_TRUE(bytes.ok());
  const std::string library = "libc.so.6", missing = "libQ.so.6";
  for (std::size_t at = 0; (at = bytes->find(library, at)) != std::string::npos;)
    bytes->replace(at, library.size(), missing);
  const std::string broken = testing::TempDir() + "lathe_broken_helper";
  ASSERT_TRUE(write_file_atomically(broken, *bytes).ok());
  ASSERT_EQ(::chmod(broken.c_str(), 0755), 0);
  const Error error = first_error(broken);
  EXPECT_EQ(error.code, ErrorCode::kIo);
  EXPECT_NE(error.message.find("lathe_broken_helper"), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("libQ.so.6: cannot open shared object file"), std::string::npos)
      << error.message;
  ::unlink(broken.c_str());
}

TEST(HelperProcess, WhatFailsBeforeTheFirstFrameIsOneBoundedPrintableLine) {
  const std::string program = *sibling_program("sandbox_test_helper");
  EXPECT_EQ(first_error(program, {"fail", "no libraries\n\x1b[31mhere"}).message,
            "a helper program ended at its start: no libraries; ?[31mhere");
  EXPECT_LT(first_error(program, {"fail", std::string(100'000, 'x')}).message.size(), 1000u);
}

TEST(HelperProcess, OneThatMayStartNoProcessNamesTheLimit) {
  const Error error = first_error(*sibling_program("sandbox_test_helper"), {"crowded"});
  EXPECT_NE(error.message.find("cannot start a process: Resource temporarily unavailable"), std::string::npos)
      << error.message;
  EXPECT_NE(error.message.find("ulimit -u"), std::string::npos) << error.message;
}

TEST(HelperProcess, WhatAJailRunsIsTheFirstToEndWhereMemoryRunsOut) {
  auto helper = HelperProcess::spawn(*sibling_program("sandbox_test_helper"), {"jailed"});
  ASSERT_TRUE(helper.ok());
  const auto frame = helper->first_frame(5000);
  ASSERT_TRUE(frame.ok()) << frame.error().to_string();
  EXPECT_EQ(frame->bytes, "1000\n");
}

TEST(HelperProcess, NothingIsQuotedAfterTheFirstFrame) {
  const auto helper = HelperProcess::spawn(*sibling_program("sandbox_test_helper"), {});
  ASSERT_TRUE(helper.ok());
  ASSERT_TRUE(helper->channel().send("complain").ok());
  ASSERT_EQ(helper->channel().receive(5000)->bytes, "ready");
  for (;;) {
    const auto frame = helper->channel().receive(5000);
    if (frame.ok()) continue;
    EXPECT_EQ(frame.error().message, "the peer closed the channel");
    break;
  }
}

}  // namespace
}  // namespace lathe

#include "base/process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lathe {
namespace {

using testing::HasSubstr;

Result<Completed> shell(const std::string& script, std::string_view input = {}, double timeout_seconds = 10) {
  return run_command({.argv = {"sh", "-c", script}}, input, timeout_seconds);
}

TEST(RunCommand, GivesBothOutputsAndTheExitCode) {
  const auto run = shell("echo out; echo err >&2; exit 3");
  ASSERT_TRUE(run.ok()) << run.error().to_string();
  EXPECT_EQ(run->output, "out\n");
  EXPECT_EQ(run->errors, "err\n");
  EXPECT_FALSE(run->status.ok());
  EXPECT_EQ(run->status.to_string(), "exit code 3");
}

TEST(RunCommand, InputAndOutputLargerThanAnyBufferDoNotWaitForEachOther) {
  const std::string input(4 << 20, 'x');
  const auto run = run_command({.argv = {"cat"}}, input, 10, input.size());
  ASSERT_TRUE(run.ok()) << run.error().to_string();
  EXPECT_EQ(run->output, input);
}

TEST(RunCommand, ACommandThatReadsNoInputStillCompletes) {
  const auto run = shell("exec 0<&-; echo done", std::string(4 << 20, 'x'));
  ASSERT_TRUE(run.ok()) << run.error().to_string();
  EXPECT_EQ(run->output, "done\n");
}

TEST(RunCommand, TellsASignalFromAnExitCode) {
  const auto run = shell("kill -SEGV $$");
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->status.signal, SIGSEGV);
  EXPECT_EQ(run->status.to_string(), "killed by Segmentation fault");
}

TEST(RunCommand, IsKilledAtItsTimeLimit) {
  const auto run = shell("sleep 100", {}, 0.05);
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.error().code, ErrorCode::kTimeout);
  EXPECT_EQ(shell("exec >&- 2>&-; sleep 100", {}, 0.2).error().code, ErrorCode::kTimeout);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "reaped";
}

TEST(RunCommand, OutputIsBounded) {
  const auto run = run_command({.argv = {"cat", "/dev/zero"}}, {}, 10, 1000);
  ASSERT_FALSE(run.ok());
  EXPECT_THAT(run.error().message, HasSubstr("more than 1000 bytes"));
  EXPECT_EQ(shell("head -c 1000000 /dev/zero >&2")->errors.size(), 64u << 10);
}

TEST(RunCommand, RunsInTheGivenFolderAndEnvironment) {
  const auto run = run_command({.argv = {"sh", "-c", "pwd; echo $NAME"},
                                .environment = std::vector<std::string>{"NAME=value"},
                                .folder = "/usr"},
                               {}, 10);
  ASSERT_TRUE(run.ok()) << run.error().to_string();
  EXPECT_EQ(run->output, "/usr\nvalue\n");
}

TEST(RunCommand, AMissingProgramIsNamed) {
  const auto run = run_command({.argv = {"/no/such/program"}}, {}, 10);
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(run.error().message, HasSubstr("/no/such/program"));
}

TEST(Process, InheritsNothingButWhatIsListed) {
  const UniqueFd opened(::open("/etc/passwd", O_RDONLY | O_CLOEXEC));
  const UniqueFd other(::fcntl(opened.get(), F_DUPFD, 100));  // not close-on-exec
  const auto run = shell("ls /proc/self/fd | wc -l");
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->output, "4\n") << "three streams and the folder itself";
}

TEST(Process, WaitingTooBrieflyLeavesItRunning) {
  auto process = Process::start({.argv = {"sleep", "100"}}, {});
  ASSERT_TRUE(process.ok());
  EXPECT_EQ(process->wait(0.01).error().code, ErrorCode::kTimeout);
  EXPECT_FALSE(process->has_ended());
  process->begin_kill();
  const auto status = process->wait(10);
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->signal, SIGKILL);
}

}  // namespace
}  // namespace lathe

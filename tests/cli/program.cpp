#include "tests/cli/program.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/fd.h"

namespace lathe {
namespace {

void redirect(int fd, const std::string& path) {
  ::dup2(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), fd);
}

/// Empty as long as the program has not begun.
std::string printed(const std::string& path) {
  const auto text = read_file(path);
  return text.ok() ? *text : "";
}

}  // namespace

Program::Program(const std::string& folder, const std::vector<std::string>& args) {
  static int count = 0;
  text_base_ = folder + "/printed-" + std::to_string(++count);
  std::vector<char*> argv{const_cast<char*>("lathe")};
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ != 0) return;
  if (::chdir(folder.c_str()) != 0) ::_exit(99);
  redirect(1, text_base_ + ".out");
  redirect(2, text_base_ + ".err");
  ::setenv("LATHE_CACHE", (folder + "/cache").c_str(), 1);
  ::unsetenv("LATHE_STORE");
  ::execv(LATHE_PROGRAM, argv.data());
  ::_exit(99);
}

Program::~Program() {
  if (running()) signal(SIGKILL);
  wait(10);
}

void Program::signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);  // -1 would mean every process
}

bool Program::running() {
  if (pid_ < 0) return false;
  if (::waitpid(pid_, &status_, WNOHANG) != pid_) return true;
  pid_ = -1;
  return false;
}

int Program::wait(double seconds) {
  eventually(seconds, [&] { return !running(); });
  return status_;
}

std::string Program::out() const { return printed(text_base_ + ".out"); }
std::string Program::err() const { return printed(text_base_ + ".err"); }

ProgramTest::ProgramTest() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // helpers that outlive their program become children of the test
  folder_ = testing::TempDir() + "lathe-program-XXXXXX";
  // Jailed compilers, which are nobody, must reach the cache.
  if (!::mkdtemp(folder_.data()) || ::chmod(folder_.c_str(), 0755) != 0) std::abort();
  write("tiny.toml", kTinyTask);
}

ProgramTest::~ProgramTest() {
  // Processes of a program that was killed end a little later, and clear up after themselves.
  std::error_code failed;
  eventually(10, [&] { return std::filesystem::remove_all(folder_, failed), !failed; });
  if (failed) ADD_FAILURE() << "cannot remove " << folder_ << ": " << failed.message();
}

void ProgramTest::write(const std::string& name, const std::string& text) const {
  if (!write_file_atomically(path(name), text).ok()) ADD_FAILURE() << "cannot write " << name;
}

std::vector<std::string> ProgramTest::files() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
    const std::string name = std::filesystem::relative(entry.path(), folder_).string();
    if (!name.starts_with("printed-")) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool ProgramTest::helpers_are_gone() {
  return eventually(5, [] {
    for (;;) {
      const pid_t ended = ::waitpid(-1, nullptr, WNOHANG);
      if (ended <= 0) return ended < 0;  // no child is left
    }
  });
}

}  // namespace lathe

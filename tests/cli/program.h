#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace lathe {

inline constexpr const char* kTinyTask = R"toml(
name = "tiny"
dims = { n = [1, 4096] }
tensor = [{ name = "x", shape = ["n"] }]
graph = "y = add(x, x)"
baselines = ["naive"]
shape = [{ name = "small", n = 2048 }]
)toml";

/// Right for it.
inline constexpr const char* kTinyKernel = R"kernel(/*lathe
[[launch]]
kernel = "twice"
items = "n"
args = ["x", "y"]
*/
#include <lathe/cpu.h>

extern "C" void twice(const float* x, float* y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) y[i] = x[i] + x[i];
}
)kernel";

/// A running `lathe` of the build tree. Killed by the destructor.
class Program {
 public:
  /// Its working folder is `folder`, where its store, its cache and the texts that it prints go.
  Program(const std::string& folder, const std::vector<std::string>& args);
  ~Program();
  Program(const Program&) = delete;

  void signal(int number) const;  ///< nothing once running() has said that it ended
  bool running();
  /// The wait status; -1 if it does not end in time.
  int wait(double seconds);
  std::string out() const;
  std::string err() const;

 private:
  std::string text_base_;
  pid_t pid_ = -1;
  int status_ = -1;
};

/// An empty folder with "tiny.toml", and what the programs in it may not leave behind.
class ProgramTest : public testing::Test {
 protected:
  ProgramTest();
  ~ProgramTest() override;

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const;
  /// Names of all files and folders, the printed texts aside.
  std::vector<std::string> files() const;
  /// Whether all helper processes of ended programs are gone within two seconds.
  static bool helpers_are_gone();

  std::string folder_;
};

/// Polls until `condition` holds; false after `seconds`.
template <class Condition>
bool eventually(double seconds, Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace lathe

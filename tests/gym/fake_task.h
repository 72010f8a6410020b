#pragma once

#include <gtest/gtest.h>

#include <string>

#include "backend/fake/fake_backend.h"
#include "baseline/baseline.h"

namespace lathe {

inline constexpr const char* kTwiceTask = R"toml(
name = "twice"
dims = { n = [1, 64] }
tensor = [{ name = "x", shape = ["n"] }]
graph = "y = add(x, x)"
baselines = ["naive"]
shape = [{ name = "small", n = 16 }]
)toml";

inline TaskSpec twice_task() {
  auto task = parse_task(kTwiceTask, "twice.toml");
  if (!task.ok()) {
    ADD_FAILURE() << task.error().to_string();
    std::abort();
  }
  return *std::move(task);
}

inline std::shared_ptr<const TaskSpec> shared_twice_task() {
  static const auto task = std::make_shared<const TaskSpec>(twice_task());
  return task;
}

/// A candidate whose behaviour the script of `name` decides; `extra` goes into its plan.
inline Candidate scripted(const std::string& name, const std::string& extra = "") {
  auto candidate = parse_candidate(
      "/*lathe\n" + extra +
          "\n[[launch]]\nkernel = \"f\"\nitems = \"n\"\nargs = [\"x\", \"y\", \"n\"]\n*/\n// " + name +
          "\nextern \"C\" void f();\n",
      name);
  if (!candidate.ok()) {
    ADD_FAILURE() << candidate.error().to_string();
    std::abort();
  }
  return *std::move(candidate);
}

inline FakeKernel timed(double call_ns, double block_noise = 0, double session_noise = 0) {
  FakeKernel kernel;
  kernel.call_ns = call_ns;
  kernel.block_noise = block_noise;
  kernel.session_noise = session_noise;
  return kernel;
}

}  // namespace lathe

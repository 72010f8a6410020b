#pragma once

#include <gtest/gtest.h>

#include "candidate/candidate.h"
#include "task/bound_task.h"

namespace lathe {

/// y = alpha * (x @ w): a name for every kind of argument.
inline const TaskSpec& sample_task() {
  static const TaskSpec task = [] {
    auto parsed = parse_task(R"(
name = "sample"
dims = ["M", "K"]
[[tensor]]
name = "x"
shape = ["M", "K"]
[[tensor]]
name = "w"
shape = ["K", "8"]
role = "parameter"
[[tensor]]
name = "alpha"
role = "scalar"
[[node]]
out = "product"
op = "matmul"
in = ["x", "w"]
[[node]]
out = "y"
op = "mul"
in = ["product", "alpha"]
[[output]]
name = "y"
[[shape]]
name = "small"
M = 6
K = 4
)",
                             "sample.toml");
    EXPECT_TRUE(parsed.ok()) << parsed.error().to_string();
    return *std::move(parsed);
  }();
  return task;
}

/// A candidate whose front matter is `plan`: its first line is line 2 of the text.
inline Result<Candidate> candidate_with(const std::string& plan) {
  return parse_candidate("/*lathe\n" + plan + "\n*/\nextern \"C\" void f() {}\n", "k.cpp");
}

}  // namespace lathe

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/fd.h"
#include "base/output.h"
#include "policy/catalog/compile.h"
#include "tests/baseline/graph_case.h"

namespace lathe {
namespace {

/// "sort: fp64 int32" for each op case and each dtype of its tensors for which there is no kernel.
std::string declined(bool cuda) {
  std::string page;
  for (const GraphCase& graph_case : op_cases()) {
    std::string dtypes;
    for (const char* dtype : {"fp32", "fp16", "bf16", "fp8e4m3", "fp64", "int8", "int32", "int64"}) {
      const auto task = parse_case(retyped(graph_case, dtype));
      if (!task.ok()) continue;
      const auto graph = catalog::lower_for(*task, {.cuda = cuda});
      if (graph.ok() && catalog::compile(*graph, {}, nullptr, {.cuda = cuda}).ok()) continue;
      dtypes += std::string(" ") + dtype;
    }
    if (!dtypes.empty()) page += graph_case.name + ":" + dtypes + "\n";
  }
  return page;
}

/// LATHE_UPDATE_GOLDEN=1 writes the lists anew: a case may leave them, none should come to them.
TEST(CatalogCoverage, WhatHasNoKernelIsListed) {
  for (const bool cuda : {false, true}) {
    const std::string path =
        std::string(LATHE_SOURCE_DIR) + "/tests/policy/golden/declined_" + (cuda ? "gpu" : "cpu") + ".txt";
    const std::string page = declined(cuda);
    if (std::getenv("LATHE_UPDATE_GOLDEN") != nullptr) {
      ASSERT_TRUE(write_output(path, page).ok());
    }
    const auto golden = read_file(path);
    ASSERT_TRUE(golden.ok()) << golden.error().to_string();
    EXPECT_EQ(page, *golden) << path;
  }
}

}  // namespace
}  // namespace lathe

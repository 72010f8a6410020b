#include <gmock/gmock.h>

#include "baseline/compose.h"
#include "task/compare.h"
#include "task/sample.h"
#include "tests/baseline/candidate_library.h"
#include "tests/baseline/graph_case.h"

namespace lathe {
namespace {

std::vector<GraphCase> all_cases() {
  std::vector<GraphCase> cases = vendor_cases();
  cases.insert(cases.end(), op_cases().begin(), op_cases().end());
  return cases;
}

std::vector<std::vector<std::string>> nodes_of(const GraphCase& graph_case, std::string_view library) {
  std::vector<std::vector<std::string>> list;
  for (const VendorGroup& group : vendor_groups(make_task(graph_case), library)) list.push_back(group.nodes);
  return list;
}

const GraphCase& case_named(std::string_view name) {
  for (const GraphCase& graph_case : vendor_cases())
    if (graph_case.name == name) return graph_case;
  ADD_FAILURE() << name;
  return vendor_cases().front();
}

using Groups = std::vector<std::vector<std::string>>;

TEST(VendorGroups, FuseAsMuchAsTheLibraryCan) {
  EXPECT_EQ(nodes_of(case_named("gemm_bias_gelu"), "onednn"), (Groups{{"h", "g", "y"}}));
  EXPECT_EQ(nodes_of(case_named("gemm_bias_gelu"), "openblas"), (Groups{{"h", "g"}}));
  EXPECT_EQ(nodes_of(case_named("gemm_add_residual"), "onednn"), (Groups{{"h", "g", "f", "y"}}));
  EXPECT_EQ(nodes_of(case_named("conv_bias_behind"), "onednn"), (Groups{{"h", "g", "y"}}));
  EXPECT_EQ(nodes_of(case_named("conv_bias_behind"), "openblas"), Groups{});
  EXPECT_EQ(nodes_of(case_named("binary_chain"), "onednn"), (Groups{{"h", "g", "f", "y"}}));
}

TEST(VendorGroups, KeepValuesThatOthersRead) {
  EXPECT_EQ(nodes_of(case_named("shared_value"), "onednn"), (Groups{{"h"}, {"g"}, {"y"}}));
  EXPECT_EQ(nodes_of(case_named("naive_between"), "onednn"), (Groups{{"h"}, {"f", "y"}}));
  GraphCase output = case_named("gemm_bias_gelu");
  output.outputs = {"g", "y"};
  EXPECT_EQ(nodes_of(output, "onednn"), (Groups{{"h", "g"}, {"y"}}));
}

/// oneDNN's post-operations of one algorithm share the parameters of the first.
TEST(VendorGroups, HoldOneSetOfParametersForEachAlgorithm) {
  EXPECT_EQ(nodes_of(case_named("binary_two_lines"), "onednn"), (Groups{{"h", "a"}, {"b"}, {"y"}}));
  EXPECT_EQ(nodes_of(case_named("gemm_two_lines"), "onednn"), (Groups{{"h", "a", "b"}, {"y"}}));
  EXPECT_EQ(nodes_of(case_named("gemm_two_slopes"), "onednn"), (Groups{{"h", "a", "c"}, {"y"}}));
  EXPECT_EQ(nodes_of(case_named("conv_two_ranges"), "onednn"), (Groups{{"h", "a", "b"}, {"y"}}));
  EXPECT_EQ(nodes_of(case_named("gemm_same_slope"), "onednn"), (Groups{{"h", "a", "c", "y"}}));
}

TEST(VendorGroups, AreOfTheDtypesThatTheLibraryComputes) {
  const auto product = [](const std::string& x, const std::string& w, const std::string& attrs = "") {
    return GraphCase{"product",
                     {"x: M, K; dtype = \"" + x + "\"", "w: K, N; dtype = \"" + w + "\""},
                     "y = matmul(x, w" + attrs + ")",
                     "M = 33, K = 65, N = 47"};
  };
  for (const char* dtype : {"fp32", "fp64", "fp16", "bf16"}) {
    EXPECT_EQ(nodes_of(product(dtype, dtype), "cublas"), (Groups{{"y"}})) << dtype;
    EXPECT_EQ(nodes_of(product(dtype, dtype), "openblas").empty(), std::string(dtype) != "fp32") << dtype;
  }
  EXPECT_EQ(nodes_of(product("bf16", "bf16", ", out_dtype = \"fp32\""), "cublas"), (Groups{{"y"}}));
  EXPECT_EQ(nodes_of(product("int8", "int8"), "cublas"), Groups{});
  EXPECT_EQ(nodes_of(product("bf16", "bf16"), "onednn"), (Groups{{"y"}}));
  EXPECT_EQ(nodes_of(product("fp16", "fp16"), "onednn"), Groups{});
}

TEST(VendorGroups, HaveNoSoftmaxOfBf16WhoseOrderIsAsked) {
  for (const char* reader : {"argsort(p)", "argmax(p)", "relu(p)"})
    for (const char* dtype : {"fp32", "bf16"}) {
      const GraphCase ranked = {"ranked",
                                {"x: M, N; dtype = \"" + std::string(dtype) + "\""},
                                "p = softmax(x)\ny = " + std::string(reader),
                                "M = 7, N = 31"};
      const bool asked = std::string(reader) != "relu(p)" && std::string(dtype) == "bf16";
      EXPECT_EQ(nodes_of(ranked, "onednn").empty(), asked) << reader << " " << dtype;
    }
}

TEST(VendorGroups, EndBeforeWhatTheyReadIsOverwritten) {
  const GraphCase old_operand = {"old_operand",
                                 {"r: M, N; role = \"inout\"", "w: N, N", "x: M, N"},
                                 "h = matmul(r, w)\nr = add(r, x)\ny = relu(h)",
                                 "M = 5, N = 17",
                                 {"r", "y"}};
  EXPECT_EQ(nodes_of(old_operand, "onednn"), (Groups{{"h"}, {"y"}}));
}

struct LibraryAndType {
  std::string library, dtype;
};
class VendorBuild : public testing::TestWithParam<LibraryAndType> {};

TEST_P(VendorBuild, IsWithinTheBoundForEveryGroupAndDistribution) {
  std::vector<TaskSpec> tasks;
  std::vector<Candidate> candidates;
  for (const GraphCase& graph_case : all_cases()) {
    const auto parsed = parse_case(retyped(graph_case, GetParam().dtype));
    if (!parsed.ok()) continue;
    TaskSpec task = *parsed;
    const auto groups = vendor_groups(task, GetParam().library);
    if (groups.empty()) continue;
    auto candidate = compose_candidate(task, groups, GetParam().library);
    ASSERT_TRUE(candidate.ok()) << candidate.error().to_string();
    ASSERT_TRUE(check_plan(*candidate, task).ok());
    candidates.push_back(*std::move(candidate));
    tasks.push_back(std::move(task));
  }
  ASSERT_GT(tasks.size(), 5u);
  const CandidateLibrary library(std::move(candidates));
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const auto bound = lathe::bind(tasks[i], tasks[i].shapes[0].dims);
    const auto reference = make_reference(tasks[i]);
    for (const Distribution distribution : all_distributions()) {
      SCOPED_TRACE(tasks[i].name + " on " + std::string(name(distribution)));
      const auto sample = draw_sample(**reference, *bound, distribution, Seed::from_number(i));
      if (!*sample) continue;
      const auto outputs = library.run(i, *bound, (*sample)->inputs);
      if (!outputs.ok() && !computes_here(tasks[i], GetParam().library)) {
        EXPECT_THAT(outputs.error().to_string(), testing::HasSubstr("AVX-512"));
        break;
      }
      if (!outputs.ok()) {
        ADD_FAILURE() << outputs.error().to_string();
        break;
      }
      for (std::size_t k = 0; k < outputs->size(); ++k) {
        const Comparison comparison = compare((*sample)->expected[k], (*outputs)[k], nullptr);
        EXPECT_TRUE(comparison.pass) << comparison.reason << " at " << comparison.first_bad << ": got "
                                     << comparison.got << ", want " << comparison.want << ", ratio "
                                     << comparison.worst_ratio << ", " << comparison.bad_count << " bad";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Libraries, VendorBuild,
                         testing::Values(LibraryAndType{"openblas", "fp32"}, LibraryAndType{"onednn", "fp32"},
                                         LibraryAndType{"onednn", "bf16"}),
                         [](const auto& of) { return of.param.library + "_" + of.param.dtype; });

}  // namespace
}  // namespace lathe

#include <gtest/gtest.h>

#include <set>

#include "policy/catalog/catalog.h"
#include "policy/catalog/compile.h"
#include "policy/catalog/device_target.h"
#include "policy/catalog/schedule/choices.h"

namespace lathe {
namespace {

constexpr const char* kSoftmax = R"TOML(
name = "softmax"
dims = { rows = [1, 512], cols = [1, 512] }
tensor = [{ name = "x", shape = ["rows", "cols"] }]
graph = "y = softmax(x)"
[[shape]]
name = "small"
rows = 64
cols = 96
)TOML";

constexpr const char* kDiagonal = R"TOML(
name = "scaled_rows"
dims = { M = [1, 512], N = [1, 512] }
tensor = [{ name = "a", shape = ["M"] }, { name = "b", shape = ["M", "N"] }]
graph = """
d = diag(a)
y = matmul(d, b)
"""
[[shape]]
name = "small"
M = 64
N = 96
)TOML";

struct CatalogPolicyTest : testing::Test {
  const std::shared_ptr<const TaskSpec> task =
      std::make_shared<const TaskSpec>(*parse_task(kSoftmax, "softmax.toml"));
  const PolicyContext context{task, DeviceInfo{}, DevicePeaks{}};
  std::unique_ptr<Policy> policy = make_catalog_policy();
  Variation& variation = *policy->variation();

  Result<std::vector<Proposal>> propose(int count, std::uint64_t seed = 1) {
    return propose_now(*policy, {.context = context, .count = count, .seed = Seed::from_number(seed)});
  }
  static Experience as_experience(const Proposal& proposal) {
    Experience experience;
    experience.candidate_text = proposal.text;
    experience.candidate = digest_of(proposal.text);
    return experience;
  }
};

TEST_F(CatalogPolicyTest, ProposesDistinctCandidatesWithTheDefaultFirst) {
  const auto proposals = propose(8);
  ASSERT_TRUE(proposals.ok());
  EXPECT_EQ(proposals->size(), 8U);
  std::set<std::string> texts;
  for (const Proposal& proposal : *proposals) {
    const auto candidate = parse_candidate(proposal.text, "test");
    ASSERT_TRUE(candidate.ok()) << candidate.error().to_string();
    EXPECT_TRUE(check_plan(*candidate, *task).ok());
    EXPECT_GT(proposal.predicted_ns, 0);
    texts.insert(proposal.text);
  }
  EXPECT_EQ(texts.size(), proposals->size());
  EXPECT_EQ(proposals->front().lineage.operation, "default");
}

TEST_F(CatalogPolicyTest, IsDeterministicInItsSeed) {
  const auto first = propose(12, 5), second = propose(12, 5);
  ASSERT_EQ(first->size(), second->size());
  for (std::size_t i = 0; i < first->size(); ++i) EXPECT_EQ((*first)[i].text, (*second)[i].text);
}

TEST_F(CatalogPolicyTest, DrawsIndependentlyWhereItIsAskedTo) {
  const auto request = [&](std::uint64_t seed) {
    return ProposalRequest{
        .context = context, .count = 3, .independent = true, .seed = Seed::from_number(seed)};
  };
  const auto draws = propose_now(*policy, request(1)), others = propose_now(*policy, request(2));
  ASSERT_TRUE(draws.ok()) << draws.error().to_string();
  ASSERT_EQ(draws->size(), 3U);
  for (const Proposal& draw : *draws) EXPECT_EQ(draw.lineage.operation, "random");
  EXPECT_NE(draws->front().text, others->front().text);
}

TEST_F(CatalogPolicyTest, AHostProgramIsNoParentAndHasNoCell) {
  Rng rng(Seed::from_number(3));
  Experience parent;
  parent.candidate_text = "\"\"\"lathe\n[host]\nlanguage = \"python\"\nentry = \"ModelNew\"\n\"\"\"\n";
  EXPECT_FALSE(variation.mutate(context, parent, rng).ok());
  EXPECT_TRUE(variation.cell(*parse_candidate(parent.candidate_text, "module.py")).empty());
}

TEST_F(CatalogPolicyTest, VariesAParentIntoAnotherCandidateAndNamesIt) {
  Rng rng(Seed::from_number(2));
  const auto proposals = propose(2);
  const Experience parent = as_experience(proposals->front()), mate = as_experience(proposals->back());
  const auto mutant = variation.mutate(context, parent, rng);
  ASSERT_TRUE(mutant.ok()) << mutant.error().to_string();
  EXPECT_NE(mutant->text, parent.candidate_text);
  EXPECT_EQ(mutant->lineage.parents, std::vector<Digest>{parent.candidate});
  const auto child = variation.cross(context, parent, mate, rng);
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(child->lineage.parents.size(), 2U);
}

TEST_F(CatalogPolicyTest, RefusesAParentThatIsNoCandidate) {
  Rng rng(Seed::from_number(3));
  Experience parent;
  parent.candidate_text = "int main() {}";
  EXPECT_FALSE(variation.mutate(context, parent, rng).ok());
}

TEST_F(CatalogPolicyTest, PutsDifferentTilesIntoDifferentCells) {
  const auto graph = catalog::lower(*task);
  const auto cell = [&](int unroll) {
    const auto emission = catalog::compile(*graph, {{"g0.unroll", unroll}});
    return variation.cell(*parse_candidate(emission->text, "test"));
  };
  EXPECT_EQ(cell(4), cell(4));
  EXPECT_NE(cell(1), cell(8));
}

TEST(CatalogTarget, ADeviceSaysWhetherItMultipliesPairsOfBf16) {
  DeviceInfo device;
  EXPECT_FALSE(catalog::target_of(device).bf16_pairs);
  device.facts["bf16_pairs"] = 0;
  EXPECT_FALSE(catalog::target_of(device).bf16_pairs);
  device.facts["bf16_pairs"] = 1;
  EXPECT_TRUE(catalog::target_of(device).bf16_pairs);
}

TEST(CatalogEmit, FusesSoftmaxIntoOneKernelAndKeepsItApartWhenAsked) {
  const TaskSpec task = *parse_task(kSoftmax, "softmax.toml");
  const auto graph = catalog::lower(task);
  EXPECT_EQ(parse_candidate(catalog::compile(*graph, {})->text, "fused")->plan().steps.size(), 1U);
  EXPECT_GT(parse_candidate(catalog::compile(*graph, {{"fuse", 0}})->text, "apart")->plan().steps.size(), 3U);
}

TEST(CatalogEmit, PrefixesTheNamesThatATaskChose) {
  std::string text = kSoftmax;
  for (std::size_t at = 0; (at = text.find("cols", at)) != std::string::npos;) text.replace(at, 4, "item");
  const TaskSpec task = *parse_task(text, "softmax.toml");
  const std::string kernel = catalog::compile(*catalog::lower(task), {})->text;
  EXPECT_NE(kernel.find("int64_t n_item"), std::string::npos) << kernel;
  EXPECT_NE(kernel.find("args = [\"item\", \"x\", \"y\"]"), std::string::npos) << kernel;
}

TEST(CatalogEmit, MultipliesAVectorByAMatrix) {
  const auto task = parse_task(
      "name = \"t\"\ndims = [\"K\", \"N\"]\ntensor = [{ name = \"x\", shape = [\"K\"] }, { name = \"w\", "
      "shape = [\"N\", \"K\"] }]\ngraph = \"y = linear(x, w)\"\nshape = [{ K = 64, N = 96 }]\n",
      "linear.toml");
  ASSERT_TRUE(task.ok()) << task.error().to_string();
  const auto emission = catalog::compile(*catalog::lower(*task), {});
  ASSERT_TRUE(emission.ok());
  EXPECT_TRUE(check_plan(*parse_candidate(emission->text, "linear"), *task).ok());
}

TEST(CatalogEmit, WritesTheSameTextAgainFromTheScheduleThatItReports) {
  const auto task = parse_task(
      "name = \"t\"\ndims = [\"M\", \"K\", \"N\"]\ntensor = [{ name = \"a\", shape = [\"M\", \"K\"] }, { "
      "name = "
      "\"b\", shape = [\"K\", \"N\"] }]\ngraph = \"y = matmul(a, b)\"\nshape = [{ M = 256, K = 64, N = 96 "
      "}]\n",
      "matmul.toml");
  ASSERT_TRUE(task.ok()) << task.error().to_string();
  const auto graph = catalog::lower(*task);
  for (int seed = 0; seed < 16; ++seed) {
    Rng rng(Seed::from_number(seed));
    const auto drawn = catalog::compile(*graph, {}, &rng);
    EXPECT_EQ(catalog::compile(*graph, drawn->schedule)->text, drawn->text);
  }
}

TEST(CatalogEmit, TurnsAProductWithADiagonalIntoAScaling) {
  const TaskSpec task = *parse_task(kDiagonal, "diagonal.toml");
  const auto graph = catalog::lower(task);
  ASSERT_TRUE(graph.ok());
  const auto emission = catalog::compile(*graph, {});
  EXPECT_EQ(emission->patterns, std::vector<std::string>{"map"});
  EXPECT_EQ(parse_candidate(emission->text, "scaling")->plan().steps.size(), 1U);
}

TEST(Choices, ReadsBackWhatItWrote) {
  const catalog::Schedule schedule = {{"fuse", 1}, {"g0.unroll", 4}};
  EXPECT_EQ(catalog::parse_schedule(catalog::to_text(schedule)), schedule);
  EXPECT_TRUE(catalog::parse_schedule("nonsense,=,a=b").empty());
}

TEST(Choices, FallsBackWhenTheWantedValueIsNotAllowed) {
  catalog::Choices choices({{"unroll", 3}});
  EXPECT_EQ(choices.pick("unroll", {1, 2, 4}, 2), 2);
  EXPECT_EQ(choices.taken().at("unroll"), 2);
}

}  // namespace
}  // namespace lathe

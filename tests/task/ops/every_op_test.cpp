#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/task/ops/harness.h"

namespace lathe {
namespace {

constexpr int kTrials = 8;
constexpr double kTiny = 0x1p-126;

template <class T>
std::vector<Array<T>> arrays(const std::vector<Value>& values) {
  std::vector<Array<T>> result;
  for (const Value& value : values) result.push_back({value.shape, {value.data.begin(), value.data.end()}});
  return result;
}

std::string label(const testing::TestParamInfo<OpCase>& info) { return info.param.label; }

class EveryOp : public testing::TestWithParam<OpCase> {
 protected:
  Rng rng_{Seed::from_number(7)};
  Summer summer_;
};

TEST_P(EveryOp, ComputesItsFormula) {
  for (int trial = 0; trial < kTrials; ++trial) {
    const std::vector<Value> in = draw_inputs(GetParam(), rng_);
    const Value out = evaluate(GetParam(), in, Numerics{.unit_roundoff = 0});
    const std::vector<double> want = GetParam().truth(arrays<double>(in), summer_);
    ASSERT_EQ(out.data.size(), want.size());
    EXPECT_EQ(element_count(out.shape), static_cast<std::int64_t>(want.size()));
    for (std::size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(out.data[i], want[i], 1e-11 * (1 + std::fabs(want[i]))) << "element " << i;
    }
    for (const double error : out.err) ASSERT_EQ(error, 0) << "exact inputs and arithmetic";
  }
}

TEST_P(EveryOp, BoundsAnHonestKernelAndLittleMore) {
  double worst_error = 0;
  double worst_bound = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const std::vector<Value> in = draw_inputs(GetParam(), rng_);
    const Value out = evaluate(GetParam(), in, Numerics{});
    const std::vector<float> got = GetParam().kernel(arrays<float>(in), summer_);
    ASSERT_EQ(out.data.size(), got.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double error = std::fabs(static_cast<double>(got[i]) - out.data[i]);
      ASSERT_LE(error, out.error_at(i)) << "element " << i << " is " << out.data[i];
      worst_error = std::max(worst_error, error);
      worst_bound = std::max(worst_bound, out.error_at(i));
    }
  }
  if (GetParam().ill_conditioned) return;
  EXPECT_LE(worst_bound, GetParam().looseness * worst_error + kTiny);
}

TEST_P(EveryOp, CarriesTheErrorsOfItsInputs) {
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<Value> in = draw_inputs(GetParam(), rng_);
    std::vector<Value> moved = in;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const std::size_t last = GetParam().draws.empty() ? 0 : std::min(i, GetParam().draws.size() - 1);
      if (!GetParam().draws.empty() && GetParam().draws[last].index_limit > 0) continue;
      if (!GetParam().draws.empty() && GetParam().draws[last].binary) continue;
      for (std::size_t k = 0; k < in[i].data.size(); ++k) {
        const double error = 1e-7 * std::fabs(in[i].data[k]);
        in[i].err.push_back(error);
        moved[i].data[k] += rng_.chance(0.5) ? error : -error;
      }
    }
    const Value out = evaluate(GetParam(), in, Numerics{.unit_roundoff = 0});
    const Value there = evaluate(GetParam(), moved, Numerics{.unit_roundoff = 0});
    if (GetParam().op == "argmax" || GetParam().op == "argmin") return;
    ASSERT_EQ(out.err.size(), out.data.size());
    for (std::size_t i = 0; i < out.data.size(); ++i) {
      ASSERT_LE(std::fabs(there.data[i] - out.data[i]), out.err[i] * (1 + 1e-5) + 1e-14) << "element " << i;
    }
  }
}

/// A mutant that applies must be visibly wrong on some of a few draws.
TEST_P(EveryOp, DiffersFromItsMutants) {
  const OpSite site = site_of(GetParam());
  for (const OpMutant& mutant : find_op(GetParam().op)->mutants()) {
    bool differs = false;
    bool applies = true;
    for (int trial = 0; trial < kTrials; ++trial) {
      const std::vector<Value> in = draw_inputs(GetParam(), rng_);
      const Value right = evaluate(GetParam(), in, Numerics{});
      Value wrong;
      mutant.evaluate(site, pointers(in), wrong);
      applies = !wrong.data.empty();
      if (!applies) break;
      ASSERT_EQ(wrong.data.size(), right.data.size()) << mutant.name;
      for (std::size_t i = 0; i < right.data.size(); ++i) {
        differs |= !(std::fabs(wrong.data[i] - right.data[i]) <= right.error_at(i));
      }
    }
    EXPECT_TRUE(differs || !applies) << mutant.name;
  }
}

/// With u = 0 nothing is allowed; with it nothing is forbidden where fp32 underflows.
TEST_P(EveryOp, StatesFiniteBoundsForDenormals) {
  std::vector<Value> in = draw_inputs(GetParam(), rng_);
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::size_t last = GetParam().draws.empty() ? 0 : std::min(i, GetParam().draws.size() - 1);
    if (!GetParam().draws.empty() &&
        (GetParam().draws[last].index_limit > 0 || GetParam().draws[last].low > 0))
      return;
    for (double& value : in[i].data) value = static_cast<double>(static_cast<float>(value * 1e-38));
  }
  const Value out = evaluate(GetParam(), in, Numerics{});
  const std::vector<float> got = GetParam().kernel(arrays<float>(in), summer_);
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(out.data[i])) continue;
    ASSERT_LE(std::fabs(static_cast<double>(got[i]) - out.data[i]), out.error_at(i)) << "element " << i;
  }
}

TEST_P(EveryOp, CountsItsArithmetic) {
  const Op& op = *find_op(GetParam().op);
  const OpSite site = site_of(GetParam());
  const double flops = op.flops(site);
  EXPECT_GE(flops, op.op_class() == OpClass::kMove || op.name() == "cast" ? 0 : 1);
  EXPECT_LE(op.essential_flops(site), flops);
}

INSTANTIATE_TEST_SUITE_P(Ops, EveryOp, testing::ValuesIn(all_cases()), label);

TEST(OpRegistry, HasACaseForEveryOp) {
  std::set<std::string_view> tested;
  const std::vector<OpCase> cases = all_cases();
  for (const OpCase& op_case : cases) tested.insert(op_case.op);
  for (const Op* op : all_ops()) EXPECT_TRUE(tested.contains(op->name())) << op->name();
}

TEST(OpRegistry, NamesAreUniqueAndFound) {
  const std::vector<const Op*> ops = all_ops();
  EXPECT_GE(ops.size(), 40u);
  std::set<std::string_view> names;
  for (const Op* op : ops) {
    EXPECT_TRUE(names.insert(op->name()).second) << op->name();
    EXPECT_EQ(find_op(op->name()), op);
  }
  EXPECT_EQ(find_op("no_such_op"), nullptr);
  EXPECT_EQ(find_op(""), nullptr);
}

}  // namespace
}  // namespace lathe

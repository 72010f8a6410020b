#include <gtest/gtest.h>

#include <algorithm>
#include <array>
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

/// Whether an element of the result that is in `wanted` moves with this element of an input, by one
/// of some changes, large ones among them so that maxima move.
bool matters(const OpCase& op_case, const std::vector<Value>& in, const Value& result,
             const std::vector<bool>& wanted, std::size_t input, std::size_t element) {
  const Draw& draw =
      op_case.draws.empty() ? Draw{} : op_case.draws[std::min(input, op_case.draws.size() - 1)];
  std::vector<Value> changed = in;
  double& value = changed[input].data[element];
  const double before = value;
  std::vector<double> others = {1e3, -1e3, before + 0.7, before - 0.7, 0.3, 0, 1};
  if (draw.index_limit > 0) {
    others.clear();
    for (std::int64_t other = 0; other < draw.index_limit; ++other)
      others.push_back(static_cast<double>(other));
  }
  if (draw.binary) others = {1 - before};
  if (draw.whole) {
    others.clear();
    for (double other = draw.low; other <= draw.high; ++other) others.push_back(other);
  }
  for (const double other : others) {
    value = other;
    const Value now = evaluate(op_case, changed, Numerics{.unit_roundoff = 0});
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (wanted[i] && now.data[i] != result.data[i] &&
          !(std::isnan(now.data[i]) && std::isnan(result.data[i])))
        return true;
  }
  return false;
}

/// How many elements of an input matter in one of three draws of the inputs; counts no further than
/// `enough`.
std::int64_t count_matters(const OpCase& op_case, const std::vector<bool>& wanted, std::size_t input,
                           std::int64_t enough, Rng& rng) {
  std::vector<bool> read;
  std::int64_t count = 0;
  for (int draw = 0; draw < 3; ++draw) {
    const std::vector<Value> in = draw_inputs(op_case, rng);
    const Value result = evaluate(op_case, in, Numerics{.unit_roundoff = 0});
    read.resize(in[input].data.size(), false);
    for (std::size_t i = 0; i < read.size() && count < enough; ++i)
      if (!read[i] && matters(op_case, in, result, wanted, input, i)) {
        read[i] = true;
        ++count;
      }
  }
  return count;
}

/// Else an honest kernel that reads no more would be accused of skipping what it must read.
void expect_needs_no_more_than_it_reads(const OpCase& op_case, Rng& rng) {
  const OpSite site = site_of(op_case);
  const auto total = static_cast<std::size_t>(element_count(site.out));
  for (const double part : {1.0, 0.6, 0.2}) {
    std::vector<bool> wanted(total, false);
    for (std::size_t i = 0; i < total; ++i) wanted[i] = part >= 1 || rng.chance(part);
    Demand demand{.wanted = std::ranges::count(wanted, true),
                  .constants = std::vector<std::int64_t>(site.in.size(), 0)};
    for (demand.input = 0; demand.input < site.in.size(); ++demand.input) {
      const std::int64_t needed = find_op(op_case.op)->needs(site, demand);
      EXPECT_LE(needed, count_matters(op_case, wanted, demand.input, needed, rng))
          << op_case.op << ", input " << demand.input << ", " << part << " of the result";
    }
  }
}

TEST_P(EveryOp, NeedsNoMoreOfItsInputsThanItReads) {
  if (!GetParam().in.empty() && element_count(GetParam().in[0]) > 4096)
    GTEST_SKIP() << "too many elements to change each; the op has smaller cases";
  expect_needs_no_more_than_it_reads(GetParam(), rng_);
}

TEST(Needs, OfSitesAtWhichInputsDoNotMatter) {
  using Numbers = std::vector<std::int64_t>;
  struct Site {
    const char* op;
    std::vector<Shape> in;
    Attrs attrs;
    std::vector<Draw> draws = {};
  };
  const Site sites[] = {
      {"softmax", {{5, 1}}, {}},
      {"log_softmax", {{1, 5}}, attrs({{"axis", 0}})},
      {"layer_norm", {{5, 1}, {1}, {1}}, {}},
      {"rms_norm", {{5, 1}}, {}},
      {"l2_normalize", {{5, 1}}, {}},
      {"instance_norm", {{2, 3, 1, 1}}, {}},
      {"group_norm", {{2, 3, 1}}, attrs({{"groups", 3}})},
      {"var", {{5, 1}}, attrs({{"axis", 1}})},
      {"argmax", {{5, 1}}, attrs({{"axis", 1}})},
      {"argsort", {{5, 1}}, {}},
      {"argsort", {{1, 5}}, attrs({{"axis", 0}})},
      {"cross_entropy", {{4, 1}, {4}}, {}, {Draw{}, Draw{.index_limit = 1}}},
      {"gather", {{1, 4}, {3}}, {}, {Draw{}, Draw{.index_limit = 1}}},
      {"scatter_add", {{1, 3}, {4}, {4, 3}}, {}, {Draw{}, Draw{.index_limit = 1}, Draw{}}},
      {"scatter_max", {{1, 3}, {4}, {4, 3}}, {}, {Draw{}, Draw{.index_limit = 1}, Draw{}}},
      {"bincount", {{5}}, attrs({{"bins", 1}}), {Draw{.index_limit = 1}}},
      {"take_along", {{4, 1}, {4, 3}}, {}, {Draw{}, Draw{.index_limit = 1}}},
      {"take_along", {{1, 5}, {1, 9}}, {}, {Draw{}, Draw{.index_limit = 5}}},
      {"attention", {{3, 4}, {1, 4}, {1, 2}}, {}},
      {"attention", {{5, 4}, {3, 4}, {3, 2}}, attrs({{"causal", true}})},
      {"attention", {{3, 4}, {5, 4}, {5, 2}}, attrs({{"causal", true}})},
      {"max_pool1d", {{1, 2, 9}}, attrs({{"kernel", Numbers{1}}, {"stride", Numbers{3}}})},
      {"avg_pool2d", {{1, 2, 5, 7}}, attrs({{"kernel", Numbers{2}}, {"stride", Numbers{3}}})},
      {"conv1d", {{2, 3, 9}, {2, 3, 1}}, attrs({{"stride", Numbers{4}}})},
      {"conv2d", {{1, 2, 1, 1}, {2, 2, 3, 3}}, attrs({{"padding", Numbers{1}}})},
      {"conv2d", {{1, 2, 4, 4}, {2, 2, 2, 2}}, attrs({{"dilation", Numbers{3}}})},
      {"conv_transpose1d", {{1, 2, 3}, {2, 2, 1}}, attrs({{"padding", Numbers{1}}})},
      {"conv_transpose1d", {{1, 2, 4}, {2, 2, 3}}, attrs({{"padding", Numbers{2}}, {"stride", Numbers{2}}})},
      {"tril", {{4, 6}}, attrs({{"diagonal", -2}})},
      {"triu", {{6, 4}}, attrs({{"diagonal", 3}})},
      {"matmul", {{1, 1}, {1, 1}}, {}},
  };
  Rng rng(Seed::from_number(9));
  for (const Site& site : sites) {
    OpCase op_case;
    op_case.op = site.op;
    op_case.in = site.in;
    op_case.attrs = site.attrs;
    op_case.draws = site.draws;
    expect_needs_no_more_than_it_reads(op_case, rng);
  }
}

TEST(Attention, KeysBehindTheLastOneAddNothingToTheBound) {
  OpCase ragged, cut;
  ragged.op = cut.op = "attention";
  ragged.in = {{1, 1, 2, 4}, {1, 1, 64, 4}, {1, 1, 64, 3}, {1}};
  ragged.draws = {Draw{}, Draw{}, Draw{}, Draw{.index_limit = 64}};
  cut.in = {{1, 1, 2, 4}, {1, 1, 5, 4}, {1, 1, 5, 3}};
  Rng rng(Seed::from_number(5));
  std::vector<Value> in = draw_inputs(ragged, rng);
  in[3].data = {4};
  std::vector<Value> first(in.begin(), in.begin() + 3);
  for (std::size_t i = 1; i < 3; ++i) {
    first[i].shape = cut.in[i];
    first[i].data.resize(static_cast<std::size_t>(element_count(cut.in[i])));
  }
  const Value all = evaluate(ragged, in, Numerics{}), known = evaluate(cut, first, Numerics{});
  ASSERT_EQ(all.err.size(), known.err.size());
  for (std::size_t i = 0; i < known.err.size(); ++i)
    EXPECT_NEAR(all.err[i], known.err[i], 1e-6 * known.err[i]) << "element " << i;
}

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
      if (!GetParam().draws.empty() && (GetParam().draws[last].binary || GetParam().draws[last].whole))
        continue;
      for (std::size_t k = 0; k < in[i].data.size(); ++k) {
        const double error = 1e-7 * std::fabs(in[i].data[k]);
        in[i].err.push_back(error);
        moved[i].data[k] += rng_.chance(0.5) ? error : -error;
      }
    }
    const Value out = evaluate(GetParam(), in, Numerics{.unit_roundoff = 0});
    const Value there = evaluate(GetParam(), moved, Numerics{.unit_roundoff = 0});
    if (GetParam().op.starts_with("arg")) return;  // judged by the values at the indices
    const auto exact = [](const Value& value) { return value.err.empty(); };
    if (std::ranges::all_of(in, exact)) return;  // indices and whole numbers have no errors here
    ASSERT_EQ(out.err.size(), out.data.size());
    for (std::size_t i = 0; i < out.data.size(); ++i) {
      ASSERT_LE(std::fabs(there.data[i] - out.data[i]), out.err[i] * (1 + 1e-5) + 1e-14) << "element " << i;
    }
  }
}

bool takes_errors(const OpCase& op_case, std::size_t input) {
  if (op_case.draws.empty()) return true;
  const Draw& draw = op_case.draws[std::min(input, op_case.draws.size() - 1)];
  return draw.index_limit == 0 && !draw.binary && !draw.whole;
}

/// Errors of some elements, as large as jumps and cancellation leave them.
std::vector<Value> with_large_errors(const OpCase& op_case, Rng& rng) {
  std::vector<Value> in = draw_inputs(op_case, rng);
  for (std::size_t i = 0; i < in.size(); ++i)
    for (std::size_t k = 0; takes_errors(op_case, i) && k < in[i].data.size(); ++k)
      in[i].err.push_back(std::array{0.0, 0.0, 1e-6, 0.02, 0.4, 3.0}[rng.below(6)]);
  return in;
}

/// Each element moved within its error, or to an end of it.
std::vector<Value> moved(std::vector<Value> values, bool to_ends, Rng& rng) {
  for (Value& value : values) {
    for (std::size_t k = 0; k < value.err.size(); ++k) {
      const double by = 2 * rng.uniform() - 1;
      value.data[k] += (to_ends ? std::copysign(1.0, by) : by) * value.err[k];
    }
    value.err.clear();
  }
  return values;
}

TEST_P(EveryOp, CarriesItsInputsErrorsHoweverLargeTheyAre) {
  if (GetParam().op.starts_with("arg")) GTEST_SKIP() << "indices are compared by the values that they name";
  const Numerics exact{.unit_roundoff = 0};
  const std::vector<Value> in = with_large_errors(GetParam(), rng_);
  if (std::ranges::all_of(in, [](const Value& value) { return value.err.empty(); }))
    GTEST_SKIP() << "no input is a computed number";
  const Value bounded = evaluate(GetParam(), in, exact);
  ASSERT_EQ(bounded.err.size(), bounded.data.size());
  for (int trial = 0; trial < 4 * kTrials; ++trial) {
    const Value there = evaluate(GetParam(), moved(in, trial % 2 == 0, rng_), exact);
    for (std::size_t i = 0; i < there.data.size(); ++i) {
      const double off = std::fabs(there.data[i] - bounded.data[i]);
      if (std::isnan(off) || std::isinf(bounded.err[i])) continue;  // outside the op's domain
      const double roundings = 1e-6 * bounded.err[i] + 1e-9 * (1 + std::fabs(there.data[i]));
      ASSERT_LE(off, bounded.err[i] + roundings) << "element " << i << " is " << bounded.data[i];
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
    if (!GetParam().draws.empty() && (GetParam().draws[last].index_limit > 0 ||
                                      GetParam().draws[last].low > 0 || GetParam().draws[last].whole))
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

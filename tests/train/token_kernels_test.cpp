#include "train/token_kernels.h"

#include <gtest/gtest.h>

#include "tests/train/tiny.h"

namespace lathe::train {
namespace {

TEST(TokenKernels, GateAndRotateWithTheGradientsOfPlainOperations) {
  const at::Tensor gate_up = at::randn({5, 12}).requires_grad_(true);
  const at::Tensor weights = at::randn({5, 6});
  (gate(aten_kernels(), gate_up) * weights).sum().backward();
  const at::Tensor own = gate_up.grad().clone();
  gate_up.mutable_grad().zero_();
  const auto halves = gate_up.chunk(2, -1);
  (at::silu(halves[0]) * halves[1] * weights).sum().backward();
  EXPECT_LT(largest_difference(own, gate_up.grad()), 1e-6);

  const at::Tensor x = at::randn({5, 2, 8}).requires_grad_(true);
  const at::Tensor angles = at::randn({5, 4});
  const at::Tensor c = angles.cos(), s = angles.sin(), slopes = at::randn({5, 2, 8});
  (rotate(aten_kernels(), x, c, s) * slopes).sum().backward();
  const at::Tensor turned = x.grad().clone();
  x.mutable_grad().zero_();
  const auto parts = x.chunk(2, -1);
  const at::Tensor wide_c = c.unsqueeze(1), wide_s = s.unsqueeze(1);
  (at::cat({parts[0] * wide_c - parts[1] * wide_s, parts[1] * wide_c + parts[0] * wide_s}, -1) * slopes)
      .sum()
      .backward();
  EXPECT_LT(largest_difference(turned, x.grad()), 1e-6);
}

TEST(TokenKernels, AddAndNormWithTheGradientsOfPlainOperations) {
  for (const bool with_delta : {true, false}) {
    const at::Tensor x = at::randn({5, 8}).requires_grad_(true),
                     delta = at::randn({5, 8}).requires_grad_(true);
    const at::Tensor weight = at::randn({8}).requires_grad_(true);
    const at::Tensor of_sum = at::randn({5, 8}), of_norm = at::randn({5, 8});
    const auto gradients = [&](const at::Tensor& sum, const at::Tensor& normed) {
      ((sum * of_sum).sum() + (normed * of_norm).sum()).backward();
      std::vector<at::Tensor> made;
      for (const at::Tensor& leaf : {x, weight, delta}) {
        if (!leaf.grad().defined()) continue;
        made.push_back(leaf.grad().clone());
        leaf.mutable_grad().zero_();
      }
      return made;
    };
    const auto [sum, normed] =
        add_norm(aten_kernels(), x, with_delta ? delta : at::Tensor(), weight, 1e-5, at::kFloat);
    const auto own = gradients(sum, normed);
    const at::Tensor plain_sum = with_delta ? x + delta : x * 1;
    const at::Tensor plain = plain_sum * at::rsqrt(plain_sum.square().mean(-1, true) + 1e-5) * weight;
    EXPECT_LT(largest_difference(normed, plain), 1e-5);
    const auto reference = gradients(plain_sum, plain);
    ASSERT_EQ(own.size(), reference.size());
    for (std::size_t i = 0; i < own.size(); ++i)
      EXPECT_LT(largest_difference(own[i], reference[i]), 1e-5) << i;
  }
}

/// 700 rows of 49,152 logits are more than are kept at a time.
TEST(TokenLogProbs, EqualLogSoftmaxWithItsGradients) {
  constexpr std::int64_t kRows = 700, kVocab = 49152, kWidth = 8;
  const at::Tensor targets = at::randint(kVocab, {kRows}, at::kLong);
  const at::Tensor slopes = at::randn({kRows});
  const at::Tensor hidden = at::randn({kRows, kWidth}).requires_grad_(true);
  const at::Tensor head = at::randn({kVocab, kWidth}).requires_grad_(true);
  const at::Tensor own = token_log_probs(aten_kernels(), hidden, head, targets);
  (own * slopes).sum().backward();
  const at::Tensor hidden_grad = hidden.grad().clone(), head_grad = head.grad().clone();
  hidden.mutable_grad().zero_();
  head.mutable_grad().zero_();
  const at::Tensor reference =
      at::log_softmax(at::linear(hidden, head), 1).gather(1, targets.unsqueeze(1)).squeeze(1);
  EXPECT_LT(largest_difference(own, reference), 1e-4);
  (reference * slopes).sum().backward();
  EXPECT_LT(largest_difference(hidden_grad, hidden.grad()), 1e-4);
  EXPECT_LT(largest_difference(head_grad, head.grad()), 1e-4);
}

/// Of bf16 numbers: 700 rows of fp32 logits are more than are kept at a time.
TEST(TokenLogProbs, InF32AreNotRoundedBehindTheirProducts) {
  constexpr std::int64_t kRows = 700, kVocab = 49152, kWidth = 16;
  const at::Tensor targets = at::randint(kVocab, {kRows}, at::kLong);
  const at::Tensor slopes = at::randn({kRows});
  const at::Tensor hidden = (4 * at::randn({kRows, kWidth})).to(at::kBFloat16).requires_grad_(true);
  const at::Tensor head = at::randn({kVocab, kWidth}).to(at::kBFloat16);
  const at::Tensor wide = hidden.detach().to(at::kFloat).requires_grad_(true);
  const at::Tensor exact =
      at::log_softmax(at::linear(wide, head.to(at::kFloat)), 1).gather(1, targets.unsqueeze(1)).squeeze(1);
  (exact * slopes).sum().backward();
  const at::Tensor own = token_log_probs(aten_kernels(), hidden, head, targets, Logits::kF32);
  EXPECT_LT(largest_difference(own, exact), 1e-4);
  EXPECT_GT(largest_difference(token_log_probs(aten_kernels(), hidden, head, targets), exact), 1e-2);
  (own * slopes).sum().backward();
  const double largest = wide.grad().abs().max().item<double>();
  EXPECT_LT(largest_difference(hidden.grad().to(at::kFloat), wide.grad()), 0.01 * largest);
}

}  // namespace
}  // namespace lathe::train

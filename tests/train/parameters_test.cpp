#include "train/parameters.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/tiny.h"

namespace lathe::train {
namespace {

/// One number, as the paper has it.
struct Reference {
  double value, mean = 0, square = 0;

  void update(const AdamW& options, double gradient, double rate, int step, bool decays) {
    if (decays) value -= rate * options.weight_decay * value;
    mean = options.beta1 * mean + (1 - options.beta1) * gradient;
    square = options.beta2 * square + (1 - options.beta2) * gradient * gradient;
    const double fair_mean = mean / (1 - std::pow(options.beta1, step + 1));
    const double fair_square = square / (1 - std::pow(options.beta2, step + 1));
    value -= rate * fair_mean / (std::sqrt(fair_square) + options.epsilon);
  }
};

TEST(Parameters, AreUpdatedAsAdamWSays) {
  const AdamW options{.beta1 = 0.8, .beta2 = 0.9, .epsilon = 1e-6, .weight_decay = 0.3};
  const at::Tensor matrix = at::full({2, 2}, 0.5).requires_grad_(true);
  const at::Tensor vector = at::full({3}, -0.25).requires_grad_(true);
  Parameters parameters({{"matrix", matrix}, {"vector", vector}});
  Reference of_matrix{0.5}, of_vector{-0.25};
  for (int step = 0; step < 20; ++step) {
    const double slope = std::sin(step + 1.0);
    (matrix.sum() * slope + vector.sum() * 2 * slope).backward();
    parameters.collect_gradients();
    parameters.update(options, 0.01, step);
    of_matrix.update(options, slope, 0.01, step, true);
    of_vector.update(options, 2 * slope, 0.01, step, false);
    EXPECT_NEAR(matrix.max().item<double>(), of_matrix.value, 1e-6) << step;
    EXPECT_NEAR(vector.max().item<double>(), of_vector.value, 1e-6) << step;
  }
}

TEST(Parameters, ClipToANormAndSayTheOldOne) {
  const at::Tensor leaf = at::zeros({4}).requires_grad_(true);
  Parameters parameters({{"leaf", leaf}});
  (leaf * 3).sum().backward();
  EXPECT_NEAR(parameters.clip(0), 6, 1e-5);
  EXPECT_NEAR(parameters.clip(10), 6, 1e-5);
  EXPECT_NEAR(parameters.clip(1.5), 6, 1e-5);
  EXPECT_NEAR(parameters.clip(0), 1.5, 1e-5);
}

/// Steps of 1e-4 are below bf16's resolution at 1: without a master copy nothing would ever move.
TEST(Parameters, KeepWhatBf16CannotHold) {
  const at::Tensor leaf = at::ones({2, 2}, at::kBFloat16).requires_grad_(true);
  Parameters parameters({{"leaf", leaf}});
  for (int step = 0; step < 100; ++step) {
    leaf.sum().backward();
    parameters.collect_gradients();
    parameters.update({}, 1e-4, step);
  }
  EXPECT_NEAR(parameters.master_of(leaf).max().item<double>(), 0.99, 1e-4);
  EXPECT_NEAR(leaf.max().item<double>(), 0.99, 4e-3);
}

TEST(Parameters, GradientsOfSeveralPassesAddUp) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor leaf = at::zeros({2, 2}, type).requires_grad_(true);
    Parameters parameters({{"leaf", leaf}});
    for (int pass = 0; pass < 3; ++pass) {
      leaf.sum().backward();
      parameters.collect_gradients();
    }
    EXPECT_EQ(parameters.gradients()[0].max().item<float>(), 3);
  }
}

}  // namespace
}  // namespace lathe::train

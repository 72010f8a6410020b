#include "train/gpu.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "tests/train/tiny.h"
#include "train/learner.h"
#include "train/to_tensor.h"

namespace lathe::train {
namespace {

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    const auto loaded = load_gpu();
    if (!loaded.ok()) GTEST_SKIP() << loaded.error().to_string();
    kernels = *loaded;
  }
  const TokenKernels* kernels = nullptr;
};

double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor wide_a = a.to(at::kCPU, at::kFloat), wide_b = b.to(at::kCPU, at::kFloat);
  return ((wide_a - wide_b).norm() / wide_b.norm()).item<double>();
}

at::Tensor drawn(at::IntArrayRef shape, at::ScalarType type = at::kBFloat16) {
  return at::randn(shape).to(at::kCUDA, type);
}

/// bf16 keeps 8 bits; both round once or twice on the way.
constexpr double kNoise = 6e-3;

TEST_F(Gpu, KernelsComputeWhatAtenDoes) {
  const TokenKernels& plain = aten_kernels();
  const at::Tensor gate_up = drawn({257, 2 * 144}), slopes = drawn({257, 144});
  EXPECT_LT(relative_difference(kernels->gate(gate_up), plain.gate(gate_up.to(at::kFloat))), kNoise);
  EXPECT_LT(relative_difference(kernels->gate_backward(slopes, gate_up),
                                plain.gate_backward(slopes.to(at::kFloat), gate_up.to(at::kFloat))),
            kNoise);

  const at::Tensor wide = drawn({65, 5, 64}), from = wide.narrow(1, 1, 3);
  const at::Tensor angles = drawn({65, 32}, at::kFloat), c = angles.cos(), s = angles.sin();
  const at::Tensor own = at::empty({65, 3, 64}, wide.options()), other = at::empty_like(own);
  for (const bool back : {false, true}) {
    kernels->rotate(from, c, s, back, own);
    plain.rotate(from, c, s, back, other);
    EXPECT_LT(relative_difference(own, other), kNoise);
  }

  const at::Tensor weight = drawn({576}, at::kFloat), x = drawn({333, 576}, at::kFloat);
  const at::Tensor grad_sum = drawn({333, 576}, at::kFloat), grad_normed = drawn({333, 576});
  for (const bool with_delta : {true, false}) {
    const at::Tensor delta = with_delta ? drawn({333, 576}) : at::Tensor();
    const auto a = kernels->add_norm(x, delta, weight, 1e-5, at::kBFloat16);
    const auto b = plain.add_norm(x, delta, weight, 1e-5, at::kBFloat16);
    EXPECT_LT(relative_difference(a.sum, b.sum), 1e-6);
    EXPECT_LT(relative_difference(a.normed, b.normed), kNoise);
    EXPECT_LT(relative_difference(a.inverse_rms, b.inverse_rms), 1e-5);
    const auto type = with_delta ? at::kBFloat16 : at::ScalarType::Undefined;
    const at::Tensor residual = with_delta ? grad_sum : at::Tensor();
    const auto ga = kernels->add_norm_backward(residual, grad_normed, weight, b, type);
    const auto gb = plain.add_norm_backward(residual, grad_normed, weight, b, type);
    EXPECT_LT(relative_difference(ga.x, gb.x), 1e-5);
    EXPECT_LT(relative_difference(ga.weight, gb.weight), 1e-5);
    if (with_delta) {
      EXPECT_LT(relative_difference(ga.delta, gb.delta), kNoise);
    }
  }

  const at::Tensor logits = drawn({33, 1000}) * 3, targets = at::randint(1000, {33}, at::kLong).to(at::kCUDA);
  const at::Tensor grads = drawn({33}, at::kFloat);
  const auto [log_probs, masses] = kernels->log_probs(logits, targets);
  const auto [plain_log_probs, plain_masses] = plain.log_probs(logits, targets);
  EXPECT_LT(relative_difference(log_probs, plain_log_probs), 1e-5);
  EXPECT_LT(relative_difference(masses, plain_masses), 1e-5);
  const at::Tensor slope = plain.log_probs_backward(logits, targets, masses, grads);
  EXPECT_LT(relative_difference(kernels->log_probs_backward(logits.clone(), targets, masses, grads), slope),
            kNoise);
}

/// The same random weights in fp32 on the CPU and in bf16 on the GPU: packed examples of many
/// lengths.
void expect_equal_gradients(const ModelConfig& config, const std::optional<LowRankOptions>& adapter,
                            const TokenKernels& kernels) {
  Dataset data;
  Rng rng(Seed::from_number(5));
  for (int i = 0; i < 7; ++i) data.examples.push_back(random_example(rng, 3 + 11 * i, 5 + 23 * i));
  const Batch batch = make_batch(data.examples, std::vector<Row>{{3, 0, 6}, {1, 5, 2, 4}});
  const auto trained = [&](at::Device device, lm::Precision precision) {
    Learner learner =
        Learner::create(lm::Decoder::random(config, {.precision = precision, .device = device}, 3), adapter,
                        1)
            .value();
    if (device.is_cuda()) learner.use(kernels);
    const at::Tensor log_probs = learner.scorer().log_probs(batch, std::nullopt);
    learner.backward(-log_probs.mean());
    std::vector<at::Tensor> numbers = learner.parameters().gradients();
    numbers.insert(numbers.begin(), log_probs.detach());
    return numbers;
  };
  auto cpu = trained(at::kCPU, lm::Precision::kF32);
  const auto gpu = trained(at::Device(at::kCUDA, 0), lm::Precision::kBF16);
  EXPECT_LT(relative_difference(gpu[0], cpu[0]), 2e-3);
  // Matrices and vectors: blocks in the same order, in whatever dtype.
  ASSERT_EQ(gpu.size(), cpu.size());
  for (std::size_t i = 1; i < gpu.size(); ++i) EXPECT_LT(relative_difference(gpu[i], cpu[i]), 4e-2) << i;
}

TEST_F(Gpu, GradientsAreTheProcessors) {
  ModelConfig config = tiny_config();
  config.hidden = 128, config.heads = 6, config.kv_heads = 2, config.head_dim = 64, config.ffn = 192;
  for (const bool qk_norm : {false, true}) {
    config.qk_norm = qk_norm;
    expect_equal_gradients(config, std::nullopt, *kernels);
  }
}

}  // namespace
}  // namespace lathe::train

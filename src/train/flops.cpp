#include "train/flops.h"

namespace lathe::train {

double training_flops(const ModelConfig& config, const Batch& batch) {
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const double q = real(config.heads * config.head_dim), kv = real(config.kv_heads * config.head_dim);
  const double hidden = real(config.hidden);
  const double weights = hidden * (2 * q + 2 * kv + 3 * real(config.ffn));
  double pairs = 0;
  for (std::size_t i = 0; i + 1 < batch.bounds.size(); ++i) {
    const double length = batch.bounds[i + 1] - batch.bounds[i];
    pairs += length * (length + 1) / 2;
  }
  const double layer = 2 * weights * static_cast<double>(batch.tokens.size()) + 4 * q * pairs;
  const double head = 2 * hidden * real(config.vocab) * static_cast<double>(batch.targets.size());
  return 3 * (real(config.layers) * layer + head);
}

}  // namespace lathe::train

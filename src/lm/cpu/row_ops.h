#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lm/decoder.h"
#include "lm/layer_ops.h"
#include "lm/pages.h"

namespace lathe::lm {

/// The keys and values of all layers on a CPU, fp32. A page's keys lie dimension by dimension, so
/// that the scores of its tokens are computed side by side.
struct CpuCache {
  CpuCache(const ModelConfig& config, std::int32_t pages);
  void copy_page(std::int32_t from, std::int32_t to);

  std::vector<at::Tensor> keys;    ///< a layer: [pages, kv_heads, head_dim, kPageTokens]
  std::vector<at::Tensor> values;  ///< a layer: [pages, kv_heads, kPageTokens, head_dim]
};

/// A token and its sequence: the cache holds what stands before `position`, its own key and value
/// are added.
struct CpuRow {
  std::int32_t position = 0;
  std::span<const std::int32_t> pages;
};

/// Operations of rows that stand anywhere in their sequences: rows of one sequence may be in one
/// call, in order. Activations are fp32.
class CpuRowOps final : public LayerOps {
 public:
  CpuRowOps(const Decoder& decoder, CpuCache& cache, std::int64_t context);
  /// Of the next calls. The rows must outlive them.
  void set_rows(std::span<const CpuRow> rows) { rows_ = rows; }

  at::Tensor linear(const at::Tensor& x, const Linear& matrix) override;
  at::Tensor logits(const at::Tensor& x, const Linear& matrix) override;
  std::pair<at::Tensor, at::Tensor> add_norm(const at::Tensor& x, const at::Tensor& delta,
                                             const at::Tensor& weight) override;
  at::Tensor attend(const at::Tensor& qkv, const LayerWeights& layer, std::size_t index) override;
  at::Tensor gate(const at::Tensor& gate_up) override;

 private:
  const ModelConfig& config_;
  CpuCache& cache_;
  at::Tensor cosine_, sine_;
  std::span<const CpuRow> rows_;
};

}  // namespace lathe::lm

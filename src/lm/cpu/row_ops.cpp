#include "lm/cpu/row_ops.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/function_versions.h"
#include "lm/cpu/packed_matrix.h"
#include "lm/cpu/vector_math.h"

namespace lathe::lm {
namespace {

constexpr std::int64_t kGrainBytes = 1 << 14;  ///< less is not worth another thread

LATHE_VERSIONS void norm_row(const float* x, const float* weight, std::int64_t count, float eps, float* to) {
  constexpr std::int64_t kLanes = 16;
  float sums[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::int64_t j = 0; j < kLanes; ++j) sums[j] += x[i + j] * x[i + j];
  float sum = 0;
  for (const float lane : sums) sum += lane;
  for (; i < count; ++i) sum += x[i] * x[i];
  const float scale = 1.0F / std::sqrt(sum / static_cast<float>(count) + eps);
  for (i = 0; i < count; ++i) to[i] = x[i] * scale * weight[i];
}

LATHE_VERSIONS void add_row(const float* x, const float* delta, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = x[i] + delta[i];
}

LATHE_VERSIONS void gate_row(const float* gate, const float* up, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = silu(gate[i]) * up[i];
}

LATHE_VERSIONS void rotate(const float* x, const float* cosine, const float* sine, std::int64_t half,
                           float* to) {
  for (std::int64_t i = 0; i < half; ++i) {
    const float a = x[i], b = x[i + half];
    to[i] = a * cosine[i] - b * sine[i];
    to[i + half] = b * cosine[i] + a * sine[i];
  }
}

/// Sixteen floats that need not be aligned.
using Block __attribute__((vector_size(64), aligned(4), may_alias)) = float;
constexpr std::int64_t kBlock = 16;
static_assert(kPageTokens == 2 * kBlock);

inline const Block& at_block(const float* from) { return *reinterpret_cast<const Block*>(from); }
inline Block& at_block(float* to) { return *reinterpret_cast<Block*>(to); }

/// One head's query against a page's keys.
template <std::int64_t kDim>
[[gnu::always_inline]] inline void page_scores(const float* query, const float* keys, std::int64_t dim,
                                               float* scores) {
  Block low{}, high{};
  const std::int64_t extent = kDim ? kDim : dim;
  for (std::int64_t d = 0; d < extent; ++d, keys += kPageTokens) {
    low += query[d] * at_block(keys);
    high += query[d] * at_block(keys + kBlock);
  }
  at_block(scores) = low;
  at_block(scores + kBlock) = high;
}

/// sums = sums * shrink + weights values, [dim].
template <std::int64_t kDim>
[[gnu::always_inline]] inline void add_values(const float* weights, const float* values, std::int64_t tokens,
                                              std::int64_t dim, float shrink, float* sums) {
  if constexpr (kDim > 0) {
    Block total[kDim / kBlock];
    for (std::int64_t b = 0; b < kDim / kBlock; ++b) total[b] = at_block(sums + b * kBlock) * shrink;
    for (std::int64_t token = 0; token < tokens; ++token, values += kDim)
      for (std::int64_t b = 0; b < kDim / kBlock; ++b)
        total[b] += weights[token] * at_block(values + b * kBlock);
    for (std::int64_t b = 0; b < kDim / kBlock; ++b) at_block(sums + b * kBlock) = total[b];
  } else {
    for (std::int64_t d = 0; d < dim; ++d) sums[d] *= shrink;
    for (std::int64_t token = 0; token < tokens; ++token, values += dim)
      for (std::int64_t d = 0; d < dim; ++d) sums[d] += weights[token] * values[d];
  }
}

/// The queries of one row that share a key-value head.
struct HeadGroup {
  const float* queries;  ///< [count, dim], scaled
  std::int64_t count, dim;
  std::span<const std::int32_t> pages;
  std::int64_t tokens;
  const float* keys;  ///< page 0's, of this head
  const float* values;
  std::int64_t page_stride;
  float* to;  ///< [count, dim]
};

template <std::int64_t kDim>
[[gnu::always_inline]] inline void attend_group_of(const HeadGroup& group) {
  for (std::int64_t head = 0; head < group.count; ++head) {
    float* const sums = group.to + head * group.dim;
    std::fill_n(sums, group.dim, 0.0F);
    float most = -std::numeric_limits<float>::infinity(), mass = 0;
    for (std::int64_t first = 0; first < group.tokens; first += kPageTokens) {
      const std::int64_t page =
          group.pages[static_cast<std::size_t>(first / kPageTokens)] * group.page_stride;
      const std::int64_t tokens = std::min<std::int64_t>(kPageTokens, group.tokens - first);
      float scores[kPageTokens];
      page_scores<kDim>(group.queries + head * group.dim, group.keys + page, group.dim, scores);
      // Scores of tokens to come are of memory that holds anything.
      for (std::int64_t i = tokens; i < kPageTokens; ++i) scores[i] = -std::numeric_limits<float>::infinity();
      float page_most = most;
      for (std::int64_t i = 0; i < kPageTokens; ++i) page_most = std::max(page_most, scores[i]);
      const float shrink = exp_of_negative(most - page_most);
      most = page_most;
      for (std::int64_t i = 0; i < kPageTokens; ++i) scores[i] = exp_of_negative(scores[i] - most);
      mass *= shrink;
      for (std::int64_t i = 0; i < tokens; ++i) mass += scores[i];
      add_values<kDim>(scores, group.values + page, tokens, group.dim, shrink, sums);
    }
    const float scale = 1.0F / mass;
    for (std::int64_t d = 0; d < group.dim; ++d) sums[d] *= scale;
  }
}

LATHE_VERSIONS void attend_group(const HeadGroup& group) {
  switch (group.dim) {
    case 64:
      return attend_group_of<64>(group);
    case 128:
      return attend_group_of<128>(group);
    default:
      return attend_group_of<0>(group);
  }
}

template <class Each>
void for_rows(std::int64_t rows, std::int64_t row_bytes, Each each) {
  at::parallel_for(0, rows, std::max<std::int64_t>(1, kGrainBytes / row_bytes),
                   [&](std::int64_t first, std::int64_t last) {
                     for (std::int64_t row = first; row < last; ++row) each(row);
                   });
}

}  // namespace

CpuCache::CpuCache(const ModelConfig& config, std::int32_t pages) {
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    keys.push_back(at::empty({pages, config.kv_heads, config.head_dim, kPageTokens}, at::kFloat));
    values.push_back(at::empty({pages, config.kv_heads, kPageTokens, config.head_dim}, at::kFloat));
  }
}

void CpuCache::copy_page(std::int32_t from, std::int32_t to) {
  for (auto* side : {&keys, &values})
    for (at::Tensor& layer : *side) {
      const std::int64_t page = layer.stride(0);
      float* const data = layer.mutable_data_ptr<float>();
      std::memcpy(data + to * page, data + from * page, static_cast<std::size_t>(page) * sizeof(float));
    }
}

CpuRowOps::CpuRowOps(const Decoder& decoder, CpuCache& cache, std::int64_t context)
    : config_(decoder.config()), cache_(cache) {
  std::tie(cosine_, sine_) = decoder.rotary_tables(context);
}

at::Tensor CpuRowOps::linear(const at::Tensor& x, const Linear& matrix) {
  if (matrix.packed) return matrix.packed->multiply(x, matrix.bias);
  const at::ScalarType type = matrix.weight.scalar_type();
  return at::linear(x.to(type), matrix.weight, matrix.bias.defined() ? matrix.bias.to(type) : matrix.bias)
      .to(at::kFloat);
}

at::Tensor CpuRowOps::logits(const at::Tensor& x, const Linear& matrix) { return linear(x, matrix); }

std::pair<at::Tensor, at::Tensor> CpuRowOps::add_norm(const at::Tensor& x, const at::Tensor& delta,
                                                      const at::Tensor& weight) {
  const std::int64_t rows = x.size(0), count = x.size(1);
  at::Tensor sum = x.contiguous(), normed = at::empty_like(sum);
  float* const sums = sum.mutable_data_ptr<float>();
  float* const to = normed.mutable_data_ptr<float>();
  const float* const deltas = delta.defined() ? delta.const_data_ptr<float>() : nullptr;
  const float* const weights = weight.const_data_ptr<float>();
  for_rows(rows, count * 8, [&](std::int64_t row) {
    float* const own = sums + row * count;
    if (deltas) add_row(own, deltas + row * count, count, own);
    norm_row(own, weights, count, static_cast<float>(config_.rms_eps), to + row * count);
  });
  return {sum, normed};
}

at::Tensor CpuRowOps::attend(const at::Tensor& qkv, const LayerWeights& layer, std::size_t index) {
  const std::int64_t heads = config_.heads, kv_heads = config_.kv_heads, dim = config_.head_dim;
  const std::int64_t half = dim / 2, width = (heads + 2 * kv_heads) * dim, group = heads / kv_heads;
  const std::int64_t rows = qkv.size(0), page_stride = kv_heads * dim * kPageTokens;
  const float* const source = qkv.const_data_ptr<float>();
  const float* const cosine = cosine_.const_data_ptr<float>();
  const float* const sine = sine_.const_data_ptr<float>();
  const float* const q_norm = layer.q_norm.defined() ? layer.q_norm.const_data_ptr<float>() : nullptr;
  const float* const k_norm = layer.k_norm.defined() ? layer.k_norm.const_data_ptr<float>() : nullptr;
  float* const keys = cache_.keys[index].mutable_data_ptr<float>();
  float* const values = cache_.values[index].mutable_data_ptr<float>();
  const float eps = static_cast<float>(config_.rms_eps);
  const float scale = 1.0F / std::sqrt(static_cast<float>(dim));
  at::Tensor queries = at::empty({rows, heads, dim}, at::kFloat);
  float* const rotated = queries.mutable_data_ptr<float>();

  for_rows(rows, width * 8, [&](std::int64_t r) {
    const CpuRow& row = rows_[static_cast<std::size_t>(r)];
    const float* const from = source + r * width;
    const float* const c = cosine + row.position * half;
    const float* const s = sine + row.position * half;
    const std::int64_t page = row.pages[static_cast<std::size_t>(row.position / kPageTokens)];
    const std::int64_t slot = row.position % kPageTokens;
    std::vector<float> normed(static_cast<std::size_t>(dim)), key(static_cast<std::size_t>(dim));
    for (std::int64_t head = 0; head < heads + kv_heads; ++head) {
      const float* x = from + head * dim;
      if (const float* const weight = head < heads ? q_norm : k_norm) {
        norm_row(x, weight, dim, eps, normed.data());
        x = normed.data();
      }
      if (head < heads) {
        float* const to = rotated + (r * heads + head) * dim;
        rotate(x, c, s, half, to);
        for (std::int64_t d = 0; d < dim; ++d) to[d] *= scale;
      } else {
        rotate(x, c, s, half, key.data());
        float* const to = keys + page * page_stride + (head - heads) * dim * kPageTokens + slot;
        for (std::int64_t d = 0; d < dim; ++d) to[d * kPageTokens] = key[static_cast<std::size_t>(d)];
      }
    }
    for (std::int64_t head = 0; head < kv_heads; ++head)
      std::copy_n(from + (heads + kv_heads + head) * dim, dim,
                  values + page * page_stride + (head * kPageTokens + slot) * dim);
  });

  at::Tensor out = at::empty({rows, heads * dim}, at::kFloat);
  float* const to = out.mutable_data_ptr<float>();
  at::parallel_for(0, rows * kv_heads, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t item = first; item < last; ++item) {
      const std::int64_t r = item / kv_heads, head = item % kv_heads;
      const CpuRow& row = rows_[static_cast<std::size_t>(r)];
      attend_group({.queries = rotated + (r * heads + head * group) * dim,
                    .count = group,
                    .dim = dim,
                    .pages = row.pages,
                    .tokens = row.position + 1,
                    .keys = keys + head * dim * kPageTokens,
                    .values = values + head * dim * kPageTokens,
                    .page_stride = page_stride,
                    .to = to + (r * heads + head * group) * dim});
    }
  });
  return out;
}

at::Tensor CpuRowOps::gate(const at::Tensor& gate_up) {
  const std::int64_t rows = gate_up.size(0), count = gate_up.size(1) / 2;
  at::Tensor out = at::empty({rows, count}, at::kFloat);
  const float* const from = gate_up.const_data_ptr<float>();
  float* const to = out.mutable_data_ptr<float>();
  for_rows(rows, count * 12, [&](std::int64_t row) {
    gate_row(from + 2 * row * count, from + (2 * row + 1) * count, count, to + row * count);
  });
  return out;
}

}  // namespace lathe::lm

#pragma once

#include <cstdint>

struct CUstream_st;

/// The engine's own kernels, without LibTorch: activations are bf16 (`bf16` points to 16-bit
/// words), the residual stream and norms' weights fp32. All launches are asynchronous on `stream`
/// and may be captured in a graph.
namespace lathe::lm::cuda {

using Bf16 = std::uint16_t;

struct Shape {
  int heads = 0, kv_heads = 0, dim = 0;
  float eps = 0;
};

/// Whether attend() has a kernel for it.
bool supports(const Shape& shape);

/// x += delta (which may be null), to = norm(x) * weight; [rows, count].
void add_norm(float* x, const Bf16* delta, const float* weight, Bf16* to, int rows, int count, float eps,
              CUstream_st* stream);

/// silu(gate) * up: from [rows, 2 * count] to [rows, count].
void gate(const Bf16* from, Bf16* to, int rows, int count, CUstream_st* stream);

/// Keys or values of one layer: [pages, kv_heads, kPageTokens, dim]. Row r is at positions[r] of
/// the sequence whose pages begin at table + r * table_stride.
struct CacheView {
  Bf16* keys = nullptr;
  Bf16* values = nullptr;
  const std::int32_t* positions = nullptr;
  const std::int32_t* table = nullptr;
  int table_stride = 0;
};

/// Norms (where not null) and rotates q and k of qkv [rows, heads + 2 kv_heads, dim]; q goes to
/// `queries` [rows, heads, dim], k and v to the cache.
struct Rotation {
  const Bf16* qkv = nullptr;
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
  const float* cosine = nullptr;  ///< [context, dim / 2]
  const float* sine = nullptr;
  Bf16* queries = nullptr;
};
void rotate_and_store(const Rotation& rotation, const CacheView& cache, const Shape& shape, int rows,
                      CUstream_st* stream);

/// Attention of each row to its sequence up to and with its own position; `to` is [rows, heads,
/// dim].
void attend(const Bf16* queries, const CacheView& cache, Bf16* to, const Shape& shape, int rows,
            CUstream_st* stream);

struct GrammarArrow {
  std::int32_t token, to;
};
struct GrammarState {
  std::int32_t first, count, otherwise;
};

/// How a row of the batch draws.
struct DrawRow {
  std::uint64_t seed = 0, stream = 0, counter = 0;
  const GrammarState* states = nullptr;  ///< null: no grammar
  const GrammarArrow* arrows = nullptr;
  std::int32_t state = 0;
  std::int32_t active = 0;
  float temperature = 1, top_p = 1;
  std::int32_t top_k = 0;
  std::int32_t unused = 0;
};

struct DrawnToken {
  std::int32_t token;
  float log_prob, model_log_prob;
};

/// Draws a token for each active row from logits [rows, vocab] as cpu/draw does, makes it the row's
/// next token and moves the row on.
void draw(const float* logits, int vocab, DrawRow* rows, std::int32_t* tokens, std::int32_t* positions,
          DrawnToken* drawn, int count, CUstream_st* stream);

}  // namespace lathe::lm::cuda

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "lm/cuda/kernels.h"
#include "lm/random_stream.h"

namespace lathe::lm::cuda {
namespace {

constexpr int kPageTokens = 32;  // lm/pages.h
constexpr int kWarp = 32;
constexpr unsigned kAll = 0xffffffffu;

__device__ float to_float(Bf16 value) { return __uint_as_float(static_cast<unsigned>(value) << 16); }
__device__ Bf16 to_bf16(float value) { return __bfloat16_as_ushort(__float2bfloat16_rn(value)); }

__device__ float warp_sum(float value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(kAll, value, offset);
  return value;
}

/// 8 bf16 of 16 bytes.
__device__ void unpack(const uint4& packed, float (&values)[8]) {
  const unsigned words[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[2 * i] = __uint_as_float(words[i] << 16);
    values[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
}

constexpr int kNormThreads = 128;

__global__ void __launch_bounds__(kNormThreads)
    add_norm_kernel(float* x, const Bf16* delta, const float* weight, Bf16* to, int count, float eps) {
  __shared__ float sums[kNormThreads / kWarp];
  const long long row = static_cast<long long>(blockIdx.x) * count;
  float sum = 0;
  for (int i = threadIdx.x; i < count; i += kNormThreads) {
    float value = x[row + i];
    if (delta) x[row + i] = value += to_float(delta[row + i]);
    sum += value * value;
  }
  sum = warp_sum(sum);
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = sum;
  __syncthreads();
  sum = 0;
  for (int warp = 0; warp < kNormThreads / kWarp; ++warp) sum += sums[warp];
  const float scale = rsqrtf(sum / count + eps);
  for (int i = threadIdx.x; i < count; i += kNormThreads)
    to[row + i] = to_bf16(x[row + i] * scale * weight[i]);
}

__global__ void gate_kernel(const Bf16* from, Bf16* to, int count) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (column >= count) return;
  const long long row = blockIdx.y;
  const float gate = to_float(from[2 * row * count + column]);
  const float up = to_float(from[(2 * row + 1) * count + column]);
  to[row * count + column] = to_bf16(gate / (1 + expf(-gate)) * up);
}

/// A warp for each head of each row.
__global__ void rotate_kernel(Rotation rotation, CacheView cache, Shape shape, int items) {
  const int item = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / kWarp);
  const int lane = threadIdx.x % kWarp;
  if (item >= items) return;
  const int width = shape.heads + 2 * shape.kv_heads;
  const int row = item / width, head = item % width, half = shape.dim / 2;
  const Bf16* from = rotation.qkv + static_cast<long long>(item) * shape.dim;
  const int position = cache.positions[row];
  const long long page =
      cache.table[static_cast<long long>(row) * cache.table_stride + position / kPageTokens];
  const auto place = [&](int kv_head) {
    return ((page * shape.kv_heads + kv_head) * kPageTokens + position % kPageTokens) * shape.dim;
  };
  if (head >= shape.heads + shape.kv_heads) {
    Bf16* to = cache.values + place(head - shape.heads - shape.kv_heads);
    for (int i = lane; i < shape.dim; i += kWarp) to[i] = from[i];
    return;
  }
  const bool is_query = head < shape.heads;
  const float* norm = is_query ? rotation.q_norm : rotation.k_norm;
  float scale = 1;
  if (norm) {
    float sum = 0;
    for (int i = lane; i < shape.dim; i += kWarp) sum += to_float(from[i]) * to_float(from[i]);
    scale = rsqrtf(warp_sum(sum) / shape.dim + shape.eps);
  }
  Bf16* to = is_query ? rotation.queries + (static_cast<long long>(row) * shape.heads + head) * shape.dim
                      : cache.keys + place(head - shape.heads);
  const float* cosine = rotation.cosine + static_cast<long long>(position) * half;
  const float* sine = rotation.sine + static_cast<long long>(position) * half;
  for (int i = lane; i < half; i += kWarp) {
    float a = to_float(from[i]), b = to_float(from[i + half]);
    if (norm) {
      a *= scale * norm[i];
      b *= scale * norm[i + half];
    }
    to[i] = to_bf16(a * cosine[i] - b * sine[i]);
    to[i + half] = to_bf16(b * cosine[i] + a * sine[i]);
  }
}

constexpr float kLowest = -1e30f;

/// Running softmax of some queries over some tokens: of 8 dimensions in each lane.
template <int kGroup>
struct Partial {
  float most[kGroup], mass[kGroup], sums[kGroup][8];

  __device__ void merge(float other_most, float other_mass, const float (&other_sums)[8], int g) {
    const float joint = fmaxf(most[g], other_most);
    const float own = exp2f(most[g] - joint), others = exp2f(other_most - joint);
    mass[g] = mass[g] * own + other_mass * others;
#pragma unroll
    for (int d = 0; d < 8; ++d) sums[g][d] = sums[g][d] * own + other_sums[d] * others;
    most[g] = joint;
  }
};

/// A block for each row and each kGroup heads that share a key-value head; its warps take pages in
/// turn. A token's key or value is read by kDim / 8 lanes, 16 bytes each, so a warp reads several
/// tokens at once and each such group of lanes keeps a softmax of its own until the end.
template <int kDim, int kGroup>
__global__ void attend_kernel(const Bf16* queries, CacheView cache, Bf16* to, Shape shape, float scale) {
  constexpr int kLanes = kDim / 8;
  constexpr int kTokens = kWarp / kLanes;  // read at once by a warp
  constexpr int kAtOnce = 4;               // such reads under way
  extern __shared__ float shared[];
  const int row = blockIdx.y, warps = blockDim.x / kWarp, warp = threadIdx.x / kWarp,
            lane = threadIdx.x % kWarp;
  const int first_head = blockIdx.x * kGroup;
  const int kv_head = first_head / (shape.heads / shape.kv_heads);
  const int tokens = cache.positions[row] + 1;
  const int part = lane % kLanes, token_of_lane = lane / kLanes;
  const std::int32_t* table = cache.table + static_cast<long long>(row) * cache.table_stride;

  float query[kGroup][8];
  Partial<kGroup> partial;
#pragma unroll
  for (int g = 0; g < kGroup; ++g) {
    const Bf16* from = queries + (static_cast<long long>(row) * shape.heads + first_head + g) * kDim;
    unpack(reinterpret_cast<const uint4*>(from)[part], query[g]);
    partial.most[g] = kLowest;
    partial.mass[g] = 0;
#pragma unroll
    for (int d = 0; d < 8; ++d) {
      query[g][d] *= scale;
      partial.sums[g][d] = 0;
    }
  }

  for (int page = warp; page * kPageTokens < tokens; page += warps) {
    const long long base =
        (static_cast<long long>(table[page]) * shape.kv_heads + kv_head) * kPageTokens * kDim;
    const uint4* keys = reinterpret_cast<const uint4*>(cache.keys + base);
    const uint4* values = reinterpret_cast<const uint4*>(cache.values + base);
    const int left = tokens - page * kPageTokens;
#pragma unroll 1
    for (int first = 0; first < kPageTokens && first < left; first += kAtOnce * kTokens) {
      uint4 key[kAtOnce], value[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) key[i] = keys[(first + i * kTokens + token_of_lane) * kLanes + part];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        value[i] = values[(first + i * kTokens + token_of_lane) * kLanes + part];
      float weight[kGroup][kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        float wide[8];
        unpack(key[i], wide);
        const bool exists = first + i * kTokens + token_of_lane < left;
#pragma unroll
        for (int g = 0; g < kGroup; ++g) {
          float score = 0;
#pragma unroll
          for (int d = 0; d < 8; ++d) score += query[g][d] * wide[d];
#pragma unroll
          for (int offset = kLanes / 2; offset > 0; offset /= 2)
            score += __shfl_xor_sync(kAll, score, offset);
          weight[g][i] = exists ? score : kLowest;
        }
      }
#pragma unroll
      for (int g = 0; g < kGroup; ++g) {
        float most = partial.most[g];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) most = fmaxf(most, weight[g][i]);
        const float shrink = exp2f(partial.most[g] - most);
        partial.most[g] = most;
        partial.mass[g] *= shrink;
#pragma unroll
        for (int d = 0; d < 8; ++d) partial.sums[g][d] *= shrink;
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          // A group of lanes that has met no token yet has kLowest as its maximum too.
          weight[g][i] = weight[g][i] > kLowest ? exp2f(weight[g][i] - most) : 0;
          partial.mass[g] += weight[g][i];
        }
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        float wide[8];
        unpack(value[i], wide);
#pragma unroll
        for (int g = 0; g < kGroup; ++g)
#pragma unroll
          for (int d = 0; d < 8; ++d) partial.sums[g][d] += weight[g][i] * wide[d];
      }
    }
  }

  // The groups of lanes of a warp, then the warps.
#pragma unroll
  for (int offset = kLanes; offset < kWarp; offset *= 2) {
#pragma unroll
    for (int g = 0; g < kGroup; ++g) {
      float sums[8];
#pragma unroll
      for (int d = 0; d < 8; ++d) sums[d] = __shfl_xor_sync(kAll, partial.sums[g][d], offset);
      const float most = __shfl_xor_sync(kAll, partial.most[g], offset);
      const float mass = __shfl_xor_sync(kAll, partial.mass[g], offset);
      partial.merge(most, mass, sums, g);
    }
  }
  float* const all_sums = shared;                          // [warps, kGroup, kDim]
  float* const all_most = shared + warps * kGroup * kDim;  // [warps, kGroup]
  float* const all_mass = all_most + warps * kGroup;
  if (token_of_lane == 0) {
#pragma unroll
    for (int g = 0; g < kGroup; ++g) {
#pragma unroll
      for (int d = 0; d < 8; ++d) all_sums[(warp * kGroup + g) * kDim + part * 8 + d] = partial.sums[g][d];
      if (part == 0) {
        all_most[warp * kGroup + g] = partial.most[g];
        all_mass[warp * kGroup + g] = partial.mass[g];
      }
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kGroup * kDim; i += blockDim.x) {
    const int g = i / kDim;
    float most = kLowest;
    for (int w = 0; w < warps; ++w) most = fmaxf(most, all_most[w * kGroup + g]);
    float sum = 0, mass = 0;
    for (int w = 0; w < warps; ++w) {
      const float share = exp2f(all_most[w * kGroup + g] - most);
      sum += share * all_sums[w * kGroup * kDim + i];
      mass += share * all_mass[w * kGroup + g];
    }
    to[(static_cast<long long>(row) * shape.heads + first_head) * kDim + i] = to_bf16(sum / mass);
  }
}

using AttendKernel = void (*)(const Bf16*, CacheView, Bf16*, Shape, float);

template <int kDim>
AttendKernel attend_kernel_for(int group) {
  switch (group) {
    case 1:
      return attend_kernel<kDim, 1>;
    case 2:
      return attend_kernel<kDim, 2>;
    case 3:
      return attend_kernel<kDim, 3>;
    case 4:
      return attend_kernel<kDim, 4>;
    case 5:
      return attend_kernel<kDim, 5>;
    case 6:
      return attend_kernel<kDim, 6>;
    case 7:
      return attend_kernel<kDim, 7>;
    default:
      return attend_kernel<kDim, 8>;
  }
}

/// The most heads that a block takes of those that share a key-value head: all, or a divisor of
/// theirs.
int heads_of_block(const Shape& shape) {
  const int all = shape.heads / shape.kv_heads;
  int group = all < 8 ? all : 8;
  while (all % group != 0) --group;
  return group;
}

constexpr int kDrawThreads = 1024;
constexpr int kDrawWarps = kDrawThreads / kWarp;
static_assert(kCoarse == kDrawThreads);  // a thread for each level of a step

/// A token and how it compares: the larger value, of equal ones the lower token.
struct Best {
  float value;
  int token;
};
__device__ Best better(Best a, Best b) {
  return b.value > a.value || (b.value == a.value && b.token < a.token) ? b : a;
}

struct DrawMemory {
  unsigned long long mass[kCoarse];
  unsigned count[kCoarse];
  unsigned long long warp_mass[kDrawWarps];
  unsigned warp_count[kDrawWarps];
  float warp_sum[kDrawWarps];
  Best warp_best[kDrawWarps];
  float warp_most[kDrawWarps];
  int level;
  unsigned long long below_mass;
  unsigned below_count;
};

struct Drawing {
  const float* logits;
  int vocab;
  DrawRow row;
  float most, inverse;

  __device__ bool allows(int token) const {
    if (!row.states) return true;
    return row_next(token) >= 0;
  }
  __device__ int row_next(int token) const {
    const GrammarState here = row.states[row.state];
    int low = here.first, high = here.first + here.count;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (row.arrows[middle].token < token)
        low = middle + 1;
      else
        high = middle;
    }
    return low < here.first + here.count && row.arrows[low].token == token ? row.arrows[low].to
                                                                           : here.otherwise;
  }
  __device__ float depth(int token) const {
    const float own = (most - logits[token]) * inverse;
    return own < kDeepest && allows(token) ? own : kDeepest;
  }
};

__device__ unsigned long long mass_of(float depth) {
  return depth < kDeepest ? static_cast<unsigned long long>(expf(-depth) * kMassUnit) : 0;
}

/// What the tokens up to a level weigh. `by_count`: enough are `count` tokens; else `mass`.
struct Kept {
  int level;
  unsigned long long mass;
};

__device__ Kept cut(const Drawing& drawing, DrawMemory& memory, const Kept& before, bool by_count,
                    unsigned wanted_count, double wanted_mass) {
  const int thread = threadIdx.x, lane = thread % kWarp, warp = thread / kWarp;
  int base = 0;
  unsigned long long below_mass = 0;
  unsigned below_count = 0;
  for (int step = 0; step < 2; ++step) {
    memory.mass[thread] = 0;
    memory.count[thread] = 0;
    if (thread == 0) memory.level = -1;
    __syncthreads();
    for (int token = thread; token < drawing.vocab; token += kDrawThreads) {
      const float depth = drawing.depth(token);
      const int level = cut_level(depth);
      if (depth >= kDeepest || level > before.level || level < base) continue;
      const int bin = step == 0 ? level / kCoarse : level - base;
      if (bin >= kCoarse) continue;
      atomicAdd(&memory.mass[bin], mass_of(depth));
      atomicAdd(&memory.count[bin], 1u);
    }
    __syncthreads();
    unsigned long long mass = memory.mass[thread];
    unsigned count = memory.count[thread];
    for (int offset = 1; offset < kWarp; offset *= 2) {
      const unsigned long long other_mass = __shfl_up_sync(kAll, mass, offset);
      const unsigned other_count = __shfl_up_sync(kAll, count, offset);
      if (lane >= offset) {
        mass += other_mass;
        count += other_count;
      }
    }
    if (lane == kWarp - 1) {
      memory.warp_mass[warp] = mass;
      memory.warp_count[warp] = count;
    }
    __syncthreads();
    mass += below_mass;
    count += below_count;
    for (int w = 0; w < warp; ++w) {
      mass += memory.warp_mass[w];
      count += memory.warp_count[w];
    }
    const unsigned long long mass_before = mass - memory.mass[thread];
    const unsigned count_before = count - memory.count[thread];
    const auto enough = [&](unsigned long long m, unsigned c) {
      return by_count ? c >= wanted_count : static_cast<double>(m) >= wanted_mass;
    };
    const bool is_first = thread == 0 || !enough(mass_before, count_before);
    if (enough(mass, count) && is_first) {
      memory.level = thread;
      memory.below_mass = step == 0 ? mass_before : mass;
      memory.below_count = step == 0 ? count_before : count;
    }
    __syncthreads();
    const int found = memory.level;
    below_mass = memory.below_mass;
    below_count = memory.below_count;
    __syncthreads();
    if (found < 0) return before;
    if (step == 1) return {base + found, below_mass};
    base = found * kCoarse;
  }
  return before;
}

__global__ void __launch_bounds__(kDrawThreads)
    draw_kernel(const float* all_logits, int vocab, DrawRow* rows, std::int32_t* tokens,
                std::int32_t* positions, DrawnToken* drawn) {
  __shared__ DrawMemory memory;
  const int index = blockIdx.x, thread = threadIdx.x, lane = thread % kWarp, warp = thread / kWarp;
  Drawing drawing{all_logits + static_cast<long long>(index) * vocab, vocab, rows[index], 0, 0};
  if (!drawing.row.active) return;
  const float* const logits = drawing.logits;

  // The largest logit of all tokens and of the allowed ones.
  float most_of_all = -INFINITY;
  Best best{-INFINITY, vocab};
#pragma unroll 4
  for (int token = thread; token < vocab; token += kDrawThreads) {
    const float value = logits[token];
    most_of_all = fmaxf(most_of_all, value);
    if (value > best.value && drawing.allows(token)) best = {value, token};
  }
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    most_of_all = fmaxf(most_of_all, __shfl_xor_sync(kAll, most_of_all, offset));
    best =
        better(best, {__shfl_xor_sync(kAll, best.value, offset), __shfl_xor_sync(kAll, best.token, offset)});
  }
  if (lane == 0) {
    memory.warp_most[warp] = most_of_all;
    memory.warp_best[warp] = best;
  }
  __syncthreads();
  for (int w = 0; w < kDrawWarps; ++w) {
    most_of_all = fmaxf(most_of_all, memory.warp_most[w]);
    best = better(best, memory.warp_best[w]);
  }
  const bool greedy = drawing.row.temperature == 0;
  drawing.most = best.value;
  drawing.inverse = greedy ? 1 : 1 / drawing.row.temperature;
  const bool nothing = best.token >= vocab;

  Kept kept{kCutLevels - 1, 0};
  if (!greedy && !nothing && drawing.row.top_k > 0)
    kept = cut(drawing, memory, kept, true, static_cast<unsigned>(drawing.row.top_k), 0);

  // Masses of the warps' segments, and the sum of all tokens' exponentials.
  const int segment = (vocab + kDrawWarps - 1) / kDrawWarps;
  const int begin = warp * segment, end = min(vocab, begin + segment);
  const auto weigh = [&](bool with_sum) {
    unsigned long long mass = 0;
    float sum = 0;
#pragma unroll 4
    for (int token = begin + lane; token < end; token += kWarp) {
      if (with_sum) sum += expf(logits[token] - most_of_all);
      const float depth = drawing.depth(token);
      if (cut_level(depth) <= kept.level) mass += mass_of(depth);
    }
    for (int offset = kWarp / 2; offset > 0; offset /= 2) mass += __shfl_xor_sync(kAll, mass, offset);
    if (with_sum) sum = warp_sum(sum);
    __syncthreads();
    if (lane == 0) {
      memory.warp_mass[warp] = mass;
      if (with_sum) memory.warp_sum[warp] = sum;
    }
    __syncthreads();
    unsigned long long total = 0;
    for (int w = 0; w < kDrawWarps; ++w) total += memory.warp_mass[w];
    return total;
  };
  unsigned long long total = weigh(true);
  if (!greedy && !nothing && drawing.row.top_p < 1) {
    kept.mass = total;
    __syncthreads();
    kept = cut(drawing, memory, kept, false, 0,
               static_cast<double>(drawing.row.top_p) * static_cast<double>(total));
    total = weigh(false);
  }
  double sum = 0;
  for (int w = 0; w < kDrawWarps; ++w) sum += memory.warp_sum[w];

  const auto take = [&](int token, double log_prob) {
    drawn[index] = {token, static_cast<float>(log_prob),
                    static_cast<float>(static_cast<double>(logits[token]) - most_of_all - log(sum))};
    tokens[index] = token;
    ++positions[index];
    ++rows[index].counter;
    if (drawing.row.states && !nothing) rows[index].state = drawing.row_next(token);
  };
  if (greedy || nothing) {
    if (thread == 0) take(nothing ? 0 : best.token, 0);
    return;
  }
  unsigned long long left =
      scale_to(random_bits(drawing.row.seed, drawing.row.stream, drawing.row.counter), total);
  int chosen = 0;
  while (chosen < kDrawWarps - 1 && left >= memory.warp_mass[chosen]) left -= memory.warp_mass[chosen++];
  if (warp != chosen) return;
  for (int first = begin; first < end; first += kWarp) {
    const int token = first + lane;
    unsigned long long own = 0;
    if (token < end) {
      const float depth = drawing.depth(token);
      if (cut_level(depth) <= kept.level) own = mass_of(depth);
    }
    unsigned long long up_to = own;
    for (int offset = 1; offset < kWarp; offset *= 2) {
      const unsigned long long other = __shfl_up_sync(kAll, up_to, offset);
      if (lane >= offset) up_to += other;
    }
    const unsigned reached = __ballot_sync(kAll, left < up_to);
    if (reached) {
      if (lane == __ffs(reached) - 1) take(token, log(static_cast<double>(own) / static_cast<double>(total)));
      return;
    }
    left -= __shfl_sync(kAll, up_to, kWarp - 1);
  }
}

}  // namespace

bool supports(const Shape& shape) {
  return (shape.dim == 64 || shape.dim == 128) && shape.heads % shape.kv_heads == 0;
}

void add_norm(float* x, const Bf16* delta, const float* weight, Bf16* to, int rows, int count, float eps,
              CUstream_st* stream) {
  add_norm_kernel<<<rows, kNormThreads, 0, stream>>>(x, delta, weight, to, count, eps);
}

void gate(const Bf16* from, Bf16* to, int rows, int count, CUstream_st* stream) {
  gate_kernel<<<dim3(static_cast<unsigned>((count + 255) / 256), static_cast<unsigned>(rows)), 256, 0,
                stream>>>(from, to, count);
}

void rotate_and_store(const Rotation& rotation, const CacheView& cache, const Shape& shape, int rows,
                      CUstream_st* stream) {
  const int items = rows * (shape.heads + 2 * shape.kv_heads);
  rotate_kernel<<<(items + 7) / 8, 8 * kWarp, 0, stream>>>(rotation, cache, shape, items);
}

void attend(const Bf16* queries, const CacheView& cache, Bf16* to, const Shape& shape, int rows,
            CUstream_st* stream) {
  const int group = heads_of_block(shape), blocks = shape.heads / group;
  const int warps = rows * blocks >= 256 ? 4 : 8;
  const float scale = 1.44269504f / sqrtf(static_cast<float>(shape.dim));  // powers of two, not of e
  const AttendKernel kernel = shape.dim == 64 ? attend_kernel_for<64>(group) : attend_kernel_for<128>(group);
  const auto shared = static_cast<std::size_t>(warps) * group * (shape.dim + 2) * sizeof(float);
  kernel<<<dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(rows)),
           static_cast<unsigned>(warps * kWarp), shared, stream>>>(queries, cache, to, shape, scale);
}

void draw(const float* logits, int vocab, DrawRow* rows, std::int32_t* tokens, std::int32_t* positions,
          DrawnToken* drawn, int count, CUstream_st* stream) {
  draw_kernel<<<count, kDrawThreads, 0, stream>>>(logits, vocab, rows, tokens, positions, drawn);
}

}  // namespace lathe::lm::cuda

#include <cuda_bf16.h>

#include "train/cuda/kernels.h"

namespace lathe::train::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kNormBlocks = 528;  // four for each of an H200's processors
constexpr int kNormParts = 8;     // 8 * 32 lanes * 4 elements = 1024

struct alignas(16) Bf16x8 {
  __nv_bfloat162 pairs[4];
};

__device__ float2 wide(__nv_bfloat162 pair) { return __bfloat1622float2(pair); }
__device__ float sigmoid(float x) { return 1 / (1 + __expf(-x)); }

unsigned blocks_for(std::int64_t items) { return static_cast<unsigned>((items + kThreads - 1) / kThreads); }

__device__ float warp_sum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0U, value, offset);
  return value;
}

__global__ void gate_kernel(const Bf16x8* from, Bf16x8* to, std::int64_t items, int eighths) {
  const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (item >= items) return;
  const std::int64_t row = item / eighths, part = item % eighths;
  const Bf16x8 gates = from[row * 2 * eighths + part], ups = from[row * 2 * eighths + eighths + part];
  Bf16x8 result;
  for (int i = 0; i < 4; ++i) {
    const float2 g = wide(gates.pairs[i]), u = wide(ups.pairs[i]);
    result.pairs[i] = __floats2bfloat162_rn(g.x * sigmoid(g.x) * u.x, g.y * sigmoid(g.y) * u.y);
  }
  to[item] = result;
}

__global__ void gate_backward_kernel(const Bf16x8* grad, const Bf16x8* from, Bf16x8* to, std::int64_t items,
                                     int eighths) {
  const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (item >= items) return;
  const std::int64_t row = item / eighths, part = item % eighths;
  const std::int64_t at_gate = row * 2 * eighths + part, at_up = at_gate + eighths;
  const Bf16x8 gates = from[at_gate], ups = from[at_up], slopes = grad[item];
  Bf16x8 of_gate, of_up;
  const auto slope_of = [](float g, float s) { return s * (1 + g * (1 - s)); };
  for (int i = 0; i < 4; ++i) {
    const float2 g = wide(gates.pairs[i]), u = wide(ups.pairs[i]), d = wide(slopes.pairs[i]);
    const float sx = sigmoid(g.x), sy = sigmoid(g.y);
    of_gate.pairs[i] = __floats2bfloat162_rn(d.x * u.x * slope_of(g.x, sx), d.y * u.y * slope_of(g.y, sy));
    of_up.pairs[i] = __floats2bfloat162_rn(d.x * g.x * sx, d.y * g.y * sy);
  }
  to[at_gate] = of_gate;
  to[at_up] = of_up;
}

__global__ void rotate_kernel(Rotation r, std::int64_t items) {
  const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (item >= items) return;
  const int half = r.dim / 2, pairs = half / 2;
  const int pair = static_cast<int>(item % pairs);
  const std::int64_t head = item / pairs % r.heads, row = item / pairs / r.heads;
  const auto* from = reinterpret_cast<const __nv_bfloat162*>(r.from + row * r.from_stride + head * r.dim);
  auto* to = reinterpret_cast<__nv_bfloat162*>(r.to + row * r.to_stride + head * r.dim);
  const float2 c = reinterpret_cast<const float2*>(r.cosine + row * half)[pair];
  float2 s = reinterpret_cast<const float2*>(r.sine + row * half)[pair];
  s.x *= r.sign, s.y *= r.sign;
  const float2 a = wide(from[pair]), b = wide(from[pairs + pair]);
  to[pair] = __floats2bfloat162_rn(a.x * c.x - b.x * s.x, a.y * c.y - b.y * s.y);
  to[pairs + pair] = __floats2bfloat162_rn(b.x * c.x + a.x * s.x, b.y * c.y + a.y * s.y);
}

/// Element e of part p of a lane: (p * 32 + lane) * 4 + e.
struct Four {
  float v[4];
};
__device__ Four load4(const float* from) {
  const float4 f = *reinterpret_cast<const float4*>(from);
  return {{f.x, f.y, f.z, f.w}};
}
__device__ Four load4(const Bf16* from) {
  const auto* pairs = reinterpret_cast<const __nv_bfloat162*>(from);
  const float2 a = wide(pairs[0]), b = wide(pairs[1]);
  return {{a.x, a.y, b.x, b.y}};
}
__device__ void store4(float* to, const Four& f) {
  *reinterpret_cast<float4*>(to) = make_float4(f.v[0], f.v[1], f.v[2], f.v[3]);
}
__device__ void store4(Bf16* to, const Four& f) {
  auto* pairs = reinterpret_cast<__nv_bfloat162*>(to);
  pairs[0] = __floats2bfloat162_rn(f.v[0], f.v[1]);
  pairs[1] = __floats2bfloat162_rn(f.v[2], f.v[3]);
}

/// A warp for each row.
__global__ void add_norm_kernel(Norm n) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (row >= n.rows) return;
  Four x[kNormParts];
  float squares = 0;
#pragma unroll
  for (int p = 0; p < kNormParts; ++p) {
    const int i = (p * 32 + lane) * 4;
    if (i >= n.count) continue;
    const std::int64_t at = row * n.count + i;
    x[p] = load4(n.x + at);
    if (n.delta) {
      const Four d = load4(n.delta + at);
      for (int e = 0; e < 4; ++e) x[p].v[e] += d.v[e];
      store4(n.sum + at, x[p]);
    }
    for (int e = 0; e < 4; ++e) squares += x[p].v[e] * x[p].v[e];
  }
  const float inverse = rsqrtf(warp_sum(squares) / static_cast<float>(n.count) + n.eps);
  if (lane == 0) n.inverse_rms[row] = inverse;
#pragma unroll
  for (int p = 0; p < kNormParts; ++p) {
    const int i = (p * 32 + lane) * 4;
    if (i >= n.count) continue;
    const Four w = load4(n.weight + i);
    for (int e = 0; e < 4; ++e) x[p].v[e] *= inverse * w.v[e];
    store4(n.normed + row * n.count + i, x[p]);
  }
}

/// With r = 1 / rms and h = grad * weight: grad_x = r h - x r^3 mean(h x) + grad_sum. Each block
/// adds up its rows' share of the weight's gradient, in an order that depends on nothing else.
__global__ void add_norm_backward_kernel(NormBackward b) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  Four of_weight[kNormParts] = {};
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + warp; row < b.rows;
       row += static_cast<std::int64_t>(gridDim.x) * kWarps) {
    const float r = b.inverse_rms[row];
    Four x[kNormParts], h[kNormParts];
    float dot = 0;
#pragma unroll
    for (int p = 0; p < kNormParts; ++p) {
      const int i = (p * 32 + lane) * 4;
      if (i >= b.count) continue;
      x[p] = load4(b.sum + row * b.count + i);
      h[p] = load4(b.grad_normed + row * b.count + i);
      const Four w = load4(b.weight + i);
      for (int e = 0; e < 4; ++e) {
        of_weight[p].v[e] += h[p].v[e] * x[p].v[e] * r;
        h[p].v[e] *= w.v[e];
        dot += h[p].v[e] * x[p].v[e];
      }
    }
    const float pull = warp_sum(dot) / static_cast<float>(b.count) * r * r * r;
#pragma unroll
    for (int p = 0; p < kNormParts; ++p) {
      const int i = (p * 32 + lane) * 4;
      if (i >= b.count) continue;
      const std::int64_t at = row * b.count + i;
      Four result;
      for (int e = 0; e < 4; ++e) result.v[e] = r * h[p].v[e] - pull * x[p].v[e];
      if (b.grad_sum) {
        const Four g = load4(b.grad_sum + at);
        for (int e = 0; e < 4; ++e) result.v[e] += g.v[e];
      }
      store4(b.grad_x + at, result);
      if (b.grad_delta) store4(b.grad_delta + at, result);
    }
  }
  __shared__ float shared[kWarps][1024];
#pragma unroll
  for (int p = 0; p < kNormParts; ++p) {
    const int i = (p * 32 + lane) * 4;
    if (i < b.count) store4(&shared[warp][i], of_weight[p]);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < b.count; i += kThreads) {
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += shared[w][i];
    b.weight_partials[static_cast<std::int64_t>(blockIdx.x) * b.count + i] = sum;
  }
}

struct Mass {
  float most, sum;  ///< sum of exp(l - most)
};
__device__ Mass join(Mass a, Mass b) {
  const float most = fmaxf(a.most, b.most);
  return {most, a.sum * __expf(a.most - most) + b.sum * __expf(b.most - most)};
}

/// A block for each row, in one pass.
__global__ void log_probs_kernel(const Bf16* logits, const std::int64_t* targets, float* log_probs,
                                 float* log_masses, int vocab) {
  const std::int64_t row = blockIdx.x;
  const Bf16* own = logits + row * vocab;
  Mass mass{-1e30F, 0};
  for (int i = static_cast<int>(threadIdx.x); i < vocab / 8; i += kThreads) {
    const Bf16x8 eight = reinterpret_cast<const Bf16x8*>(own)[i];
    float values[8], most = mass.most, sum = 0;
    for (int p = 0; p < 4; ++p) {
      const float2 f = wide(eight.pairs[p]);
      values[2 * p] = f.x, values[2 * p + 1] = f.y;
      most = fmaxf(most, fmaxf(f.x, f.y));
    }
    for (const float value : values) sum += __expf(value - most);
    mass = {most, mass.sum * __expf(mass.most - most) + sum};
  }
  for (int offset = 16; offset > 0; offset /= 2)
    mass = join(mass, {__shfl_xor_sync(~0U, mass.most, offset), __shfl_xor_sync(~0U, mass.sum, offset)});
  __shared__ Mass of_warps[kWarps];
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = mass;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < kWarps; ++w) mass = join(mass, of_warps[w]);
  const float log_mass = mass.most + logf(mass.sum);
  log_masses[row] = log_mass;
  log_probs[row] = __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(own)[targets[row]]) - log_mass;
}

__global__ void log_probs_backward_kernel(Bf16* logits, const std::int64_t* targets, const float* log_masses,
                                          const float* grads, int vocab) {
  const std::int64_t row = blockIdx.x;
  Bf16x8* own = reinterpret_cast<Bf16x8*>(logits + row * vocab);
  const float log_mass = log_masses[row], grad = grads[row];
  const std::int64_t target = targets[row];
  for (int i = static_cast<int>(threadIdx.x); i < vocab / 8; i += kThreads) {
    Bf16x8 eight = own[i];
    for (int p = 0; p < 4; ++p) {
      const float2 f = wide(eight.pairs[p]);
      const std::int64_t token = static_cast<std::int64_t>(i) * 8 + 2 * p;
      eight.pairs[p] = __floats2bfloat162_rn(grad * ((token == target) - __expf(f.x - log_mass)),
                                             grad * ((token + 1 == target) - __expf(f.y - log_mass)));
    }
    own[i] = eight;
  }
}

const Bf16x8* eights(const Bf16* pointer) { return reinterpret_cast<const Bf16x8*>(pointer); }
Bf16x8* eights(Bf16* pointer) { return reinterpret_cast<Bf16x8*>(pointer); }

}  // namespace

void gate(const Bf16* from, Bf16* to, std::int64_t rows, int count, CUstream_st* stream) {
  const std::int64_t items = rows * (count / 8);
  gate_kernel<<<blocks_for(items), kThreads, 0, stream>>>(eights(from), eights(to), items, count / 8);
}

void gate_backward(const Bf16* grad, const Bf16* from, Bf16* to, std::int64_t rows, int count,
                   CUstream_st* stream) {
  const std::int64_t items = rows * (count / 8);
  gate_backward_kernel<<<blocks_for(items), kThreads, 0, stream>>>(eights(grad), eights(from), eights(to),
                                                                   items, count / 8);
}

void rotate(const Rotation& rotation, CUstream_st* stream) {
  const std::int64_t items = rotation.rows * rotation.heads * (rotation.dim / 4);
  rotate_kernel<<<blocks_for(items), kThreads, 0, stream>>>(rotation, items);
}

void add_norm(const Norm& norm, CUstream_st* stream) {
  const auto blocks = static_cast<unsigned>((norm.rows + kWarps - 1) / kWarps);
  add_norm_kernel<<<blocks, kThreads, 0, stream>>>(norm);
}

int norm_partials() { return kNormBlocks; }

void add_norm_backward(const NormBackward& backward, CUstream_st* stream) {
  add_norm_backward_kernel<<<kNormBlocks, kThreads, 0, stream>>>(backward);
}

void log_probs(const Bf16* logits, const std::int64_t* targets, float* log_probs, float* log_masses,
               std::int64_t rows, int vocab, CUstream_st* stream) {
  log_probs_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(logits, targets, log_probs,
                                                                         log_masses, vocab);
}

void log_probs_backward(Bf16* logits, const std::int64_t* targets, const float* log_masses,
                        const float* grads, std::int64_t rows, int vocab, CUstream_st* stream) {
  log_probs_backward_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(logits, targets, log_masses,
                                                                                  grads, vocab);
}

}  // namespace lathe::train::cuda

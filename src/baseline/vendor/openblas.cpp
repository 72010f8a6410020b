#include <cblas.h>

#include <algorithm>

#include "baseline/vendor/contraction.h"

namespace lathe::vendor {
namespace {

void multiply(const Contraction& c, const float* a, const float* b, float beta, float* out) {
  const blasint m = static_cast<blasint>(c.m), n = static_cast<blasint>(c.n), k = static_cast<blasint>(c.k);
  const CBLAS_TRANSPOSE ta = c.transpose_a ? CblasTrans : CblasNoTrans;
  const CBLAS_TRANSPOSE tb = c.transpose_b ? CblasTrans : CblasNoTrans;
  if (n == 1) {
    cblas_sgemv(CblasRowMajor, ta, ta == CblasTrans ? k : m, ta == CblasTrans ? m : k, 1, a,
                ta == CblasTrans ? m : k, b, 1, beta, out, 1);
  } else if (m == 1) {
    cblas_sgemv(CblasRowMajor, tb == CblasTrans ? CblasNoTrans : CblasTrans, tb == CblasTrans ? n : k,
                tb == CblasTrans ? k : n, 1, b, tb == CblasTrans ? k : n, a, 1, beta, out, 1);
  } else {
    cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, 1, a, c.transpose_a ? m : k, b, c.transpose_b ? k : n, beta,
                out, n);
  }
}

/// A batched contraction as a loop over its batches; a bias is written to the result first and
/// accumulated onto.
class OpenblasCall final : public PreparedCall {
 public:
  OpenblasCall(Contraction contraction, int a, int b, int bias, int out)
      : c_(contraction), a_(a), b_(b), bias_(bias), out_(out) {}

  int execute(void* const* buffers) override {
    const auto* a = static_cast<const float*>(buffers[a_]);
    const auto* b = static_cast<const float*>(buffers[b_]);
    auto* out = static_cast<float*>(buffers[out_]);
    if (bias_ >= 0) {
      const auto* bias = static_cast<const float*>(buffers[bias_]);
      for (std::int64_t row = 0; row < c_.batch * c_.m; ++row) std::copy_n(bias, c_.n, out + row * c_.n);
    }
    for (std::int64_t i = 0; i < c_.batch; ++i)
      multiply(c_, a + i * c_.a_stride, b + i * c_.b_stride, bias_ >= 0 ? 1 : 0, out + i * c_.m * c_.n);
    return 0;
  }

 private:
  Contraction c_;
  int a_;
  int b_;
  int bias_;
  int out_;
};

/// A worker thread allocates its workspace when it first runs, by which time the process may be
/// locked down. A product large enough to use all workers makes them allocate now.
void start_workers() {
  constexpr std::int64_t kSize = 512;
  const Contraction square{.m = kSize, .n = kSize, .k = kSize};
  const std::vector<float> zeros(kSize * kSize);
  std::vector<float> result(kSize * kSize);
  multiply(square, zeros.data(), zeros.data(), 0, result.data());
}

bool all_float(const NodeCall& call) {
  return std::all_of(call.nodes.begin(), call.nodes.end(), [](const Node& node) {
    return node.out.dtype == "fp32" &&
           std::all_of(node.in.begin(), node.in.end(),
                       [](const Operand& operand) { return operand.dtype == "fp32"; });
  });
}

}  // namespace

Result<std::unique_ptr<PreparedCall>> prepare_openblas(const NodeCall& call, int threads) {
  const Node& node = call.nodes[0];
  const auto contraction = contraction_of(node);
  if (!contraction) return invalid("OpenBLAS has no call for op '" + node.op + "' at these shapes");
  if (!all_float(call)) return invalid("the OpenBLAS adapter takes only fp32");
  const Operand* bias =
      contraction->bias >= 0 ? &node.in[static_cast<std::size_t>(contraction->bias)] : nullptr;
  const bool fuses_bias = !bias && call.nodes.size() == 2;
  if (fuses_bias) bias = row_bias(call.nodes[1], 0, contraction->n);
  if (call.nodes.size() > 2 || (call.nodes.size() == 2 && !(fuses_bias && bias)))
    return invalid(
        "the OpenBLAS adapter fuses a contraction with one bias over its columns and nothing else");
  openblas_set_num_threads(threads);
  if (threads > 1) start_workers();
  return std::unique_ptr<PreparedCall>(
      std::make_unique<OpenblasCall>(*contraction, node.in[0].buffer, node.in[1].buffer,
                                     bias ? bias->buffer : -1, call.nodes.back().out.buffer));
}

}  // namespace lathe::vendor

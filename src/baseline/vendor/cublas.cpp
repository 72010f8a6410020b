#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/symbol_binder.h"
#include "baseline/vendor/contraction.h"

namespace lathe::vendor {
namespace {

// cuBLAS's stable C interface, declared here and bound at run time.
using Handle = struct HandleTag*;
enum Operation : int { kPlain = 0, kTransposed = 1 };

struct Cublas {
  int (*create)(Handle*);
  int (*set_stream)(Handle, void*);
  int (*multiply)(Handle, Operation, Operation, int m, int n, int k, const float* alpha, const float* a,
                  int lda, long long a_stride, const float* b, int ldb, long long b_stride, const float* beta,
                  float* c, int ldc, long long c_stride, int batches);
  Handle handle = nullptr;
};

constexpr std::array kNames = {"libcublas.so.13", "libcublas.so.12", "/usr/local/cuda/lib64/libcublas.so.13",
                               "/usr/local/cuda/lib64/libcublas.so.12"};

Result<Cublas> open_cublas() {
  void* const library = open_library(kNames);
  if (!library) return Error{ErrorCode::kUnavailable, "no libcublas", "install the CUDA toolkit's libraries"};
  Cublas cublas{};
  SymbolBinder binder(library);
  binder.bind(cublas.create, "cublasCreate_v2");
  binder.bind(cublas.set_stream, "cublasSetStream_v2");
  binder.bind(cublas.multiply, "cublasSgemmStridedBatched");
  if (binder.missing() || cublas.create(&cublas.handle) != 0)
    return Error{ErrorCode::kUnavailable, "cuBLAS cannot be used in this context"};
  return cublas;
}

/// One handle per process, created on first use.
std::optional<Result<Cublas>>& opened() {
  static std::optional<Result<Cublas>> library;
  return library;
}

const Result<Cublas>& cublas() {
  if (!opened()) opened().emplace(open_cublas());
  return *opened();
}

class CublasCall final : public PreparedCall {
 public:
  CublasCall(const Cublas& library, const Contraction& contraction, int a, int b, int out)
      : library_(library), c_(contraction), a_(a), b_(b), out_(out) {}

  /// cuBLAS is column-major, so it computes the transposed product.
  int execute(void* const* buffers) override {
    const float one = 1, zero = 0;
    const auto m = static_cast<int>(c_.m), n = static_cast<int>(c_.n), k = static_cast<int>(c_.k);
    return library_.multiply(
        library_.handle, c_.transpose_b ? kTransposed : kPlain, c_.transpose_a ? kTransposed : kPlain, n, m,
        k, &one, static_cast<const float*>(buffers[b_]), c_.transpose_b ? k : n, c_.b_stride,
        static_cast<const float*>(buffers[a_]), c_.transpose_a ? m : k, c_.a_stride, &zero,
        static_cast<float*>(buffers[out_]), n, c_.m * c_.n, static_cast<int>(c_.batch));
  }

 private:
  const Cublas& library_;
  Contraction c_;
  int a_, b_, out_;
};

}  // namespace

int set_cublas_stream(void* stream) {
  return opened() && cublas().ok() ? cublas()->set_stream(cublas()->handle, stream) : 0;
}

Result<std::unique_ptr<PreparedCall>> prepare_cublas(const NodeCall& call) {
  const Node& node = call.nodes[0];
  const auto contraction = contraction_of(node);
  const auto is_float = [](const Operand& operand) { return operand.dtype == "fp32"; };
  if (call.nodes.size() != 1 || !contraction || contraction->bias >= 0 || !is_float(node.out) ||
      !std::all_of(node.in.begin(), node.in.end(), is_float))
    return invalid("the cuBLAS adapter multiplies fp32 matrices and nothing else");
  if (!cublas().ok()) return cublas().error();
  return std::unique_ptr<PreparedCall>(std::make_unique<CublasCall>(
      *cublas(), *contraction, node.in[0].buffer, node.in[1].buffer, node.out.buffer));
}

}  // namespace lathe::vendor

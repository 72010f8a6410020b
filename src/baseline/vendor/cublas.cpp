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
enum DataType : int { kR32F = 0, kR64F = 1, kR16F = 2, kR16BF = 14 };
enum Arithmetic : int { kFp32 = 68, kFp64 = 70 };
constexpr int kDefaultAlgorithm = -1;
constexpr int kNoNarrowReductions = 16;  // partial sums are never added in fp16 or bf16

struct Cublas {
  int (*create)(Handle*);
  int (*set_stream)(Handle, void*);
  int (*set_math_mode)(Handle, int);
  int (*multiply)(Handle, Operation, Operation, int m, int n, int k, const void* alpha, const void* a,
                  DataType, int lda, long long a_stride, const void* b, DataType, int ldb, long long b_stride,
                  const void* beta, void* c, DataType, int ldc, long long c_stride, int batches, Arithmetic,
                  int algorithm);
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
  binder.bind(cublas.set_math_mode, "cublasSetMathMode");
  binder.bind(cublas.multiply, "cublasGemmStridedBatchedEx");
  if (binder.missing() || cublas.create(&cublas.handle) != 0 ||
      cublas.set_math_mode(cublas.handle, kNoNarrowReductions) != 0)
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

std::optional<DataType> type_of(const Operand& operand) {
  if (operand.dtype == "fp32") return kR32F;
  if (operand.dtype == "fp64") return kR64F;
  if (operand.dtype == "fp16") return kR16F;
  if (operand.dtype == "bf16") return kR16BF;
  return std::nullopt;
}

class CublasCall final : public PreparedCall {
 public:
  struct Side {
    int buffer;
    DataType type;
  };
  CublasCall(const Cublas& library, const Contraction& contraction, Side a, Side b, Side out)
      : library_(library), c_(contraction), a_(a), b_(b), out_(out) {}

  /// cuBLAS is column-major, so it computes the transposed product.
  int execute(void* const* buffers) override {
    static constexpr float kOne = 1, kZero = 0;
    static constexpr double kWideOne = 1, kWideZero = 0;
    const bool wide = a_.type == kR64F;
    const auto m = static_cast<int>(c_.m), n = static_cast<int>(c_.n), k = static_cast<int>(c_.k);
    return library_.multiply(
        library_.handle, c_.transpose_b ? kTransposed : kPlain, c_.transpose_a ? kTransposed : kPlain, n, m,
        k, wide ? static_cast<const void*>(&kWideOne) : &kOne, buffers[b_.buffer], b_.type,
        c_.transpose_b ? k : n, c_.b_stride, buffers[a_.buffer], a_.type, c_.transpose_a ? m : k, c_.a_stride,
        wide ? static_cast<const void*>(&kWideZero) : &kZero, buffers[out_.buffer], out_.type, n, c_.m * c_.n,
        static_cast<int>(c_.batch), wide ? kFp64 : kFp32, kDefaultAlgorithm);
  }

 private:
  const Cublas& library_;
  Contraction c_;
  Side a_, b_, out_;
};

}  // namespace

int set_cublas_stream(void* stream) {
  return opened() && cublas().ok() ? cublas()->set_stream(cublas()->handle, stream) : 0;
}

Result<std::unique_ptr<PreparedCall>> prepare_cublas(const NodeCall& call) {
  const Node& node = call.nodes[0];
  const auto contraction = contraction_of(node);
  if (call.nodes.size() != 1 || !contraction || contraction->bias >= 0)
    return invalid("the cuBLAS adapter multiplies matrices and does nothing else");
  const auto a = type_of(node.in[0]), b = type_of(node.in[1]), out = type_of(node.out);
  if (!a || a != b || !out || (out != a && (out != kR32F || a == kR64F)))
    return invalid("the cuBLAS adapter does not multiply " + node.in[0].dtype + " by " + node.in[1].dtype +
                       " to " + node.out.dtype,
                   "it takes two matrices of fp32, fp64, fp16 or bf16, and returns that, or fp32");
  if (!cublas().ok()) return cublas().error();
  using Side = CublasCall::Side;
  return std::unique_ptr<PreparedCall>(
      std::make_unique<CublasCall>(*cublas(), *contraction, Side{node.in[0].buffer, *a},
                                   Side{node.in[1].buffer, *b}, Side{node.out.buffer, *out}));
}

}  // namespace lathe::vendor

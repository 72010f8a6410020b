#include "gemm/cuda/vendor.h"

#include <fmt/format.h>

#include <array>

#include "base/symbol_binder.h"

namespace lathe::gemm {
namespace {

// The libraries' stable C interface, declared here and bound at run time.
using BlasHandle = struct BlasHandleTag*;
using LtHandle = struct LtHandleTag*;
using LtProduct = struct LtProductTag*;
using LtMatrix = struct LtMatrixTag*;
using LtPreference = struct LtPreferenceTag*;
struct LtAlgorithm {
  std::uint64_t data[8];
};
struct LtChoice {
  LtAlgorithm algorithm;
  std::size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(LtChoice) == 96);

enum Operation : int { kPlain = 0, kTransposed = 1 };
constexpr int kTypeFp32 = 0, kTypeFp16 = 2, kComputeFp32 = 68, kDefaultAlgorithm = -1;
constexpr int kTransposeA = 3, kTransposeB = 4, kMaxWorkspace = 1;

struct Functions {
  int (*blas_create)(BlasHandle*);
  int (*blas_set_stream)(BlasHandle, Stream);
  int (*blas_set_workspace)(BlasHandle, DevicePointer, std::size_t);
  int (*blas_multiply)(BlasHandle, Operation, Operation, int m, int n, int k, const void* alpha,
                       DevicePointer a, int type_a, int lda, DevicePointer b, int type_b, int ldb,
                       const void* beta, DevicePointer c, int type_c, int ldc, int compute, int algorithm);
  int (*lt_create)(LtHandle*);
  int (*product_create)(LtProduct*, int compute, int scale_type);
  int (*product_set)(LtProduct, int attribute, const void*, std::size_t bytes);
  int (*matrix_create)(LtMatrix*, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t lead);
  int (*preference_create)(LtPreference*);
  int (*preference_set)(LtPreference, int attribute, const void*, std::size_t bytes);
  int (*choose)(LtHandle, LtProduct, LtMatrix, LtMatrix, LtMatrix, LtMatrix, LtPreference, int asked,
                LtChoice*, int* got);
  int (*lt_multiply)(LtHandle, LtProduct, const void* alpha, DevicePointer a, LtMatrix, DevicePointer b,
                     LtMatrix, const void* beta, DevicePointer c, LtMatrix, DevicePointer d, LtMatrix,
                     const LtAlgorithm*, DevicePointer workspace, std::size_t, Stream);
  int (*product_destroy)(LtProduct);
  int (*matrix_destroy)(LtMatrix);
};

constexpr std::array kBlasNames = {"libcublas.so.13", "libcublas.so.12",
                                   "/usr/local/cuda/lib64/libcublas.so.13",
                                   "/usr/local/cuda/lib64/libcublas.so.12"};
constexpr std::array kLtNames = {"libcublasLt.so.13", "libcublasLt.so.12",
                                 "/usr/local/cuda/lib64/libcublasLt.so.13",
                                 "/usr/local/cuda/lib64/libcublasLt.so.12"};

/// The libraries are column-major: they compute the transposed product, so that B comes first.
Operation operation_b(Layout layout) { return b_along_k(layout) ? kTransposed : kPlain; }

class BlasCall final : public VendorCall {
 public:
  BlasCall(const Functions& functions, BlasHandle handle, Layout layout)
      : functions_(functions),
        handle_(handle),
        layout_(layout),
        name_(fmt::format("cublas_{}", name_of(layout))) {}
  Layout layout() const override { return layout_; }
  const std::string& name() const override { return name_; }
  int enqueue(const Call& c, Stream stream) override {
    if (const int code = functions_.blas_set_stream(handle_, stream); code != 0) return code;
    // Setting the stream resets the workspace.
    if (const int code = functions_.blas_set_workspace(handle_, workspace, VendorLibraries::kWorkspaceBytes);
        code != 0)
      return code;
    return functions_.blas_multiply(handle_, operation_b(layout_), kPlain, c.n, c.m, c.k, &c.alpha, c.b,
                                    kTypeFp16, static_cast<int>(c.ldb), c.a, kTypeFp16,
                                    static_cast<int>(c.lda), &c.beta, c.c, kTypeFp16, static_cast<int>(c.ldc),
                                    kComputeFp32, kDefaultAlgorithm);
  }
  DevicePointer workspace = 0;

 private:
  const Functions& functions_;
  BlasHandle handle_;
  Layout layout_;
  std::string name_;
};

/// The descriptors of a packed product in one layout.
class LtShape {
 public:
  LtShape(const Functions& functions, Layout layout, int m, int n, int k)
      : functions_(functions), layout_(layout) {
    const Operation b = operation_b(layout), a = kPlain;
    const bool along_k = b == kTransposed;
    ok_ =
        functions.product_create(&product, kComputeFp32, kTypeFp32) == 0 &&
        functions.product_set(product, kTransposeA, &b, sizeof b) == 0 &&
        functions.product_set(product, kTransposeB, &a, sizeof a) == 0 &&
        functions.matrix_create(&first, kTypeFp16, along_k ? k : n, along_k ? n : k, along_k ? k : n) == 0 &&
        functions.matrix_create(&second, kTypeFp16, k, m, k) == 0 &&
        functions.matrix_create(&result, kTypeFp16, n, m, n) == 0;
  }
  ~LtShape() {
    for (LtMatrix matrix : {first, second, result})
      if (matrix) functions_.matrix_destroy(matrix);
    if (product) functions_.product_destroy(product);
  }
  LtShape(const LtShape&) = delete;
  LtShape& operator=(const LtShape&) = delete;
  bool ok() const { return ok_; }
  Layout layout() const { return layout_; }

  LtProduct product = nullptr;
  LtMatrix first = nullptr, second = nullptr, result = nullptr;

 private:
  const Functions& functions_;
  Layout layout_;
  bool ok_ = false;
};

class LtCall final : public VendorCall {
 public:
  LtCall(const Functions& functions, LtHandle handle, std::shared_ptr<LtShape> shape, const LtChoice& choice,
         DevicePointer workspace, int rank)
      : functions_(functions),
        handle_(handle),
        shape_(std::move(shape)),
        choice_(choice),
        workspace_(workspace),
        name_(fmt::format("lt_{}_{}", name_of(shape_->layout()), rank)) {}
  Layout layout() const override { return shape_->layout(); }
  const std::string& name() const override { return name_; }
  int enqueue(const Call& c, Stream stream) override {
    return functions_.lt_multiply(handle_, shape_->product, &c.alpha, c.b, shape_->first, c.a, shape_->second,
                                  &c.beta, c.c, shape_->result, c.c, shape_->result, &choice_.algorithm,
                                  workspace_, VendorLibraries::kWorkspaceBytes, stream);
  }

 private:
  const Functions& functions_;
  LtHandle handle_;
  std::shared_ptr<LtShape> shape_;
  LtChoice choice_;
  DevicePointer workspace_;
  std::string name_;
};

class Libraries final : public VendorLibraries {
 public:
  Functions functions{};
  BlasHandle blas = nullptr;
  LtHandle lt = nullptr;
  LtPreference preference = nullptr;
  DevicePointer workspace = 0;

  Result<std::vector<std::unique_ptr<VendorCall>>> calls(int m, int n, int k) override {
    std::vector<std::unique_ptr<VendorCall>> all;
    for (const Layout layout : {Layout::kNN, Layout::kTN}) {
      auto call = std::make_unique<BlasCall>(functions, blas, layout);
      call->workspace = workspace;
      all.push_back(std::move(call));
    }
    for (const Layout layout : {Layout::kNN, Layout::kTN}) {
      const auto shape = std::make_shared<LtShape>(functions, layout, m, n, k);
      std::array<LtChoice, 100> choices;
      int got = 0;
      if (!shape->ok() ||
          functions.choose(lt, shape->product, shape->first, shape->second, shape->result, shape->result,
                           preference, static_cast<int>(choices.size()), choices.data(), &got) != 0 ||
          got == 0)
        return Error{ErrorCode::kUnavailable, fmt::format("cuBLASLt has no algorithm for {}x{}x{}", m, n, k)};
      int rank = 0;
      for (int i = 0; i < got; ++i)
        if (choices[static_cast<std::size_t>(i)].state == 0)
          all.push_back(std::make_unique<LtCall>(functions, lt, shape, choices[static_cast<std::size_t>(i)],
                                                 workspace, rank++));
    }
    return all;
  }
};

}  // namespace

Result<std::unique_ptr<VendorLibraries>> VendorLibraries::open(DevicePointer workspace) {
  void* const lt_library = open_library(kLtNames);
  void* const blas_library = open_library(kBlasNames);
  if (!blas_library || !lt_library)
    return Error{ErrorCode::kUnavailable, "no libcublas or libcublasLt",
                 "install the CUDA toolkit's libraries"};
  auto all = std::make_unique<Libraries>();
  Functions& f = all->functions;
  SymbolBinder blas(blas_library), lt(lt_library);
  blas.bind(f.blas_create, "cublasCreate_v2");
  blas.bind(f.blas_set_stream, "cublasSetStream_v2");
  blas.bind(f.blas_set_workspace, "cublasSetWorkspace_v2");
  blas.bind(f.blas_multiply, "cublasGemmEx");
  lt.bind(f.lt_create, "cublasLtCreate");
  lt.bind(f.product_create, "cublasLtMatmulDescCreate");
  lt.bind(f.product_set, "cublasLtMatmulDescSetAttribute");
  lt.bind(f.product_destroy, "cublasLtMatmulDescDestroy");
  lt.bind(f.matrix_create, "cublasLtMatrixLayoutCreate");
  lt.bind(f.matrix_destroy, "cublasLtMatrixLayoutDestroy");
  lt.bind(f.preference_create, "cublasLtMatmulPreferenceCreate");
  lt.bind(f.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  lt.bind(f.choose, "cublasLtMatmulAlgoGetHeuristic");
  lt.bind(f.lt_multiply, "cublasLtMatmul");
  const std::uint64_t bytes = kWorkspaceBytes;
  all->workspace = workspace;
  if (blas.missing() || lt.missing() || f.blas_create(&all->blas) != 0 || f.lt_create(&all->lt) != 0 ||
      f.preference_create(&all->preference) != 0 ||
      f.preference_set(all->preference, kMaxWorkspace, &bytes, sizeof bytes) != 0)
    return Error{ErrorCode::kUnavailable, "cuBLAS cannot be used in this context"};
  return std::unique_ptr<VendorLibraries>(std::move(all));
}

}  // namespace lathe::gemm

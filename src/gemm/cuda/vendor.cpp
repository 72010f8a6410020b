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
constexpr int kTypeFp32 = 0, kTypeFp16 = 2, kComputeFp16 = 64, kComputeFp32 = 68, kDefaultAlgorithm = -1;
constexpr int kUnsupported = 15;
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
Operation operation_a(Layout layout) { return a_along_k(layout) ? kPlain : kTransposed; }

/// Scales, which have the type of the sums.
struct Scales {
  std::uint16_t half_alpha = 0x3c00, half_beta = 0;
  const void *alpha, *beta;
  bool ok;

  Scales(const Call& call, bool half) : alpha(&call.alpha), beta(&call.beta), ok(true) {
    if (!half) return;
    alpha = &half_alpha, beta = &half_beta;
    ok = call.alpha == 1 && call.beta == 0;
  }
  Scales(const Scales&) = delete;
  Scales& operator=(const Scales&) = delete;
};

class BlasCall final : public VendorCall {
 public:
  BlasCall(const Functions& functions, BlasHandle handle, Layout layout, bool half_sums)
      : functions_(functions),
        handle_(handle),
        layout_(layout),
        half_sums_(half_sums),
        name_(fmt::format("cublas_{}", name_of(layout))) {}
  Layout layout() const override { return layout_; }
  const std::string& name() const override { return name_; }
  int enqueue(const Call& c, Stream stream) override {
    if (const int code = functions_.blas_set_stream(handle_, stream); code != 0) return code;
    // Setting the stream resets the workspace.
    if (const int code = functions_.blas_set_workspace(handle_, workspace, VendorLibraries::kWorkspaceBytes);
        code != 0)
      return code;
    const Scales scales(c, half_sums_);
    if (!scales.ok) return kUnsupported;
    return functions_.blas_multiply(
        handle_, operation_b(layout_), operation_a(layout_), c.n, c.m, c.k, scales.alpha, c.b, kTypeFp16,
        static_cast<int>(c.ldb), c.a, kTypeFp16, static_cast<int>(c.lda), scales.beta, c.c, kTypeFp16,
        static_cast<int>(c.ldc), half_sums_ ? kComputeFp16 : kComputeFp32, kDefaultAlgorithm);
  }
  DevicePointer workspace = 0;

 private:
  const Functions& functions_;
  BlasHandle handle_;
  Layout layout_;
  bool half_sums_;
  std::string name_;
};

/// The descriptors of a packed product in one layout.
class LtShape {
 public:
  LtShape(const Functions& functions, const Track& track, int m, int n, int k)
      : functions_(functions), track_(track) {
    const Operation b = operation_b(track.layout), a = operation_a(track.layout);
    const bool along_k = b_along_k(track.layout), a_too = a_along_k(track.layout);
    ok_ =
        functions.product_create(&product, track.half_sums ? kComputeFp16 : kComputeFp32,
                                 track.half_sums ? kTypeFp16 : kTypeFp32) == 0 &&
        functions.product_set(product, kTransposeA, &b, sizeof b) == 0 &&
        functions.product_set(product, kTransposeB, &a, sizeof a) == 0 &&
        functions.matrix_create(&first, kTypeFp16, along_k ? k : n, along_k ? n : k, along_k ? k : n) == 0 &&
        functions.matrix_create(&second, kTypeFp16, a_too ? k : m, a_too ? m : k, a_too ? k : m) == 0 &&
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
  const Track& track() const { return track_; }

  LtProduct product = nullptr;
  LtMatrix first = nullptr, second = nullptr, result = nullptr;

 private:
  const Functions& functions_;
  Track track_;
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
        name_(fmt::format("lt_{}_{}", name_of(shape_->track().layout), rank)) {}
  Layout layout() const override { return shape_->track().layout; }
  const std::string& name() const override { return name_; }
  int enqueue(const Call& c, Stream stream) override {
    const Scales scales(c, shape_->track().half_sums);
    if (!scales.ok) return kUnsupported;
    return functions_.lt_multiply(handle_, shape_->product, scales.alpha, c.b, shape_->first, c.a,
                                  shape_->second, scales.beta, c.c, shape_->result, c.c, shape_->result,
                                  &choice_.algorithm, workspace_, VendorLibraries::kWorkspaceBytes, stream);
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

  Result<std::vector<std::unique_ptr<VendorCall>>> calls(int m, int n, int k, const Track& track) override {
    std::vector<std::unique_ptr<VendorCall>> all;
    std::vector<Layout> layouts = {track.layout};
    if (track.layout == Layout::kTN) layouts = {Layout::kNN, Layout::kTN};
    for (const Layout layout : layouts) {
      auto call = std::make_unique<BlasCall>(functions, blas, layout, track.half_sums);
      call->workspace = workspace;
      all.push_back(std::move(call));
    }
    for (const Layout layout : layouts) {
      const auto shape = std::make_shared<LtShape>(functions, Track{layout, track.half_sums}, m, n, k);
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

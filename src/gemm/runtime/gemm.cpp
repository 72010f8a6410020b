#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <string>
#include <tuple>
#include <vector>

#include "gemm/runtime/lathe_gemm.h"
#include "gemm/runtime/launch.h"
#include "gemm/runtime/library.h"
#include "gemm/runtime/workspace.h"

namespace lathe::gemm {
namespace {

constexpr int kCommonSmCount = 132;

thread_local std::string last_error;

lathe_gemm_status fail(lathe_gemm_status status, std::string why) {
  last_error = std::move(why);
  return status;
}

auto key_of(const Entry& x) { return std::tuple(x.track, x.m, x.n, x.k); }
auto key_of(const Problem& x) { return std::tuple(Track{x.layout, x.half_sums}, x.m, x.n, x.k); }

/// What a call must fulfil before it reaches the device; empty: all of it.
std::string objection(int layout, const Call& call, std::int64_t m, std::int64_t n, std::int64_t k,
                      int accumulator) {
  if (layout < LATHE_GEMM_NN || layout > LATHE_GEMM_TT) return "layout is none of the four";
  if (accumulator != LATHE_GEMM_FP32 && accumulator != LATHE_GEMM_FP16)
    return "accumulator is neither fp32 nor fp16";
  constexpr std::int64_t kMax = 1 << 30;
  if (m < 0 || n < 0 || k < 0) return "m, n and k must not be negative";
  if (m > kMax || n > kMax || k > kMax) return "m, n and k must be at most 2^30";
  if (m == 0 || n == 0) return {};
  const auto kind = static_cast<Layout>(layout);
  if (call.ldc < n) return "ldc is less than n";
  if (k > 0) {
    if (call.lda < (a_along_k(kind) ? k : m))
      return a_along_k(kind) ? "lda is less than k" : "lda is less than m";
    if (call.ldb < (b_along_k(kind) ? k : n))
      return b_along_k(kind) ? "ldb is less than k" : "ldb is less than n";
    if (call.a == 0 || call.b == 0) return "a or b is null";
    if (call.a % 2 != 0 || call.b % 2 != 0) return "a or b is not aligned to its elements";
  }
  if (call.c == 0) return "c is null";
  if (call.c % 2 != 0) return "c is not aligned to its elements";
  return {};
}

}  // namespace

/// Choices of shapes that were asked for before. A slot is taken over by the next shape that falls
/// on it.
class ChosenImages {
 public:
  const Image* find(const Problem& problem) const {
    const std::shared_lock lock(mutex_);
    const auto& [known, image] = slots_[index(problem)];
    return image != nullptr && known == problem ? image : nullptr;
  }
  void keep(const Problem& problem, const Image* image) {
    const std::unique_lock lock(mutex_);
    slots_[index(problem)] = {problem, image};
  }

 private:
  static constexpr std::size_t kSlots = 1024;
  static std::size_t index(const Problem& p) {
    std::uint64_t hash = static_cast<std::uint64_t>(p.m) * 0x9e3779b97f4a7c15u;
    hash = (hash ^ static_cast<std::uint64_t>(p.n)) * 0xbf58476d1ce4e5b9u;
    hash = (hash ^ static_cast<std::uint64_t>(p.k)) * 0x94d049bb133111ebu;
    hash += static_cast<std::uint64_t>(p.layout) * 16 + (p.half_sums ? 8 : 0) + (p.aligned ? 4 : 0) +
            (p.aligned_c ? 2 : 0) + (p.workspace ? 1 : 0);
    return (hash ^ hash >> 29) % kSlots;
  }
  mutable std::shared_mutex mutex_;
  std::array<std::pair<Problem, const Image*>, kSlots> slots_{};
};

const Image* choose(const Library& all, const Problem& problem, int sm_count, bool has_sm90) {
  const auto can_run = [&](const Image& image) { return (has_sm90 ? image.sm90 : image.sm80) != nullptr; };
  const auto tuned = [&](const Problem& wanted) -> const Image* {
    const Entry* const end = all.entries + all.entry_count;
    const Entry* const entry = std::lower_bound(
        all.entries, end, wanted, [](const Entry& a, const Problem& b) { return key_of(a) < key_of(b); });
    if (entry == end || key_of(*entry) != key_of(wanted)) return nullptr;
    const Image& image = all.images[entry->image];
    return can_run(image) && serves(image.plan, wanted) ? &image : nullptr;
  };
  if (const Image* const image = tuned(problem)) return image;
  if (problem.half_sums) {
    Problem in_fp32 = problem;
    in_fp32.half_sums = false;
    if (const Image* const image = tuned(in_fp32)) return image;
  }
  const Image* best = nullptr;
  double best_ns = 0;
  for (std::size_t i = 0; i < all.image_count; ++i) {
    const Image& image = all.images[i];
    if (!can_run(image) || !serves(image.plan, problem)) continue;
    if (const double ns = model_ns(image.plan, problem, sm_count); best == nullptr || ns < best_ns)
      best = &image, best_ns = ns;
  }
  return best;
}

}  // namespace lathe::gemm

using namespace lathe::gemm;

/// The state of one context: kernels are loaded on first use, by whoever comes first.
struct lathe_gemm_handle_s {
  struct Slot {
    std::once_flag once;
    Kernel kernel;
    Code code = 0;
  };

  Context context = nullptr;
  int sm_count = 0;
  bool has_sm90 = false;
  std::vector<Slot> slots = std::vector<Slot>(library().image_count);
  ChosenImages chosen_images;
  Workspaces workspaces{*driver()};

  ~lathe_gemm_handle_s() {
    for (Slot& slot : slots)
      if (slot.kernel.module) driver()->module_unload(slot.kernel.module);
  }

  const Image* image_of(const Problem& problem) {
    if (const Image* const known = chosen_images.find(problem)) return known;
    const Image* const chosen = choose(library(), problem, sm_count, has_sm90);
    if (chosen) chosen_images.keep(problem, chosen);
    return chosen;
  }
  const Kernel* kernel_of(const Image& image, Code& code) {
    Slot& slot = slots[static_cast<std::size_t>(&image - library().images)];
    std::call_once(slot.once,
                   [&] { slot.code = load(image.plan, has_sm90 ? image.sm90 : image.sm80, slot.kernel); });
    code = slot.code;
    return code == 0 ? &slot.kernel : nullptr;
  }
};

namespace {

lathe_gemm_status driver_failed(Code code, const std::string& what) {
  const char* name = nullptr;
  driver()->error_name(code, &name);
  return fail(LATHE_GEMM_DRIVER_ERROR, what + ": " + (name ? name : std::to_string(code)));
}

struct Arguments {
  lathe_gemm_layout layout;
  int64_t m, n, k;
  float alpha;
  const void* a;
  int64_t lda;
  const void* b;
  int64_t ldb;
  float beta;
  void* c;
  int64_t ldc;
  lathe_gemm_accumulator accumulator;
};

/// A product whose arguments are right.
struct Request {
  Call call;
  Problem problem;

  bool is_empty() const { return problem.m == 0 || problem.n == 0; }
  std::size_t bytes_of(const Kernel& kernel) const {
    return static_cast<std::size_t>(workspace_bytes_of(kernel.plan, problem));
  }
};

lathe_gemm_status check(lathe_gemm_handle handle, const Arguments& x, Request& request) {
  Call& call = request.call;
  call.a = reinterpret_cast<DevicePointer>(x.a), call.b = reinterpret_cast<DevicePointer>(x.b);
  call.c = reinterpret_cast<DevicePointer>(x.c);
  call.lda = x.lda, call.ldb = x.ldb, call.ldc = x.ldc;
  call.alpha = x.alpha, call.beta = x.beta;
  if (std::string why = objection(x.layout, call, x.m, x.n, x.k, x.accumulator); !why.empty())
    return fail(LATHE_GEMM_INVALID, std::move(why));
  if (handle == nullptr) return fail(LATHE_GEMM_INVALID, "handle is null");
  call.m = static_cast<int>(x.m), call.n = static_cast<int>(x.n), call.k = static_cast<int>(x.k);
  request.problem = problem_of(static_cast<Layout>(x.layout), call);
  request.problem.workspace = true;
  request.problem.half_sums = x.accumulator == LATHE_GEMM_FP16;
  return LATHE_GEMM_OK;
}

lathe_gemm_status find(lathe_gemm_handle handle, const Problem& problem, const Kernel*& kernel) {
  const Image* const image = handle->image_of(problem);
  if (image == nullptr) return fail(LATHE_GEMM_INVALID, "the library has no kernel for this product");
  Code code = 0;
  kernel = handle->kernel_of(*image, code);
  return kernel ? LATHE_GEMM_OK : driver_failed(code, "loading " + name_of(image->plan));
}

}  // namespace

lathe_gemm_status lathe_gemm_create(lathe_gemm_handle* handle) {
  if (handle == nullptr) return fail(LATHE_GEMM_INVALID, "handle is null");
  *handle = nullptr;
  if (driver() == nullptr) return fail(LATHE_GEMM_NO_DEVICE, "no CUDA driver, or no GPU");
  Context context = nullptr;
  int device = 0, sm_count = 0, major = 0, minor = 0;
  if (driver()->context_current(&context) != 0 || context == nullptr ||
      driver()->context_device(&device) != 0)
    return fail(LATHE_GEMM_NO_DEVICE, "no CUDA context is current");
  driver()->device_attribute(&sm_count, DeviceAttribute::kMultiprocessors, device);
  driver()->device_attribute(&major, DeviceAttribute::kMajor, device);
  driver()->device_attribute(&minor, DeviceAttribute::kMinor, device);
  if (major < 8) return fail(LATHE_GEMM_NO_DEVICE, "the GPU is older than sm_80");
  // Machine code of sm_80 runs on all of 8.x; what is newer than sm_90 has neither.
  if (major > 9) return fail(LATHE_GEMM_NO_DEVICE, "the library has no machine code for this GPU");
  auto made = std::unique_ptr<lathe_gemm_handle_s>(new (std::nothrow) lathe_gemm_handle_s);
  if (!made) return fail(LATHE_GEMM_INVALID, "no memory for a handle");
  made->context = context;
  made->sm_count = sm_count;
  made->has_sm90 = major == 9 && minor == 0;
  *handle = made.release();
  return LATHE_GEMM_OK;
}

void lathe_gemm_destroy(lathe_gemm_handle handle) { delete handle; }

lathe_gemm_status lathe_hgemm(lathe_gemm_handle handle, lathe_gemm_layout layout, int64_t m, int64_t n,
                              int64_t k, float alpha, const void* a, int64_t lda, const void* b, int64_t ldb,
                              float beta, void* c, int64_t ldc, lathe_gemm_accumulator accumulator,
                              lathe_gemm_stream stream) {
  Request request;
  const Arguments arguments{layout, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, accumulator};
  if (const auto status = check(handle, arguments, request); status != LATHE_GEMM_OK || request.is_empty())
    return status;
  const Kernel* kernel = nullptr;
  if (const auto status = find(handle, request.problem, kernel); status != LATHE_GEMM_OK) return status;
  if (kernel->plan.gathers) {
    request.call.workspace = handle->workspaces.of(static_cast<Stream>(stream), request.bytes_of(*kernel));
    request.problem.workspace = request.call.workspace != 0;
    if (!request.problem.workspace)
      if (const auto status = find(handle, request.problem, kernel); status != LATHE_GEMM_OK) return status;
  }
  const Code code = launch(*kernel, request.call, handle->sm_count, static_cast<Stream>(stream));
  return code == 0 ? LATHE_GEMM_OK : driver_failed(code, "launching " + name_of(kernel->plan));
}

/// Without rows or columns it has no launch.
struct lathe_gemm_product_s {
  lathe_gemm_handle handle = nullptr;
  Prepared prepared;
  std::size_t bytes = 0;  ///< of workspace
  Prepared without;       ///< where there is no such workspace
};

lathe_gemm_status lathe_hgemm_prepare(lathe_gemm_handle handle, lathe_gemm_layout layout, int64_t m,
                                      int64_t n, int64_t k, float alpha, const void* a, int64_t lda,
                                      const void* b, int64_t ldb, float beta, void* c, int64_t ldc,
                                      lathe_gemm_accumulator accumulator, lathe_gemm_product* product) {
  if (product == nullptr) return fail(LATHE_GEMM_INVALID, "product is null");
  *product = nullptr;
  Request request;
  const Arguments arguments{layout, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, accumulator};
  if (const auto status = check(handle, arguments, request); status != LATHE_GEMM_OK) return status;
  auto made = std::unique_ptr<lathe_gemm_product_s>(new (std::nothrow) lathe_gemm_product_s);
  if (!made) return fail(LATHE_GEMM_INVALID, "no memory for a product");
  made->handle = handle;
  const auto prepare_with = [&](Prepared& prepared) {
    const Kernel* kernel = nullptr;
    if (const auto status = find(handle, request.problem, kernel); status != LATHE_GEMM_OK) return status;
    if (kernel->plan.gathers) made->bytes = request.bytes_of(*kernel);
    const Code code = prepare(*kernel, request.call, handle->sm_count, prepared);
    return code == 0 ? LATHE_GEMM_OK : driver_failed(code, "preparing " + name_of(kernel->plan));
  };
  if (!request.is_empty()) {
    if (const auto status = prepare_with(made->prepared); status != LATHE_GEMM_OK) return status;
    request.problem.workspace = false;
    if (made->bytes > 0)
      if (const auto status = prepare_with(made->without); status != LATHE_GEMM_OK) return status;
  }
  *product = made.release();
  return LATHE_GEMM_OK;
}

lathe_gemm_status lathe_gemm_run(lathe_gemm_product product, lathe_gemm_stream stream) {
  if (product == nullptr) return fail(LATHE_GEMM_INVALID, "product is null");
  if (product->prepared.function == nullptr) return LATHE_GEMM_OK;
  const auto on = static_cast<Stream>(stream);
  const DevicePointer workspace = product->bytes > 0 ? product->handle->workspaces.of(on, product->bytes) : 0;
  const bool served = product->bytes == 0 || workspace != 0;
  const Code code = launch(served ? product->prepared : product->without, workspace, on);
  return code == 0 ? LATHE_GEMM_OK : driver_failed(code, "launching a prepared product");
}

void lathe_gemm_product_destroy(lathe_gemm_product product) { delete product; }

size_t lathe_gemm_workspace_bytes(void) { return kWorkspaceBytes; }

lathe_gemm_status lathe_gemm_set_workspace(lathe_gemm_handle handle, lathe_gemm_stream stream, void* memory,
                                           size_t bytes) {
  if (memory != nullptr && bytes < static_cast<size_t>(kWorkspaceBytes))
    return fail(LATHE_GEMM_INVALID, "the workspace is less than lathe_gemm_workspace_bytes()");
  if (reinterpret_cast<DevicePointer>(memory) % 256 != 0)
    return fail(LATHE_GEMM_INVALID, "the workspace is not aligned to 256 bytes");
  if (handle == nullptr) return fail(LATHE_GEMM_INVALID, "handle is null");
  handle->workspaces.lend(static_cast<Stream>(stream), reinterpret_cast<DevicePointer>(memory));
  return LATHE_GEMM_OK;
}

const char* lathe_gemm_kernel(lathe_gemm_layout layout, int64_t m, int64_t n, int64_t k, int sm_count) {
  if (layout < LATHE_GEMM_NN || layout > LATHE_GEMM_TT || m < 1 || n < 1 || k < 0) return nullptr;
  // A packed matrix has aligned rows if its extents are multiples of eight.
  const auto kind = static_cast<Layout>(layout);
  const bool aligned = (a_along_k(kind) ? k : m) % 8 == 0 && (b_along_k(kind) ? k : n) % 8 == 0;
  const Image* const image = choose(library(), {kind, m, n, k, aligned, n % 8 == 0, true},
                                    sm_count > 0 ? sm_count : kCommonSmCount, true);
  if (image == nullptr) return nullptr;
  thread_local std::string name;
  name = name_of(image->plan);
  return name.c_str();
}

const char* lathe_gemm_last_error() { return last_error.c_str(); }

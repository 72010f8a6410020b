#include "train/gpu.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>

#include "base/gpu_uuid.h"
#include "sandbox/process.h"
#include "train/cuda/nccl_reducer.h"

namespace lathe::train {
namespace {

/// Of the GPU's part, which stays loaded.
Result<void*> symbol_of_gpu(const char* name) {
  LATHE_TRY(const std::string path, sibling_program("liblathe-torch-train-cuda.so"));
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Error{ErrorCode::kUnavailable, std::string("no GPU can be used: ") + ::dlerror(),
                 "install torch with its CUDA libraries, or use --device cpu"};
  void* const symbol = ::dlsym(library, name);
  if (!symbol) return Error{ErrorCode::kInternal, path + " is of another version"};
  return symbol;
}

}  // namespace

int gpu_count() { return at::detail::getCUDAHooks().deviceCount(); }

Result<const TokenKernels*> load_gpu(int index) {
  LATHE_TRY(void* const kernels, symbol_of_gpu("lathe_train_cuda_kernels"));
  const auto get = reinterpret_cast<const TokenKernels* (*)()>(kernels);
  const int count = gpu_count();
  if (count == 0) return Error{ErrorCode::kUnavailable, "LibTorch finds no GPU", "use --device cpu"};
  if (index >= count)
    return Error{ErrorCode::kUnavailable, fmt::format("LibTorch finds {} GPUs", count),
                 "give fewer --devices"};
  LATHE_TRY(void* const use, symbol_of_gpu("lathe_train_cuda_use"));
  if (index > 0 && !reinterpret_cast<bool (*)(int)>(use)(index))
    return Error{ErrorCode::kUnavailable, fmt::format("the GPU cuda:{} cannot be used", index)};
  return get();
}

Result<std::string> uuid_of_gpu() {
  LATHE_TRY(void* const uuid, symbol_of_gpu("lathe_train_cuda_uuid"));
  const auto read = reinterpret_cast<bool (*)(char*)>(uuid);
  std::array<char, 16> bytes{};
  if (!read(bytes.data())) return Error{ErrorCode::kUnavailable, "the GPU does not tell its UUID"};
  return gpu_uuid_text({bytes.data(), bytes.size()});
}

Result<std::unique_ptr<Reducer>> join_gpus(const Links& links) {
  LATHE_TRY(void* const functions, symbol_of_gpu("lathe_train_cuda_nccl"));
  const cuda::Nccl& nccl = *reinterpret_cast<const cuda::Nccl* (*)()>(functions)();
  cuda::NcclMeeting meeting{};
  if (links.rank() == 0) {
    LATHE_TRY(meeting, nccl.call_meeting());
  }
  LATHE_CHECK_OK(links.spread(std::as_writable_bytes(std::span(meeting))));
  return nccl.join({.meeting = meeting,
                    .rank = links.rank(),
                    .size = links.size(),
                    .processor = std::make_unique<LinkReducer>(links),
                    .broken = [&links] { return links.broken(); }});
}

}  // namespace lathe::train

#include "train/gpu.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>

#include <array>
#include <string>
#include <string_view>

#include "base/gpu_uuid.h"
#include "sandbox/process.h"

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

Result<const TokenKernels*> load_gpu() {
  LATHE_TRY(void* const kernels, symbol_of_gpu("lathe_train_cuda_kernels"));
  const auto get = reinterpret_cast<const TokenKernels* (*)()>(kernels);
  if (at::detail::getCUDAHooks().deviceCount() == 0)
    return Error{ErrorCode::kUnavailable, "LibTorch finds no GPU", "use --device cpu"};
  return get();
}

Result<std::string> uuid_of_gpu() {
  LATHE_TRY(void* const uuid, symbol_of_gpu("lathe_train_cuda_uuid"));
  const auto read = reinterpret_cast<bool (*)(char*)>(uuid);
  std::array<char, 16> bytes{};
  if (!read(bytes.data())) return Error{ErrorCode::kUnavailable, "the GPU does not tell its UUID"};
  return gpu_uuid_text({bytes.data(), bytes.size()});
}

}  // namespace lathe::train

#include "train/gpu.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>

#include <string>

#include "sandbox/process.h"

namespace lathe::train {

Result<const TokenKernels*> load_gpu() {
  LATHE_TRY(const std::string path, sibling_program("liblathe-torch-train-cuda.so"));
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Error{ErrorCode::kUnavailable, std::string("no GPU can be used: ") + ::dlerror(),
                 "install torch with its CUDA libraries, or use --device cpu"};
  using Get = const TokenKernels* (*)();
  const auto get = reinterpret_cast<Get>(::dlsym(library, "lathe_train_cuda_kernels"));
  if (!get) return Error{ErrorCode::kInternal, path + " is of another version"};
  if (at::detail::getCUDAHooks().deviceCount() == 0)
    return Error{ErrorCode::kUnavailable, "LibTorch finds no GPU", "use --device cpu"};
  return get();
}

}  // namespace lathe::train

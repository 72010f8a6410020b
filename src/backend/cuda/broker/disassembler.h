#pragma once

#include <memory>
#include <string>

#include "backend/compile_pool.h"

namespace lathe::cuda {

/// NVIDIA's nvdisasm, from the PATH, the CUDA toolkit, or PyPI's nvidia-cuda-nvdisasm or triton
/// where installed. It runs in a jail, because cubins are compiled from untrusted sources.
class Disassembler {
 public:
  /// kUnavailable if there is none. Copies the program to the cache, where the jail can read it.
  static Result<std::unique_ptr<Disassembler>> open(const std::string& runner_program,
                                                    const std::string& cache_folder);

  /// Disassembles all kernels. Thread-safe.
  Result<std::string> run(const std::string& cubin);

 private:
  Disassembler(const std::string& runner_program, const std::string& program)
      : workers_(runner_program, {"disassemble", program}) {}

  CompilePool workers_;
};

/// The path of nvdisasm, or "" if there is none.
std::string find_disassembler();

}  // namespace lathe::cuda

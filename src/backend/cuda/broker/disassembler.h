#pragma once

#include <memory>
#include <string>

#include "backend/compile_pool.h"

namespace lathe::cuda {

/// NVIDIA's nvdisasm, where the machine has one: on the PATH, in the CUDA toolkit, or in an installed triton.
/// A cubin is a compiler's output for untrusted text, so it runs in a jail.
class Disassembler {
 public:
  /// kUnavailable where there is none. A copy that the jail can read goes to the cache.
  static Result<std::unique_ptr<Disassembler>> open(const std::string& runner_program,
                                                    const std::string& cache_folder);

  /// The text of all kernels. Thread-safe.
  Result<std::string> run(const std::string& cubin);

 private:
  Disassembler(const std::string& runner_program, const std::string& program)
      : workers_(runner_program, {"disassemble", program}) {}

  CompilePool workers_;
};

/// The path of a program nvdisasm; "" where there is none.
std::string find_disassembler();

}  // namespace lathe::cuda

#pragma once

#include <gtest/gtest.h>

#include "backend/cuda/broker/disassembler.h"
#include "backend/cuda/broker/sass.h"
#include "backend/cuda/broker/toolchain.h"
#include "backend/installation.h"
#include "gemm/device.h"

namespace lathe::gemm {

/// Compiles as `lathe gemm` does, into a cache of its own.
class GemmCompiler {
 public:
  explicit GemmCompiler(const std::string& arch) {
    const auto runner = find_program("", "lathe-cuda-runner");
    const auto headers = device_header_folder();
    if (!runner.ok() || !headers.ok()) return;
    const std::string cache = testing::TempDir() + "lathe-gemm-cache";
    if (auto toolchain = cuda::Toolchain::create({*runner, *headers, cache, arch, kBuildTimeoutSeconds});
        toolchain.ok())
      toolchain_ = *std::move(toolchain);
    if (auto disassembler = cuda::Disassembler::open(*runner, cache); disassembler.ok())
      disassembler_ = *std::move(disassembler);
  }
  bool works() const { return toolchain_ != nullptr; }
  bool has_disassembler() const { return disassembler_ != nullptr; }

  Result<Build> operator()(const std::string& source, Inspect inspect) const {
    LATHE_TRY(const BuildResult built, toolchain_->build(source, {}));
    if (!built.ok) return invalid(built.facts.log);
    Build result{built.artifact.bytes, built.facts.facts};
    if (!disassembler_ || inspect == Inspect::kNo) return result;
    LATHE_TRY(const std::string sass, disassembler_->run(result.cubin));
    result.facts.merge(cuda::facts_of_sass(sass));
    return result;
  }

 private:
  static constexpr double kBuildTimeoutSeconds = 300;  ///< on a machine that is busy with other tests

  std::shared_ptr<cuda::Toolchain> toolchain_;
  std::shared_ptr<cuda::Disassembler> disassembler_;
};

}  // namespace lathe::gemm

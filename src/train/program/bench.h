#pragma once

#include <string>

#include "base/result.h"
#include "lm/decoder.h"
#include "train/token_kernels.h"

namespace lathe::train {

struct BenchOptions {
  std::string shape = "smollm2-135m";
  std::int64_t length = 1024;  ///< tokens of an example
  std::int64_t tokens = 65536;
  int steps = 10;
  bool adapter = false;
  std::string json;  ///< a file, "-" or nothing
};

/// Times whole training steps of random weights and tokens, and prints their TFLOP/s.
Status bench_training(const BenchOptions& options, const lm::DecoderOptions& placement,
                      const TokenKernels& kernels);

}  // namespace lathe::train

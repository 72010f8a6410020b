#pragma once

#include <string>

#include "base/result.h"

namespace lathe::lm {

/// The folder of LibTorch's libraries of the version that this program was built with: of
/// $LATHE_TORCH, of the torch that python3 has (first where there is a GPU, for only it has all of
/// CUDA's libraries), beside this program, or where it was built. The error lists where was looked.
Result<std::string> find_torch_libraries(const std::string& program_folder);

}  // namespace lathe::lm

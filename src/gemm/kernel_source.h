#pragma once

#include <string>

#include "gemm/runtime/plan.h"

namespace lathe::gemm {

enum class Element { kFp16, kBf16 };

/// CUDA C++ of a kernel named "gemm": one instantiation of a skeleton of device/lathe/cuda.
std::string kernel_source(const Plan& plan, Element element = Element::kFp16);

/// Whether sm_80 has all of its instructions.
bool is_portable(const Plan& plan);

}  // namespace lathe::gemm

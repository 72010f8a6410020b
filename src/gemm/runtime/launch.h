#pragma once

#include "gemm/runtime/driver.h"
#include "gemm/runtime/plan.h"

namespace lathe::gemm {

/// The arguments of a product, as GemmCall of gemm_output.cuh.
struct Call {
  DevicePointer a = 0, b = 0, c = 0;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  int m = 0, n = 0, k = 0;
  float alpha = 1, beta = 0;
  DevicePointer workspace = 0;  ///< 0: there is none
};
static_assert(sizeof(Call) == 80);

/// The product of `call` as kernels are chosen by it.
Problem problem_of(Layout layout, const Call& call);

/// A plan whose kernel is loaded.
struct Kernel {
  Plan plan;
  Module module = nullptr;
  Function function = nullptr;
};

/// The name of the kernel in every cubin.
inline constexpr const char* kKernelName = "gemm";

/// Loads a cubin into the current context.
Code load(const Plan& plan, const void* cubin, Kernel& kernel);

/// Enqueues it. Requires serves(kernel.plan, problem_of(layout, call)).
Code launch(const Kernel& kernel, const Call& call, int sm_count, Stream stream);

}  // namespace lathe::gemm

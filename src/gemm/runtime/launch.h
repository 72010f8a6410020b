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

  friend bool operator==(const Call&, const Call&) = default;
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

/// As TensorMap of tma.cuh.
struct alignas(64) Map {
  std::uint64_t opaque[16];
};

/// A product that is ready to be launched, any number of times, by several threads at once.
struct Prepared {
  Function function = nullptr;
  Call call;
  struct Maps {
    Map a, b, c;
  } maps = {};
  LaunchConfig config;
  unsigned cluster = 1;
};

/// Requires serves(kernel.plan, problem_of(layout, call)).
Code prepare(const Kernel& kernel, const Call& call, int sm_count, Prepared& prepared);

/// Enqueues it. `workspace` is for kernels that gather.
Code launch(const Prepared& prepared, DevicePointer workspace, Stream stream);

/// Both.
Code launch(const Kernel& kernel, const Call& call, int sm_count, Stream stream);

}  // namespace lathe::gemm

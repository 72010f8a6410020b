#include "gemm/runtime/launch.h"

#include <algorithm>

namespace lathe::gemm {
namespace {

/// As TensorMap of tma.cuh.
struct alignas(64) Map {
  std::uint64_t opaque[16];
};
struct Maps {
  Map a, b, c;
};

/// A matrix of `outer` rows of `inner` elements, in boxes of 64 (or 32) elements of `box_rows`
/// rows.
Code encode(Map& map, DevicePointer base, std::int64_t inner, std::int64_t outer, std::int64_t lead,
            int box_rows, int box_columns = 64) {
  constexpr int kFp16 = 6, kNoInterleave = 0, kSwizzle64 = 2, kSwizzle128 = 3, kPromoteTo256 = 3, kZeros = 0;
  const std::uint64_t dims[] = {static_cast<std::uint64_t>(inner), static_cast<std::uint64_t>(outer)};
  const std::uint64_t strides[] = {static_cast<std::uint64_t>(lead) * 2};
  const std::uint32_t box[] = {static_cast<std::uint32_t>(box_columns), static_cast<std::uint32_t>(box_rows)};
  const std::uint32_t ones[] = {1, 1};
  return driver()->tensor_map(&map, kFp16, 2, base, dims, strides, box, ones, kNoInterleave,
                              box_columns == 64 ? kSwizzle128 : kSwizzle64, kPromoteTo256, kZeros);
}

Code encode_all(Maps& maps, const Plan& plan, const Call& call) {
  Code code = a_along_k(plan.layout)
                  ? encode(maps.a, call.a, call.k, call.m, call.lda, plan.rows / plan.share_a)
                  : encode(maps.a, call.a, call.m, call.k, call.lda, 64);
  if (code == 0)
    code = b_along_k(plan.layout)
               ? encode(maps.b, call.b, call.k, call.n, call.ldb, plan.columns / plan.share_b)
               : encode(maps.b, call.b, call.n, call.k, call.ldb, 64);
  return code == 0 && maps_c(plan)
             ? encode(maps.c, call.c, call.n, call.m, call.ldc, 64, stored_columns_of(plan))
             : code;
}

bool is_aligned(DevicePointer base, std::int64_t lead) { return base % 16 == 0 && lead % 8 == 0; }

}  // namespace

Problem problem_of(Layout layout, const Call& call) {
  return {layout,
          call.m,
          call.n,
          call.k,
          is_aligned(call.a, call.lda) && is_aligned(call.b, call.ldb),
          is_aligned(call.c, call.ldc),
          call.workspace != 0};
}

Code load(const Plan& plan, const void* cubin, Kernel& kernel) {
  kernel.plan = plan;
  Code code = driver()->module_load(&kernel.module, cubin);
  if (code == 0) code = driver()->module_function(&kernel.function, kernel.module, kKernelName);
  if (code == 0)
    code = driver()->set_function_attribute(kernel.function, FunctionAttribute::kMaxDynamicShared,
                                            shared_bytes_of(plan));
  if (code == 0 && cluster_of(plan) > 8)
    code = driver()->set_function_attribute(kernel.function, FunctionAttribute::kNonPortableCluster, 1);
  return code;
}

Code launch(const Kernel& kernel, const Call& call, int sm_count, Stream stream) {
  const Plan& plan = kernel.plan;
  const Grid grid = grid_of(plan, problem_of(plan.layout, call), sm_count);
  LaunchAttribute cluster;
  cluster.cluster[0] = static_cast<unsigned>(cluster_of(plan));
  LaunchConfig config;
  config.grid[0] = grid.x, config.grid[1] = grid.y, config.grid[2] = grid.z;
  config.block[0] = static_cast<unsigned>(threads_of(plan));
  config.shared_bytes = static_cast<unsigned>(shared_bytes_of(plan));
  config.stream = stream;
  config.attributes = &cluster;
  config.attribute_count = cluster_of(plan) > 1 ? 1 : 0;
  Call copy = call;
  Maps maps = {};
  void* arguments[] = {&copy, &maps};
  if (plan.skeleton == Skeleton::kWgmma)
    if (const Code code = encode_all(maps, plan, call); code != 0) return code;
  return driver()->launch(&config, kernel.function, arguments, nullptr);
}

}  // namespace lathe::gemm

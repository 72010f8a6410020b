#include "gemm/runtime/launch.h"

#include <utility>

namespace lathe::gemm {
namespace {

constexpr int kFp16 = 6, kNoInterleave = 0, kSwizzle64 = 2, kSwizzle128 = 3, kPromoteTo256 = 3, kZeros = 0;

/// A matrix of `outer` rows of `inner` elements, in boxes of 64 (or 32) elements of `box_rows`
/// rows.
Code encode(Map& map, DevicePointer base, std::int64_t inner, std::int64_t outer, std::int64_t lead,
            int box_rows, int box_columns = 64) {
  const std::uint64_t dims[] = {static_cast<std::uint64_t>(inner), static_cast<std::uint64_t>(outer)};
  const std::uint64_t strides[] = {static_cast<std::uint64_t>(lead) * 2};
  const std::uint32_t box[] = {static_cast<std::uint32_t>(box_columns), static_cast<std::uint32_t>(box_rows)};
  const std::uint32_t ones[] = {1, 1};
  return driver()->tensor_map(&map, kFp16, 2, base, dims, strides, box, ones, kNoInterleave,
                              box_columns == 64 ? kSwizzle128 : kSwizzle64, kPromoteTo256, kZeros);
}

/// A matrix of `rows` rows of k elements, k in 64s as a third axis.
Code encode_in_64s(Map& map, DevicePointer base, std::int64_t k, std::int64_t rows, std::int64_t lead,
                   int box_rows, int box_64s) {
  const std::uint64_t dims[] = {64, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(k / 64)};
  const std::uint64_t strides[] = {static_cast<std::uint64_t>(lead) * 2, 128};
  const std::uint32_t box[] = {64, static_cast<std::uint32_t>(box_rows), static_cast<std::uint32_t>(box_64s)};
  const std::uint32_t ones[] = {1, 1, 1};
  return driver()->tensor_map(&map, kFp16, 3, base, dims, strides, box, ones, kNoInterleave, kSwizzle128,
                              kPromoteTo256, kZeros);
}

/// An operand, of which `share` blocks load a part each of the `extent` along M or N of a tile.
struct Operand {
  DevicePointer base;
  std::int64_t lead;
  int length;  ///< of M or N
  bool along_k;
};
Code encode(Map& map, const Plan& plan, const Operand& x, int k, int extent, int share) {
  if (!x.along_k) return encode(map, x.base, x.length, k, x.lead, plan.depth);
  if (maps_k_in_64s(plan))
    return encode_in_64s(map, x.base, k, x.length, x.lead, extent / share, share > 1 ? 1 : plan.depth / 64);
  return encode(map, x.base, k, x.length, x.lead, extent / share);
}

Code encode_all(Prepared::Maps& maps, const Plan& plan, const Call& call) {
  Operand a = {call.a, call.lda, call.m, a_along_k(plan.layout)};
  Operand b = {call.b, call.ldb, call.n, b_along_k(plan.layout)};
  if (plan.transposed) std::swap(a, b);
  Code code = encode(maps.a, plan, a, call.k, plan.rows, plan.share_a);
  if (code == 0) code = encode(maps.b, plan, b, call.k, plan.columns, plan.share_b);
  if (code != 0 || !maps_c(plan)) return code;
  const int stored = stored_columns_of(plan);
  return plan.transposed ? encode(maps.c, call.c, call.n, call.m, call.ldc, stored)
                         : encode(maps.c, call.c, call.n, call.m, call.ldc, 64, stored);
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

Code prepare(const Kernel& kernel, const Call& call, int sm_count, Prepared& prepared) {
  const Plan& plan = kernel.plan;
  const Grid grid = grid_of(plan, problem_of(plan.layout, call), sm_count);
  prepared.function = kernel.function;
  prepared.call = call;
  prepared.cluster = static_cast<unsigned>(cluster_of(plan));
  LaunchConfig& config = prepared.config;
  config.grid[0] = grid.x, config.grid[1] = grid.y, config.grid[2] = grid.z;
  config.block[0] = static_cast<unsigned>(threads_of(plan));
  config.shared_bytes = static_cast<unsigned>(shared_bytes_of(plan));
  return plan.skeleton == Skeleton::kWgmma ? encode_all(prepared.maps, plan, call) : 0;
}

Code launch(const Prepared& prepared, DevicePointer workspace, Stream stream) {
  LaunchAttribute cluster;
  cluster.cluster[0] = prepared.cluster;
  LaunchConfig config = prepared.config;
  config.stream = stream;
  config.attributes = &cluster;
  config.attribute_count = prepared.cluster > 1 ? 1 : 0;
  Call call = prepared.call;
  call.workspace = workspace;
  // The driver only reads arguments.
  void* arguments[] = {&call, const_cast<Prepared::Maps*>(&prepared.maps)};
  return driver()->launch(&config, prepared.function, arguments, nullptr);
}

Code launch(const Kernel& kernel, const Call& call, int sm_count, Stream stream) {
  Prepared prepared;
  if (const Code code = prepare(kernel, call, sm_count, prepared); code != 0) return code;
  return launch(prepared, call.workspace, stream);
}

}  // namespace lathe::gemm

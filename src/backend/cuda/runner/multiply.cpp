#include "backend/cuda/runner/multiply.h"

#include "backend/cuda/keeper_kernels.h"
#include "backend/cuda/runner/device_memory.h"
#include "sandbox/memfd.h"

namespace lathe::cuda {
namespace {

Result<DeviceMemory> room_for(const Driver& driver, std::uint64_t bytes) {
  const std::uint64_t pieces = (bytes + kAllocationBytes - 1) / kAllocationBytes;
  return DeviceMemory::create(driver, pieces * kAllocationBytes);
}

}  // namespace

Status multiply_matrices(const Driver& driver, Module kernels, const Product& product,
                         const UniqueFd& memory) {
  LATHE_TRY(const Mapping matrices, map_shared(memory, product.bytes(), true));
  LATHE_TRY(const DeviceMemory a, room_for(driver, product.a_bytes()));
  LATHE_TRY(const DeviceMemory b, room_for(driver, product.b_bytes()));
  LATHE_TRY(const DeviceMemory c, room_for(driver, product.c_bytes()));
  constexpr char kMoving[] = "cannot move a reference's matrices";
  std::byte* const host = matrices.data();
  LATHE_CHECK_OK(check(driver.copy_to_device(a.address(), host, product.a_bytes()), kMoving));
  LATHE_CHECK_OK(
      check(driver.copy_to_device(b.address(), host + product.a_bytes(), product.b_bytes()), kMoving));

  Function function = nullptr;
  const char* const kernel = product.element_bytes == 8 ? "multiply_double" : "multiply_float";
  LATHE_CHECK_OK(check(driver.module_function(&function, kernels, kernel), kernel));
  ProductArguments of{a.address(),
                      b.address(),
                      c.address(),
                      static_cast<std::int64_t>(product.m),
                      static_cast<std::int64_t>(product.n),
                      static_cast<std::int64_t>(product.k),
                      product.a_transposed,
                      product.b_transposed};
  const auto tiles = [](std::uint64_t extent) { return (extent + kProductTile - 1) / kProductTile; };
  LaunchConfig config;
  config.grid[0] = static_cast<unsigned>(tiles(product.m) * tiles(product.n));
  config.block[0] = kProductThreads;
  void* arguments[] = {&of};
  LATHE_CHECK_OK(check(driver.launch(&config, function, arguments, nullptr), kernel));
  return check(
      driver.copy_to_host(host + product.a_bytes() + product.b_bytes(), c.address(), product.c_bytes()),
      kMoving);
}

}  // namespace lathe::cuda

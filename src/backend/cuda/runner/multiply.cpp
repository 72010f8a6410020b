#include "backend/cuda/runner/multiply.h"

#include "backend/cuda/runner/device_memory.h"
#include "backend/cuda/wire/keeper_kernels.h"
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
  DeviceMemory offsets;
  if (product.gathered()) {
    LATHE_TRY(offsets, room_for(driver, product.offsets_bytes()));
  }
  LATHE_TRY(const DeviceMemory a, room_for(driver, product.a_bytes()));
  LATHE_TRY(const DeviceMemory b, room_for(driver, product.b_bytes()));
  LATHE_TRY(const DeviceMemory c, room_for(driver, product.c_bytes()));
  constexpr char kMoving[] = "cannot copy a reference's matrices";
  std::byte* host = matrices.data();
  const auto to_device = [&](const DeviceMemory& to, std::uint64_t bytes) {
    const std::byte* const from = host;
    host += bytes;
    return bytes == 0 ? Status(Ok{}) : check(driver.copy_to_device(to.address(), from, bytes), kMoving);
  };
  LATHE_CHECK_OK(to_device(offsets, product.offsets_bytes()));
  LATHE_CHECK_OK(to_device(a, product.a_bytes()));
  LATHE_CHECK_OK(to_device(b, product.b_bytes()));

  Function function = nullptr;
  const bool wide = product.element_bytes == 8;
  const char* const kernel = product.gathered() ? (wide ? "gather_double" : "gather_float")
                                                : (wide ? "multiply_double" : "multiply_float");
  LATHE_CHECK_OK(check(driver.module_function(&function, kernels, kernel), kernel));
  ProductArguments of{a.address(),
                      b.address(),
                      c.address(),
                      offsets.address(),
                      offsets.address() + product.k * sizeof(std::int64_t),
                      static_cast<std::int64_t>(product.m),
                      static_cast<std::int64_t>(product.n),
                      static_cast<std::int64_t>(product.k),
                      static_cast<std::int64_t>(product.images),
                      static_cast<std::int64_t>(product.image_elements),
                      product.a_transposed,
                      product.b_transposed};
  const auto tiles = [](std::uint64_t extent) { return (extent + kProductTile - 1) / kProductTile; };
  LaunchConfig config;
  config.grid[0] = static_cast<unsigned>(tiles(product.m) * tiles(product.images * product.n));
  config.block[0] = kProductThreads;
  void* arguments[] = {&of};
  LATHE_CHECK_OK(check(driver.launch(&config, function, arguments, nullptr), kernel));
  return check(driver.copy_to_host(host, c.address(), product.c_bytes()), kMoving);
}

}  // namespace lathe::cuda

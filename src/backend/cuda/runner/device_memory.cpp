#include "backend/cuda/runner/device_memory.h"

#include <utility>

#include "backend/cuda/wire/protocol.h"
#include "base/random.h"

namespace lathe::cuda {
namespace {

constexpr int kFileDescriptor = 1;
constexpr std::uint64_t kImportPlaces = 1 << 12;  // where in its range an import may lie

}  // namespace

Status open_device(const Driver& driver) {
  LATHE_CHECK_OK(check(driver.init(0), "cannot initialise the driver"));
  int device = 0;
  LATHE_CHECK_OK(check(driver.device_get(&device, 0), "cannot find a GPU"));
  constexpr unsigned kSpin = 1;  // a waiting thread polls: it must see the end at once
  Context context = nullptr;
  return check(driver.context_create(&context, kSpin, device), "cannot make a context");
}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(handle_, other.handle_);
  std::swap(bytes_, other.bytes_);
  std::swap(range_, other.range_);
  std::swap(range_bytes_, other.range_bytes_);
  std::swap(address_, other.address_);
  return *this;
}

DeviceMemory::~DeviceMemory() {
  if (!driver_) return;
  if (address_) driver_->memory_unmap(address_, bytes_);
  if (range_) driver_->address_free(range_, range_bytes_);
  driver_->memory_release(handle_);
}

Result<DeviceMemory> DeviceMemory::create(const Driver& driver, std::uint64_t bytes) {
  const AllocationProperties properties;
  AllocationHandle handle = 0;
  LATHE_CHECK_OK(
      check(driver.memory_create(&handle, bytes, &properties, 0), "cannot allocate device memory"));
  DeviceMemory memory(driver, handle, bytes);
  LATHE_CHECK_OK(memory.map(Access::kReadWrite, 1));
  return memory;
}

Result<DeviceMemory> DeviceMemory::import(const Driver& driver, const UniqueFd& shared, std::uint64_t bytes,
                                          Access access) {
  AllocationHandle handle = 0;
  void* const fd = reinterpret_cast<void*>(static_cast<std::intptr_t>(shared.get()));
  LATHE_CHECK_OK(check(driver.memory_import(&handle, fd, kFileDescriptor), "cannot import device memory"));
  DeviceMemory memory(driver, handle, bytes);
  LATHE_CHECK_OK(memory.map(access, kImportPlaces));
  return memory;
}

Status DeviceMemory::map(Access access, std::uint64_t places) {
  range_bytes_ = bytes_ + places * kAllocationBytes;
  LATHE_CHECK_OK(
      check(driver_->address_reserve(&range_, range_bytes_, 0, 0, 0), "cannot reserve device addresses"));
  const DevicePointer place = range_ + Rng(Seed::from_system()).below(places) * kAllocationBytes;
  LATHE_CHECK_OK(check(driver_->memory_map(place, bytes_, 0, handle_, 0), "cannot map device memory"));
  address_ = place;
  AccessDescription description;
  description.location = MemoryLocation{};
  description.access = access;
  return check(driver_->memory_access(address_, bytes_, &description, 1), "cannot set device access");
}

Result<UniqueFd> DeviceMemory::share() const {
  int fd = -1;
  LATHE_CHECK_OK(
      check(driver_->memory_export(&fd, handle_, kFileDescriptor, 0), "cannot export device memory"));
  return UniqueFd(fd);
}

}  // namespace lathe::cuda

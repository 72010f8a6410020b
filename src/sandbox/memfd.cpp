#include "sandbox/memfd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace lathe {

Mapping::~Mapping() {
  if (data_) ::munmap(data_, size_);
}

Result<UniqueFd> make_memfd(const char* name, std::size_t bytes) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return errno_error("cannot make shared memory");
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return errno_error("cannot size shared memory", "free memory, or use smaller shapes");
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    return errno_error("cannot seal shared memory");
  return fd;
}

Result<UniqueFd> make_sealed_memfd(const char* name, std::string_view bytes) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return errno_error("cannot make shared memory");
  LATHE_CHECK_OK(write_at(fd, 0, std::as_bytes(std::span(bytes))));
  constexpr int kAll = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
  if (::fcntl(fd.get(), F_ADD_SEALS, kAll) != 0) return errno_error("cannot seal shared memory");
  return fd;
}

Result<UniqueFd> reopen_read_only(const UniqueFd& fd) {
  UniqueFd copy(::open(("/proc/self/fd/" + std::to_string(fd.get())).c_str(), O_RDONLY | O_CLOEXEC));
  if (!copy.valid()) return errno_error("cannot reopen shared memory", "/proc must be mounted");
  return copy;
}

Status write_at(const UniqueFd& fd, std::size_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno_error("cannot fill shared memory", "free memory, or use smaller shapes");
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    offset += static_cast<std::size_t>(put);
  }
  return Ok{};
}

Result<Mapping> map_shared(const UniqueFd& fd, std::size_t bytes, bool writable) {
  if (bytes == 0) return Mapping();
  void* at = ::mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd.get(), 0);
  if (at == MAP_FAILED) return errno_error("cannot map shared memory");
  return Mapping(static_cast<std::byte*>(at), bytes);
}

Result<Mapping> reserve_addresses(std::size_t bytes) {
  if (bytes == 0) return Mapping();
  void* at = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return errno_error("cannot reserve addresses");
  return Mapping(static_cast<std::byte*>(at), bytes);
}

Status map_part(const Mapping& range, const UniqueFd& fd, std::size_t offset, std::size_t bytes,
                bool writable) {
  if (bytes == 0) return Ok{};
  void* const at = range.data() + offset;
  if (::mmap(at, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED | MAP_FIXED, fd.get(),
             static_cast<off_t>(offset)) == MAP_FAILED)
    return errno_error("cannot map shared memory");
  // A read fault maps many pages at once, and shared pages are mapped writable.
  if (::madvise(at, bytes, MADV_POPULATE_READ) != 0 && errno != EINVAL)
    return errno_error("cannot populate shared memory");
  return Ok{};
}

}  // namespace lathe

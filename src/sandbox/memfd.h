#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/fd.h"

namespace lathe {

/// Owns a memory mapping.
class Mapping {
 public:
  Mapping() = default;
  Mapping(std::byte* data, std::size_t size) : data_(data), size_(size) {}
  Mapping(Mapping&& other) noexcept { *this = std::move(other); }
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Mapping();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

inline constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t round_to_pages(std::size_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

/// Creates anonymous shared memory whose size is sealed.
Result<UniqueFd> make_memfd(const char* name, std::size_t bytes);
/// Creates a memfd with these bytes, sealed against all changes.
Result<UniqueFd> make_sealed_memfd(const char* name, std::string_view bytes);
/// A second descriptor of the same memory that can only be mapped read-only.
Result<UniqueFd> reopen_read_only(const UniqueFd& fd);
/// Writes to a memfd, which takes half as long as mapping it for a single copy.
Status write_at(const UniqueFd& fd, std::size_t offset, std::span<const std::byte> bytes);
Result<Mapping> map_shared(const UniqueFd& fd, std::size_t bytes, bool writable);
/// Reserves an address range where every access faults until something is mapped there.
Result<Mapping> reserve_addresses(std::size_t bytes);
/// Maps a page-aligned part of a memfd at the same offset of `range`, with its page tables
/// populated.
Status map_part(const Mapping& range, const UniqueFd& fd, std::size_t offset, std::size_t bytes,
                bool writable);

}  // namespace lathe

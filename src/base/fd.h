#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace lathe {

/// Owns a file descriptor.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset();

 private:
  int fd_ = -1;
};

/// The whole file as bytes; the error names the path. Files from users have a bound, for /dev/zero
/// has no end. Errors: kNotFound, kIo, kInvalid for a folder and beyond `most_bytes`, kUnavailable
/// where memory does not suffice.
Result<std::string> read_file(const std::string& path,
                              std::size_t most_bytes = std::numeric_limits<std::size_t>::max());
/// Writes a temporary file beside `path`, syncs it and renames it over `path`: readers see either
/// the old contents or the new.
Status write_file_atomically(const std::string& path, std::string_view bytes);
Status make_directories(const std::string& path);

}  // namespace lathe

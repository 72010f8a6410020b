#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace lathe {

/// A folder of one's own in TMPDIR or /tmp, removed by the destructor with what is in it.
class TemporaryFolder {
 public:
  /// `name` is how its own begins. Errors: kIo, with a hint.
  static Result<TemporaryFolder> make(std::string_view name);
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace lathe

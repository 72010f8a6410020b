#pragma once

#include <string>
#include <string_view>

#include "base/digest.h"

namespace lathe {

/// Content-addressed files: "<folder>/ab/cdef...", named by the digest of their bytes, published by
/// atomic rename, verified whenever they are read. Thread-safe; processes may share a folder.
class BlobFolder {
 public:
  explicit BlobFolder(std::string folder) : folder_(std::move(folder)) {}

  /// Writes nothing if a sound copy is there; replaces a damaged one.
  Result<Digest> put(std::string_view bytes) const;
  /// Errors: kNotFound; kCorrupt, which names the file.
  Result<std::string> get(const Digest& digest) const;
  std::string path_of(const Digest& digest) const;

 private:
  std::string folder_;
};

}  // namespace lathe

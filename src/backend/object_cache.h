#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/digest.h"
#include "base/fd.h"
#include "base/result.h"

namespace lathe {

/// A folder "<parent>/work-XXXXXX" for temporary files. It goes with its owner; one whose process was killed
/// goes when the next is made, which tells by the lock that a living owner holds.
class WorkFolder {
 public:
  WorkFolder() = default;
  static Result<WorkFolder> make(const std::string& parent);
  WorkFolder(WorkFolder&&) = default;
  WorkFolder& operator=(WorkFolder&&) = default;
  ~WorkFolder();

  const std::string& path() const { return path_; }

 private:
  UniqueFd lock_;
  std::string path_;
};

/// Compiled objects by the digest of all that went into them, shared by any number of processes. Thread-safe.
class ObjectCache {
 public:
  static Result<ObjectCache> open(const std::string& folder);

  std::optional<std::string> find(const Digest& key) const;
  /// Atomic, as others read the cache. An object that cannot be kept costs another build, no more.
  void publish(const Digest& key, const std::string& bytes) const;
  /// A folder `name` in the cache that `fill` makes once: staged elsewhere, then moved. Its path.
  Result<std::string> publish_folder(const std::string& name,
                                     const std::function<Status(const std::string& staging)>& fill) const;
  /// A folder of this process alone.
  const std::string& work_folder() const { return work_folder_.path(); }

 private:
  ObjectCache() = default;
  std::string path(const Digest& key) const { return folder_ + "/object-" + key.hex(); }

  std::string folder_;
  WorkFolder work_folder_;
};

/// The digest of every file below a folder, by relative path.
Digest folder_digest(const std::string& folder);
/// Copies all of `from` into the existing folder `to`.
Status copy_folder(const std::string& from, const std::string& to);

/// $LATHE_CACHE, else /var/cache/lathe for root, else $XDG_CACHE_HOME/lathe or ~/.cache/lathe.
std::string default_cache_folder();

}  // namespace lathe

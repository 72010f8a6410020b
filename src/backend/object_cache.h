#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/digest.h"
#include "base/fd.h"
#include "base/result.h"

namespace lathe {

/// A temporary folder "<parent>/work-XXXXXX", removed with its owner. make() also removes folders
/// that killed processes left behind, which it recognises by their free lock.
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

/// Compiled objects keyed by the digest of all build inputs, shared between processes. What is
/// damaged counts as missing. Thread-safe.
class ObjectCache {
 public:
  /// `folder` is an absolute path. Errors: kUnavailable where others may write to it.
  static Result<ObjectCache> open(const std::string& folder);

  std::optional<std::string> find(const Digest& key) const;
  /// Atomic, because other processes read the cache. Best effort: a failed write only costs another
  /// build.
  void publish(const Digest& key, const std::string& bytes) const;
  /// Returns the path of the cache's folder `name`. If it does not exist, or its files are not
  /// those that were published, `fill` populates a staging folder, which is then renamed into
  /// place.
  Result<std::string> publish_folder(const std::string& name,
                                     const std::function<Status(const std::string& staging)>& fill) const;
  /// Private to this process.
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

/// $LATHE_CACHE, else /var/cache/lathe for root, else $XDG_CACHE_HOME/lathe or ~/.cache/lathe; an
/// absolute path. Errors: kUnavailable for a user without a home.
Result<std::string> default_cache_folder();

}  // namespace lathe

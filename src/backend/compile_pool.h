#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backend/compile_job.h"
#include "backend/work_folder.h"
#include "base/cancel.h"
#include "base/digest.h"
#include "sandbox/process.h"

namespace lathe {

struct CompiledObject {
  protocol::CompileReply reply;
  std::string bytes;  ///< empty unless reply.ok; not to be trusted
};

/// Compile jails: a persistent jailed worker for each concurrent build, as many as this process may use
/// processors. Thread-safe.
class CompilePool {
 public:
  /// `program` and `args` start a worker, which speaks CompileJob and CompileReply.
  CompilePool(std::string program, std::vector<std::string> args);

  /// An Error is the machine's fault, or kCancelled: then the worker is killed.
  Result<CompiledObject> run(const protocol::CompileJob& job, const CancelToken& cancel);

 private:
  Result<CompiledObject> run_on(HelperProcess worker, const protocol::CompileJob& job,
                                const CancelToken& cancel);

  std::string program_;
  std::vector<std::string> args_;
  int most_;
  std::mutex mutex_;
  std::condition_variable returned_;
  int busy_ = 0;
  std::vector<HelperProcess> idle_;
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

#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/compile_pool.h"
#include "backend/object_cache.h"

namespace lathe {

/// What a shop is made of, each time that it is made.
struct CompileShopOptions {
  std::string cache_folder;
  std::string header_name;  ///< of the folder of headers in the cache
  std::function<Status(const std::string& staging)> fill_headers;
  std::string runner_program;
  /// Of a compile worker.
  std::function<std::vector<std::string>(const std::string& work_folder, const std::string& header_folder)>
      worker_args;
  std::vector<int> worker_processors = {};  ///< where they run; empty: anywhere
};

/// The cache, the headers in it, and the jailed compilers that read them. Somebody may delete or
/// damage these files at any time: a compilation that fails then is no fault of its source, so the
/// shop is made anew and the job done again. Thread-safe.
class CompileShop {
 public:
  static Result<std::unique_ptr<CompileShop>> open(CompileShopOptions options);

  /// As CompilePool::run(). "-I" of the headers is the first flag.
  Result<CompiledObject> run(protocol::CompileJob job, const CancelToken& cancel);
  std::optional<std::string> find(const Digest& key) const { return current()->cache.find(key); }
  void publish(const Digest& key, const std::string& bytes) const { current()->cache.publish(key, bytes); }
  const std::string& header_folder() const { return header_folder_; }

 private:
  struct Rooms {
    ObjectCache cache;  ///< outlives the workers that write to its folder
    std::string headers_state;
    std::unique_ptr<CompilePool> workers;
  };

  explicit CompileShop(CompileShopOptions options);
  std::shared_ptr<const Rooms> current() const;
  Result<std::shared_ptr<const Rooms>> make_rooms() const;
  bool intact(const Rooms& rooms) const;
  /// Replaces `lost`, unless another thread has done so.
  Status renew(const std::shared_ptr<const Rooms>& lost);

  const CompileShopOptions options_;
  const std::string header_folder_;
  mutable std::mutex mutex_;  ///< guards rooms_
  std::shared_ptr<const Rooms> rooms_;
};

}  // namespace lathe

#include "backend/compile_shop.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>

namespace lathe {
namespace {

namespace fs = std::filesystem;

/// Which files are below a folder, and when they were written: cheap enough to ask after a failed
/// build.
std::string state_of(const std::string& folder) {
  std::map<std::string, std::string> files;
  std::error_code code;
  for (fs::recursive_directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    struct stat meta {};
    if (::stat(it->path().c_str(), &meta) != 0 || !S_ISREG(meta.st_mode)) continue;
    files[it->path().string()] =
        fmt::format("{} {} {}.{}", meta.st_ino, meta.st_size, meta.st_mtim.tv_sec, meta.st_mtim.tv_nsec);
  }
  std::string state;
  for (const auto& [name, facts] : files) state += name + " " + facts + "\n";
  return state;
}

}  // namespace

CompileShop::CompileShop(CompileShopOptions options)
    : options_(std::move(options)), header_folder_(options_.cache_folder + "/" + options_.header_name) {}

Result<std::unique_ptr<CompileShop>> CompileShop::open(CompileShopOptions options) {
  std::unique_ptr<CompileShop> shop(new CompileShop(std::move(options)));
  LATHE_TRY(shop->rooms_, shop->make_rooms());
  return shop;
}

Result<CompiledObject> CompileShop::run(protocol::CompileJob job, const CancelToken& cancel) {
  job.flags.insert(job.flags.begin(), "-I" + header_folder_);
  constexpr int kTries = 3;
  for (int i = 0; i < kTries; ++i) {
    const auto rooms = current();
    auto object = rooms->workers->run(job, cancel);
    const bool answered = object.ok() && (object->reply.ok || object->reply.timed_out);
    if (answered || cancel.cancelled() || intact(*rooms)) return object;
    LATHE_CHECK_OK(renew(rooms));
  }
  return Error{ErrorCode::kUnavailable,
               "the cache '" + options_.cache_folder + "' is changed again and again",
               "set LATHE_CACHE to a folder that nothing else touches"};
}

std::shared_ptr<const CompileShop::Rooms> CompileShop::current() const {
  std::lock_guard lock(mutex_);
  return rooms_;
}

Result<std::shared_ptr<const CompileShop::Rooms>> CompileShop::make_rooms() const {
  LATHE_TRY(ObjectCache cache, ObjectCache::open(options_.cache_folder));
  LATHE_CHECK_OK(cache.publish_folder(options_.header_name, options_.fill_headers));
  auto workers = std::make_unique<CompilePool>(options_.runner_program,
                                               options_.worker_args(cache.work_folder(), header_folder_),
                                               options_.worker_processors);
  return std::make_shared<const Rooms>(Rooms{std::move(cache), state_of(header_folder_), std::move(workers)});
}

bool CompileShop::intact(const Rooms& rooms) const {
  return ::access(rooms.cache.work_folder().c_str(), F_OK) == 0 &&
         state_of(header_folder_) == rooms.headers_state;
}

Status CompileShop::renew(const std::shared_ptr<const Rooms>& lost) {
  std::lock_guard lock(mutex_);
  if (rooms_ != lost) return Ok{};
  LATHE_TRY(rooms_, make_rooms());
  return Ok{};
}

}  // namespace lathe

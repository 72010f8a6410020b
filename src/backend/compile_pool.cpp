#include "backend/compile_pool.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/clock.h"
#include "base/processors.h"
#include "sandbox/memfd.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;

constexpr double kReplySeconds = 10;  // that a worker may take beyond the compiler's own limit
constexpr int kCancelPollMs = 50;

Error cancelled() { return {ErrorCode::kCancelled, "the build was cancelled"}; }

Result<Frame> await_reply(const HelperProcess& worker, double seconds, const CancelToken& cancel) {
  const auto deadline_ns = steady_clock().now_ns() + static_cast<std::int64_t>(seconds * 1e9);
  for (;;) {
    auto frame = worker.channel().receive(kCancelPollMs);
    if (frame.ok() || frame.error().code != ErrorCode::kTimeout) return frame;
    if (cancel.cancelled()) return cancelled();
    if (steady_clock().now_ns() > deadline_ns) return frame;
  }
}

}  // namespace

std::string default_cache_folder() {
  if (const char* chosen = std::getenv("LATHE_CACHE"); chosen && *chosen) return chosen;
  if (::geteuid() == 0) return "/var/cache/lathe";
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg) return std::string(xdg) + "/lathe";
  const char* home = std::getenv("HOME");
  return std::string(home ? home : "/tmp") + "/.cache/lathe";
}

Digest folder_digest(const std::string& folder) {
  std::map<std::string, std::string> files;
  std::error_code code;
  for (const auto& entry : fs::recursive_directory_iterator(folder, code)) {
    if (!entry.is_regular_file()) continue;
    auto bytes = read_file(entry.path().string());
    files[fs::relative(entry.path(), folder).string()] = bytes.ok() ? *std::move(bytes) : "";
  }
  Hasher hasher;
  for (const auto& [name, bytes] : files) hasher.add(name).add(bytes);
  return hasher.finish();
}

Status copy_folder(const std::string& from, const std::string& to) {
  std::error_code code;
  fs::copy(from, to, fs::copy_options::recursive, code);
  if (code) return Error{ErrorCode::kIo, "cannot copy '" + from + "': " + code.message(), "reinstall Lathe"};
  return Ok{};
}

CompilePool::CompilePool(std::string program, std::vector<std::string> args)
    : program_(std::move(program)),
      args_(std::move(args)),
      most_(std::max(1, static_cast<int>(usable_processors().size()))) {}

Result<CompiledObject> CompilePool::run(const protocol::CompileJob& job, const CancelToken& cancel) {
  std::optional<HelperProcess> worker;
  {
    std::unique_lock lock(mutex_);
    while (busy_ >= most_ && !cancel.cancelled())
      returned_.wait_for(lock, std::chrono::milliseconds(kCancelPollMs));
    if (cancel.cancelled()) return cancelled();
    ++busy_;
    if (!idle_.empty()) {
      worker.emplace(std::move(idle_.back()));
      idle_.pop_back();
    }
  }
  auto object = [&]() -> Result<CompiledObject> {
    if (!worker) {
      LATHE_TRY(HelperProcess fresh, HelperProcess::spawn(program_, args_));
      worker.emplace(std::move(fresh));
    }
    return run_on(*std::move(worker), job, cancel);
  }();
  std::lock_guard lock(mutex_);
  --busy_;
  returned_.notify_one();
  return object;
}

Result<CompiledObject> CompilePool::run_on(HelperProcess worker, const protocol::CompileJob& job,
                                           const CancelToken& cancel) {
  LATHE_TRY(const UniqueFd payload, make_sealed_memfd("job", protocol::encode(job)));
  LATHE_CHECK_OK(worker.channel().send("compile", {payload.get()}));
  LATHE_TRY(const Frame frame, await_reply(worker, job.timeout_seconds + kReplySeconds,
                                           cancel));  // else the worker is killed
  CompiledObject object;
  LATHE_TRY(object.reply, protocol::decode_compile_reply(frame.bytes));
  {
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(worker));
  }
  if (object.reply.infra)
    return Error{ErrorCode::kUnavailable, "the compile jail failed: " + object.reply.log, "run lathe doctor"};
  object.reply.ok = object.reply.ok && frame.fds.size() == 1;
  if (!object.reply.ok) return object;
  const off_t size = ::lseek(frame.fds[0].get(), 0, SEEK_END);
  LATHE_TRY(const Mapping mapped, map_shared(frame.fds[0], static_cast<std::size_t>(size), false));
  object.bytes.assign(reinterpret_cast<const char*>(mapped.data()), mapped.size());
  return object;
}

Result<ObjectCache> ObjectCache::open(const std::string& folder) {
  ObjectCache cache;
  cache.folder_ = folder;
  LATHE_TRY(cache.work_folder_, WorkFolder::make(folder));
  return cache;
}

std::optional<std::string> ObjectCache::find(const Digest& key) const {
  auto bytes = read_file(path(key));
  return bytes.ok() ? std::optional(*std::move(bytes)) : std::nullopt;
}

Result<std::string> ObjectCache::publish_folder(
    const std::string& name, const std::function<Status(const std::string& staging)>& fill) const {
  const std::string folder = folder_ + "/" + name, staging = work_folder() + "/staging";
  std::error_code code;
  if (fs::exists(folder, code)) return folder;
  LATHE_CHECK_OK(make_directories(staging));
  Status filled = fill(staging);
  if (filled.ok()) fs::rename(staging, folder, code);
  if (!filled.ok() || code) fs::remove_all(staging, code);  // another process may have been faster
  LATHE_CHECK_OK(std::move(filled));
  if (!fs::exists(folder, code)) return Error{ErrorCode::kIo, "cannot publish " + folder};
  return folder;
}

void ObjectCache::publish(const Digest& key, const std::string& bytes) const {
  const std::string draft = work_folder() + "/object-" + key.hex();
  if (write_file_atomically(draft, bytes).ok()) (void)::rename(draft.c_str(), path(key).c_str());
}

}  // namespace lathe

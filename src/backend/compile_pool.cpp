#include "backend/compile_pool.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/clock.h"
#include "base/processors.h"
#include "sandbox/memfd.h"

namespace lathe {
namespace {

constexpr double kReplySeconds = 10;  // grace after the compiler's own time limit
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

CompilePool::CompilePool(std::string program, std::vector<std::string> args, std::vector<int> processors)
    : program_(std::move(program)),
      args_(std::move(args)),
      processors_(std::move(processors)),
      most_(std::max(
          1, static_cast<int>(processors_.empty() ? usable_processors().size() : processors_.size()))) {}

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
      const ThreadPlacement inherited(processors_);
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
  const int compilers = job.cuda.nvcc.empty() ? 1 : 2;
  LATHE_TRY(const Frame frame,
            await_reply(worker, compilers * kMostWait * job.timeout_seconds + kReplySeconds,
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

}  // namespace lathe

#include "backend/cuda/broker/launcher_pool.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "backend/cuda/wire/protocol.h"

namespace lathe::cuda {
namespace {

// A context is made in a tenth of a second, one after the other: as many as lanes may want at once.
constexpr std::size_t kMostSpareLaunchers = 6;
// A quarter of the device's memory is for contexts that are kept; and a host's driver makes some
// 200 contexts, those of all its GPUs together, before it makes none.
constexpr std::size_t kLeastUsedLaunchers = 8, kMostUsedLaunchers = 48, kMostUsedOfHost = 96;
constexpr std::int64_t kBytesOfContext = 640 << 20;
constexpr std::int64_t kShareForContexts = 4;

/// Whoever may use them.
std::size_t gpus_of_host() {
  std::size_t count = 0;
  while (::access(fmt::format("/dev/nvidia{}", count).c_str(), F_OK) == 0) ++count;
  return std::max<std::size_t>(1, count);
}

}  // namespace

std::size_t launchers_worth_keeping(std::int64_t memory_bytes, std::size_t gpus) {
  const auto fitting = static_cast<std::size_t>(memory_bytes / kShareForContexts / kBytesOfContext);
  return std::clamp(std::min(fitting, kMostUsedOfHost / gpus), kLeastUsedLaunchers, kMostUsedLaunchers);
}

SpareLaunchers::SpareLaunchers(std::string program, std::vector<std::string> args,
                               std::vector<std::string> environment,
                               std::shared_ptr<const KeeperClient> keeper)
    : program_(std::move(program)),
      args_(std::move(args)),
      environment_(std::move(environment)),
      keeper_(std::move(keeper)),
      spares_allowed_(kMostSpareLaunchers),
      used_allowed_(launchers_worth_keeping(keeper_->facts().memory_bytes, gpus_of_host())) {}

Status SpareLaunchers::set_scrubber(const std::string& cubin) {
  LATHE_TRY(scrubber_, make_sealed_memfd("scrub", cubin));
  std::lock_guard lock(mutex_);
  return fill_up(spares_allowed_.now());
}

/// The one with that load; else the longest unused one: loading another takes a fifth of the time
/// that a context does, and contexts are made one after the other.
std::deque<SpareLaunchers::Used>::iterator SpareLaunchers::find_used(const LauncherOwner& owner,
                                                                     const Digest& load) {
  const auto fits = [&](const Used& used) { return owner.accepts(used.first); };
  const auto loaded =
      std::ranges::find_if(used_, [&](const Used& used) { return fits(used) && used.second.has(load); });
  if (loaded != used_.end()) return loaded;
  return std::ranges::find_if(used_, fits);
}

Result<LoadedLauncher> SpareLaunchers::take(const LauncherOwner& owner, const Digest& load) {
  std::lock_guard lock(mutex_);
  if (const auto now = keeper_->generation(); now != generation_) {  // their contexts went with the device
    spares_.clear();
    used_.clear();
    generation_ = now;
  }
  if (const auto used = find_used(owner, load); used != used_.end()) {
    LoadedLauncher launcher = std::move(used->second);
    used_.erase(used);
    return launcher;
  }
  spares_allowed_.grow_when_calm();
  used_allowed_.grow_when_calm();
  LATHE_CHECK_OK(fill_up(1));
  LoadedLauncher launcher{std::move(spares_.front())};
  spares_.pop_front();
  (void)fill_up(spares_allowed_.now());  // whoever finds none is told why
  return launcher;
}

void SpareLaunchers::give_back(const LauncherOwner& owner, LoadedLauncher launcher) {
  std::lock_guard lock(mutex_);
  used_.emplace_back(owner, std::move(launcher));
  if (used_.size() <= used_allowed_.now()) return;
  begin_to_end(std::move(used_.front().second));
  used_.pop_front();
}

void SpareLaunchers::end_idle() {
  std::lock_guard lock(mutex_);
  for (HelperProcess& spare : spares_) spare.begin_kill();
  for (Used& used : used_) used.second.process.begin_kill();
  spares_.clear();
  used_.clear();
  ending_.clear();
  spares_allowed_.halve();
  used_allowed_.halve();
}

void SpareLaunchers::end(const std::string& candidate) {
  std::lock_guard lock(mutex_);
  for (auto one = used_.begin(); one != used_.end();) {
    const bool ends = !one->first.shared() && one->first.candidate == candidate;
    if (ends) begin_to_end(std::move(one->second));
    one = ends ? used_.erase(one) : std::next(one);
  }
}

void SpareLaunchers::begin_to_end(LoadedLauncher launcher) {
  launcher.process.begin_kill();
  ending_.push_back(std::move(launcher.process));
  std::erase_if(ending_, [](HelperProcess& one) { return one.has_ended(); });
}

Status SpareLaunchers::fill_up(std::size_t spares) {
  while (spares_.size() < spares) {
    LATHE_TRY(HelperProcess spare, HelperProcess::spawn(program_, args_, environment_));
    LATHE_CHECK_OK(spare.channel().send(kWarmFrame, {scrubber_.get()}));
    spares_.push_back(std::move(spare));
  }
  return Ok{};
}

}  // namespace lathe::cuda

#include "backend/cuda/broker/launcher_pool.h"

#include <algorithm>

#include "backend/cuda/wire/protocol.h"

namespace lathe::cuda {
namespace {

// A context is made in a tenth of a second, one after the other: as many as lanes may want at once.
constexpr std::size_t kSpareLaunchers = 6;
constexpr std::size_t kUsedLaunchers = 48;  // most of them of baselines, which every lane needs

}  // namespace

SpareLaunchers::SpareLaunchers(std::string program, std::vector<std::string> args,
                               std::shared_ptr<const KeeperClient> keeper)
    : program_(std::move(program)), args_(std::move(args)), keeper_(std::move(keeper)) {}

Status SpareLaunchers::set_scrubber(const std::string& cubin) {
  LATHE_TRY(scrubber_, make_sealed_memfd("scrub", cubin));
  std::lock_guard lock(mutex_);
  return fill_up(kSpareLaunchers);
}

Result<LoadedLauncher> SpareLaunchers::take(const std::string& owner, Runner runner, const Digest& load) {
  std::lock_guard lock(mutex_);
  if (const auto now = keeper_->generation(); now != generation_) {  // their contexts went with the device
    spares_.clear();
    used_.clear();
    generation_ = now;
  }
  const auto mine = [&](const auto& one) { return one.first == owner; };
  auto used =
      std::ranges::find_if(used_, [&](const auto& one) { return mine(one) && one.second.loaded == load; });
  if (used == used_.end()) used = std::ranges::find_if(used_, mine);
  if (runner == Runner::kOwn && used != used_.end()) {
    LoadedLauncher launcher = std::move(used->second);
    used_.erase(used);
    return launcher;
  }
  LATHE_CHECK_OK(fill_up(1));
  LoadedLauncher launcher{std::move(spares_.front())};
  spares_.pop_front();
  (void)fill_up(kSpareLaunchers);  // whoever finds none is told why
  return launcher;
}

void SpareLaunchers::give_back(const std::string& owner, LoadedLauncher launcher) {
  std::lock_guard lock(mutex_);
  used_.emplace_back(owner, std::move(launcher));
  if (used_.size() <= kUsedLaunchers) return;
  begin_to_end(std::move(used_.front().second));
  used_.pop_front();
}

void SpareLaunchers::end(const std::string& owner) {
  std::lock_guard lock(mutex_);
  for (auto one = used_.begin(); one != used_.end();) {
    if (one->first == owner) begin_to_end(std::move(one->second));
    one = one->first == owner ? used_.erase(one) : std::next(one);
  }
}

void SpareLaunchers::begin_to_end(LoadedLauncher launcher) {
  launcher.process.begin_kill();
  ending_.push_back(std::move(launcher.process));
  std::erase_if(ending_, [](HelperProcess& one) { return one.has_ended(); });
}

Status SpareLaunchers::fill_up(std::size_t spares) {
  while (spares_.size() < spares) {
    LATHE_TRY(HelperProcess spare, HelperProcess::spawn(program_, args_));
    LATHE_CHECK_OK(spare.channel().send(kWarmFrame, {scrubber_.get()}));
    spares_.push_back(std::move(spare));
  }
  return Ok{};
}

}  // namespace lathe::cuda

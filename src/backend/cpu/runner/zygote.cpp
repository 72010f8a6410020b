#include "backend/cpu/runner/zygote.h"

#include <immintrin.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backend/cpu/runner/fault_report.h"
#include "backend/cpu/runner/program.h"

namespace lathe {
namespace {

Result<Mapping> map_region(const UniqueFd& fd, const protocol::Region& region, std::uint32_t trials,
                           bool writable) {
  LATHE_TRY(Mapping mapping, map_shared(fd, region.total_bytes, writable));
  for (std::uint32_t trial = 0; trial < trials; ++trial)
    for (const std::uint64_t guard : region.guards)
      if (::mprotect(mapping.data() + trial * region.stride + guard, kPageBytes, PROT_NONE) != 0)
        return errno_error("cannot guard a buffer",
                           "the machine allows too few mappings: raise vm.max_map_count");
  return mapping;
}

Result<Mapping> map_scratch(std::uint64_t bytes) {
  const std::size_t size = round_to_pages(bytes) + kPageBytes;
  void* at =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return errno_error("cannot map scratch");
  ::mprotect(static_cast<std::byte*>(at) + round_to_pages(bytes), kPageBytes, PROT_NONE);
  ::madvise(at, round_to_pages(bytes), MADV_HUGEPAGE);
  return Mapping(static_cast<std::byte*>(at), size);
}

Status populate_region(const Mapping& mapping, const protocol::Region& region, std::uint32_t trial,
                       int advice) {
  for (std::size_t i = 0; i < region.offsets.size(); ++i) {
    const std::uint64_t begin = (trial * region.stride + region.offsets[i]) / kPageBytes * kPageBytes;
    const std::uint64_t end = round_to_pages(trial * region.stride + region.offsets[i] + region.sizes[i]);
    if (end > begin && ::madvise(mapping.data() + begin, end - begin, advice) != 0 && errno != EINVAL)
      return errno_error("cannot populate a buffer");
  }
  return Ok{};
}

/// Takes every trial out of reach that is not in `trials` (ascending).
Status hide_all_but(const Mapping& mapping, const protocol::Region& region, std::uint32_t count,
                    const std::vector<std::uint32_t>& trials) {
  std::uint32_t begin = 0;
  for (std::size_t i = 0; i <= trials.size(); ++i) {
    const std::uint32_t end = i < trials.size() ? trials[i] : count;
    if (end > begin &&
        ::mprotect(mapping.data() + begin * region.stride, (end - begin) * region.stride, PROT_NONE) != 0)
      return errno_error("cannot hide other trials");
    begin = end + 1;
  }
  return Ok{};
}

/// Reads every line once.
void touch(const std::byte* at, std::uint64_t bytes) {
  constexpr std::uint64_t kLine = 64;
  for (std::uint64_t i = 0; i < bytes; i += kLine)
    static_cast<void>(*reinterpret_cast<const volatile std::byte*>(at + i));
}

bool is_zero(const std::byte* at, std::size_t bytes) {
  return bytes == 0 || (at[0] == std::byte{0} && std::memcmp(at, at + 1, bytes - 1) == 0);
}

}  // namespace

Result<Zygote> Zygote::load(protocol::Load load, std::vector<UniqueFd> fds, const LockDown& lock_down,
                            const VendorLibrary* vendor) {
  if (fds.size() < 3) return Error{ErrorCode::kCorrupt, "a load frame came without its descriptors"};
  Zygote zygote;
  zygote.load_ = std::move(load);
  zygote.lock_down_ = &lock_down;
  zygote.vendor_ = vendor;
  LATHE_TRY(zygote.control_, map_shared(fds[0], kPageBytes, true));
  LATHE_TRY(zygote.inputs_, map_region(fds[1], zygote.load_.inputs, zygote.load_.trials, false));
  LATHE_TRY(zygote.outputs_, map_region(fds[2], zygote.load_.outputs, zygote.load_.trials, true));
  for (const protocol::Scratch& scratch : zygote.load_.scratch) {
    LATHE_TRY(Mapping mapping, map_scratch(scratch.bytes));
    zygote.scratch_.push_back(std::move(mapping));
  }
  if (fds.size() > 3) {
    const off_t size = ::lseek(fds[3].get(), 0, SEEK_END);
    LATHE_TRY(Mapping bytes, map_shared(fds[3], static_cast<std::size_t>(size), false));
    LATHE_TRY(LoadedImage image,
              LoadedImage::load({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    zygote.image_ = std::make_shared<const LoadedImage>(std::move(image));
  }
  for (const protocol::Step& step : zygote.load_.steps)
    if (!step.is_node && (!zygote.image_ || !zygote.image_->function(step.kernel)))
      return invalid("undefined_kernel: the code defines no extern \"C\" function '" + step.kernel + "'");
  LATHE_CHECK_OK(zygote.prepare_library_calls(1));
  return zygote;
}

Status Zygote::prepare_library_calls(int threads) {
  vendor_calls_.assign(load_.steps.size(), nullptr);
  for (std::size_t i = 0; i < load_.steps.size(); ++i) {
    if (!load_.steps[i].is_node) continue;
    if (!vendor_) return Error{ErrorCode::kInternal, "a library step came to a runner without libraries"};
    LATHE_TRY(vendor_calls_[i], vendor_->prepare(load_.steps[i].kernel, threads));
  }
  return Ok{};
}

void Zygote::serve(const Channel& channel) {
  for (;;) {
    const auto frame = channel.receive(-1);
    if (!frame.ok()) return;
    if (frame->bytes == protocol::kKill) continue;  // came after the child had died by itself
    const auto block = protocol::decode_block(frame->bytes);
    if (!block.ok() || !run_block(channel, *block)) return;
  }
}

bool Zygote::run_block(const Channel& channel, const protocol::Block& block) {
  for (const std::uint32_t trial : block.trials)
    if (trial >= load_.trials) return false;
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) run_child(block);

  const UniqueFd child_fd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  bool peer_alive = true;
  pollfd waiting[2] = {{channel.fd(), POLLIN, 0}, {child_fd.get(), POLLIN, 0}};
  while (::poll(waiting, 2, -1) < 0 && errno == EINTR) {
  }
  if (waiting[0].revents) peer_alive = channel.receive(0).ok();
  ::kill(child, SIGKILL);
  protocol::BlockReply reply;
  rusage usage{};
  while (::wait4(child, &reply.wait_status, 0, &usage) < 0 && errno == EINTR) {
  }
  reply.involuntary_switches = usage.ru_nivcsw;
  reply.cpu_ns = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1'000'000'000 +
                 (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
  return channel.send(protocol::encode(reply)).ok() && peer_alive;
}

/// Outputs outlive a block, so a candidate could keep answers in those of other trials, or find what its
/// peers left there.
Status Zygote::hide_other_trials(const protocol::Block& block) const {
  std::vector<std::uint32_t> trials = block.trials;
  std::sort(trials.begin(), trials.end());
  LATHE_CHECK_OK(hide_all_but(inputs_, load_.inputs, load_.trials, trials));
  return hide_all_but(outputs_, load_.outputs, load_.trials, trials);
}

Status Zygote::populate(const protocol::Block& block) const {
  for (const std::uint32_t trial : block.trials) {
    LATHE_CHECK_OK(populate_region(inputs_, load_.inputs, trial, MADV_POPULATE_READ));
    LATHE_CHECK_OK(populate_region(outputs_, load_.outputs, trial, MADV_POPULATE_WRITE));
  }
  for (std::size_t i = 0; i < scratch_.size(); ++i) {
    const bool poison = load_.scratch[i].fill == protocol::ScratchFill::kPoison;
    std::memset(scratch_[i].data(), poison ? block.poison : 0, round_to_pages(load_.scratch[i].bytes));
  }
  // Every block starts with the same lines in the caches, whatever ran before it left or flushed there.
  for (const std::uint32_t trial : block.trials)
    for (std::size_t i = 0; i < load_.inputs.offsets.size(); ++i)
      touch(inputs_.data() + trial * load_.inputs.stride + load_.inputs.offsets[i], load_.inputs.sizes[i]);
  return Ok{};
}

void Zygote::run_child(const protocol::Block& block) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Library threads do not survive a fork: a threaded call is made here, before the lock-down.
  if (load_.threads > 1 && !prepare_library_calls(load_.threads).ok()) ::_exit(protocol::kExitBeforeCalls);
  report_faults({&control_, &inputs_, &outputs_, scratch_});
  auto* const control = reinterpret_cast<protocol::Control*>(control_.data());
  ThreadTeam team(load_.threads, load_.cpus);
  const BlockMemory memory{inputs_.data(), outputs_.data(), scratch_};
  std::vector<TrialCalls> calls;
  for (const std::uint32_t trial : block.trials)
    calls.emplace_back(load_, memory, trial, image_.get(), vendor_calls_);
  if (!hide_other_trials(block).ok() || !populate(block).ok() || !lock_down_->apply().ok())
    ::_exit(protocol::kExitBeforeCalls);

  control->ready.store(1, std::memory_order_release);
  while (control->go.load(std::memory_order_acquire) == 0) _mm_pause();
  int error = 0;
  for (const TrialCalls& call : calls) error |= call.run(load_, memory, team, image_.get(), vendor_);
  control->library_error.store(static_cast<std::uint32_t>(error), std::memory_order_relaxed);
  control->done.store(1, std::memory_order_release);

  for (std::size_t i = 0; i < scratch_.size(); ++i)
    if (load_.scratch[i].fill == protocol::ScratchFill::kCounter &&
        !is_zero(scratch_[i].data(), load_.scratch[i].bytes))
      control->counter_dirty.store(1, std::memory_order_relaxed);
  control->done.store(2, std::memory_order_release);
  for (;;) _mm_pause();
}

}  // namespace lathe

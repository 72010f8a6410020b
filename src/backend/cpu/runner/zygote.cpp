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
#include <map>
#include <string_view>

#include "backend/cpu/runner/fault_report.h"
#include "backend/cpu/runner/program.h"
#include "base/processors.h"

namespace lathe {
namespace {

constexpr std::size_t kGapBytes = 1 << 20;

Result<Mapping> map_scratch(std::uint64_t bytes) {
  const std::size_t size = round_to_pages(bytes) + kPageBytes;
  void* at =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return errno_error("cannot map scratch");
  ::mprotect(static_cast<std::byte*>(at) + round_to_pages(bytes), kPageBytes, PROT_NONE);
  ::madvise(at, round_to_pages(bytes), MADV_HUGEPAGE);
  return Mapping(static_cast<std::byte*>(at), size);
}

/// Maps one trial's buffers; the guard pages between them stay unmapped.
Status map_trial(const Mapping& range, const UniqueFd& fd, const protocol::Region& region,
                 std::uint32_t trial, bool writable) {
  std::uint64_t begin = trial * region.stride;
  for (const std::uint64_t guard : region.guards) {
    const std::uint64_t end = trial * region.stride + guard;
    LATHE_CHECK_OK(map_part(range, fd, begin, end - begin, writable));
    begin = end + kPageBytes;
  }
  return Ok{};
}

/// Reads every cache line once.
void touch(const std::byte* at, std::uint64_t bytes) {
  constexpr std::uint64_t kLine = 64;
  for (std::uint64_t i = 0; i < bytes; i += kLine)
    static_cast<void>(*reinterpret_cast<const volatile std::byte*>(at + i));
}

/// Of the same user's processes some end soon, where there are too many.
pid_t fork_patiently() {
  constexpr int kTries = 40;
  for (int i = 1;; ++i) {
    const pid_t child = ::fork();
    if (child >= 0 || errno != EAGAIN || i == kTries) return child;
    ::poll(nullptr, 0, 50);
  }
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
  // Keeps this process from waiting for a processor on which its children spin.
  keep_thread_on(processors_besides(usable_processors(), zygote.load_.cpus));
  LATHE_TRY(zygote.control_, map_shared(fds[0], kPageBytes, true));
  LATHE_TRY(zygote.gaps_[0], reserve_addresses(kGapBytes));
  LATHE_TRY(zygote.inputs_, reserve_addresses(zygote.load_.inputs.total_bytes));
  LATHE_TRY(zygote.gaps_[1], reserve_addresses(kGapBytes));
  LATHE_TRY(zygote.outputs_, reserve_addresses(zygote.load_.outputs.total_bytes));
  LATHE_TRY(zygote.gaps_[2], reserve_addresses(kGapBytes));
  zygote.inputs_fd_ = std::move(fds[1]);
  zygote.outputs_fd_ = std::move(fds[2]);
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
      return refused("undefined_kernel", "the code defines no extern \"C\" function '" + step.kernel + "'");
  LATHE_CHECK_OK(zygote.prepare_library_calls(1));
  return zygote;
}

Status Zygote::prepare_library_calls(int threads) {
  std::map<std::string_view, lathe_vendor_call*> prepared;  // equal steps share a call
  vendor_calls_.assign(load_.steps.size(), nullptr);
  for (std::size_t i = 0; i < load_.steps.size(); ++i) {
    if (!load_.steps[i].is_node) continue;
    if (!vendor_) return Error{ErrorCode::kInternal, "a library step reached a runner without libraries"};
    lathe_vendor_call*& call = prepared[load_.steps[i].kernel];
    if (!call) {
      LATHE_TRY(call, vendor_->prepare(load_.steps[i].kernel, threads));
    }
    vendor_calls_[i] = call;
  }
  return Ok{};
}

void Zygote::serve(const Channel& channel) {
  for (;;) {
    const auto frame = channel.receive(-1);
    if (!frame.ok()) return;
    if (frame->bytes == protocol::kKill) continue;  // arrived after the child had already exited
    const auto block = protocol::decode_block(frame->bytes);
    if (!block.ok() || !run_block(channel, *block)) return;
  }
}

bool Zygote::run_block(const Channel& channel, const protocol::Block& block) {
  for (const std::uint32_t trial : block.trials)
    if (trial >= load_.trials) return false;
  const pid_t child = fork_patiently();
  if (child < 0) return channel.send(protocol::encode(protocol::BlockReply{.no_process = true})).ok();
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

/// Maps the block's own trials and no others: outputs outlive a block, so a candidate could stash
/// answers in those of other trials, or find what other candidates left there.
Status Zygote::map_trials(const protocol::Block& block) const {
  for (const std::uint32_t trial : block.trials) {
    LATHE_CHECK_OK(map_trial(inputs_, inputs_fd_, load_.inputs, trial, false));
    LATHE_CHECK_OK(map_trial(outputs_, outputs_fd_, load_.outputs, trial, true));
  }
  return Ok{};
}

void Zygote::fill_memory(const protocol::Block& block) const {
  for (std::size_t i = 0; i < scratch_.size(); ++i) {
    const bool poison = load_.scratch[i].fill == protocol::ScratchFill::kPoison;
    std::memset(scratch_[i].data(), poison ? block.poison : 0, round_to_pages(load_.scratch[i].bytes));
  }
  // Every block starts with the same lines in the caches, whatever its predecessor loaded or
  // flushed.
  for (const std::uint32_t trial : block.trials)
    for (std::size_t i = 0; i < load_.inputs.offsets.size(); ++i)
      touch(inputs_.data() + trial * load_.inputs.stride + load_.inputs.offsets[i], load_.inputs.sizes[i]);
}

void Zygote::run_child(const protocol::Block& block) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Library threads do not survive a fork, so threaded calls are prepared here, before the
  // lock-down.
  if (load_.threads > 1 && !prepare_library_calls(load_.threads).ok()) ::_exit(protocol::kExitBeforeCalls);
  report_faults({&control_, &inputs_, &outputs_, scratch_});
  auto* const control = reinterpret_cast<protocol::Control*>(control_.data());
  ThreadTeam team(load_.threads, load_.cpus);
  const BlockMemory memory{inputs_.data(), outputs_.data(), scratch_};
  if (!map_trials(block).ok()) ::_exit(protocol::kExitBeforeCalls);
  fill_memory(block);
  std::vector<TrialCalls> calls;
  for (const std::uint32_t trial : block.trials)
    calls.emplace_back(load_, memory, trial, image_.get(), vendor_calls_);
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  control->switches_before.store(usage.ru_nivcsw, std::memory_order_relaxed);
  if (!lock_down_->apply().ok()) ::_exit(protocol::kExitBeforeCalls);

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

#include "backend/cuda/runner/keeper.h"

#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "backend/cuda/runner/device_list.h"
#include "backend/cuda/runner/measure.h"
#include "backend/cuda/runner/multiply.h"
#include "backend/cuda/wire/output_memory.h"

namespace lathe::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::size_t kBlocks = 2048;

/// Jobs that check every output's surroundings: all the memory of its slot that a kernel can write.
std::vector<MemoryJob> canaries(const HeldWorkload& workload, const HeldBank& bank) {
  std::vector<MemoryJob> jobs;
  std::uint64_t name = 0;
  for (std::uint32_t trial = 0; trial < workload.layout.trials; ++trial)
    for (std::size_t i = 0; i < workload.layout.outputs.slots.size(); ++i, ++name) {
      const Slot& slot = workload.layout.outputs.slots[i];
      const DevicePointer memory = bank.memory.memory(trial, i);
      jobs.push_back({name, memory, slot.offset, kCanary});
      if (slot.end() < slot.allocation_bytes)
        jobs.push_back({name, memory + slot.end(), slot.allocation_bytes - slot.end(), kCanary});
    }
  return jobs;
}

Result<DevicePointer> find(const HeldWorkload& workload, const HeldBank& bank, const Piece& piece) {
  const Layout& layout = workload.layout;
  if (piece.trial >= layout.trials || piece.output >= layout.outputs.slots.size())
    return Error{ErrorCode::kInternal, "an unknown output"};
  const Slot& slot = layout.outputs.slots[piece.output];
  if (piece.bytes > slot.bytes || piece.offset > slot.bytes - piece.bytes)
    return Error{ErrorCode::kInternal, "a piece outside its output"};
  return bank.memory.tensor(piece.trial, piece.output) + piece.offset;
}

Status share(const Channel& channel, const HeldWorkload& workload, const HeldBank& bank) {
  std::vector<UniqueFd> handles;
  std::vector<int> fds;
  for (const RegionMemory* region : {workload.inputs.get(), &bank.memory})
    for (const DeviceMemory& memory : region->mapped()) {
      LATHE_TRY(UniqueFd handle, memory.share());
      fds.push_back(handle.get());
      handles.push_back(std::move(handle));
    }
  return send_handles(channel, fds);
}

}  // namespace

HeldBank::~HeldBank() {
  if (host_address) driver->unregister_host(host.data());
}

Result<OutputKeeper> OutputKeeper::make(const Driver& driver, Module kernels) {
  OutputKeeper made(driver);
  LATHE_CHECK_OK(check(driver.stream_create(&made.stream_, kNonBlocking), "cannot make a stream"));
  LATHE_CHECK_OK(check(driver.module_function(&made.run_jobs_, kernels, "run_jobs"), "run_jobs"));
  LATHE_CHECK_OK(check(driver.module_function(&made.check_jobs_, kernels, "check_jobs"), "check_jobs"));
  LATHE_TRY(made.jobs_, DeviceMemory::create(driver, kAllocationBytes));
  LATHE_TRY(made.found_, DeviceMemory::create(driver, kAllocationBytes));
  return made;
}

Status OutputKeeper::reset(const HeldWorkload& workload, const HeldBank& bank, std::uint8_t poison) const {
  const Layout& layout = workload.layout;
  std::vector<MemoryJob> jobs = canaries(workload, bank);
  for (MemoryJob& job : jobs) job = {job.from, 0, job.bytes, job.pattern};
  for (std::uint32_t trial = 0; trial < layout.trials; ++trial)
    for (std::size_t i = 0; i < layout.outputs.slots.size(); ++i) {
      const std::int32_t source = layout.inout_source[i];
      const DevicePointer from =
          source < 0 ? 0 : workload.inputs->tensor(trial, static_cast<std::size_t>(source));
      jobs.push_back({bank.memory.tensor(trial, i), from, layout.outputs.slots[i].bytes, poison});
    }
  LATHE_CHECK_OK(run_jobs(run_jobs_, jobs));
  return check(driver_->stream_synchronize(stream_), "cannot reset outputs");
}

/// By the copy engines: a kernel of this context would wait until a launcher's has ended.
Status OutputKeeper::sample(const HeldWorkload& workload, const HeldBank& bank,
                            const std::vector<Piece>& lines) const {
  std::byte* to = bank.host.data() + workload.layout.outputs.stride * workload.layout.trials;
  if (lines.size() > kSampledLines) return Error{ErrorCode::kInternal, "too many lines"};
  for (const Piece& line : lines) {
    LATHE_TRY(const DevicePointer from, find(workload, bank, line));
    LATHE_CHECK_OK(check(driver_->copy_to_host_later(to, from, std::min(line.bytes, kLineBytes), stream_),
                         "cannot sample an output"));
    to += kLineBytes;
  }
  return check(driver_->stream_synchronize(stream_), "cannot sample an output");
}

Result<double> OutputKeeper::collect(const HeldWorkload& workload, const HeldBank& bank,
                                     const std::vector<Piece>& pieces) const {
  constexpr unsigned kNone = ~0u;
  const Layout& layout = workload.layout;
  std::vector<MemoryJob> jobs;
  for (const Piece& piece : pieces) {
    LATHE_TRY(const DevicePointer from, find(workload, bank, piece));
    const std::uint64_t at =
        piece.trial * layout.outputs.stride + layout.outputs.offsets[piece.output] + piece.offset;
    if (bank.host_address) {
      jobs.push_back({bank.host_address + at, from, piece.bytes, 0});
    } else {
      LATHE_CHECK_OK(check(driver_->copy_to_host_later(bank.host.data() + at, from, piece.bytes, stream_),
                           "cannot fetch an output"));
    }
  }
  LATHE_CHECK_OK(run_jobs(run_jobs_, jobs));
  LATHE_CHECK_OK(check(driver_->set_words(found_.address(), kNone, 1, stream_), "cannot check canaries"));
  LATHE_CHECK_OK(run_jobs(check_jobs_, canaries(workload, bank)));
  unsigned least = kNone;
  LATHE_CHECK_OK(check(driver_->copy_to_host_later(&least, found_.address(), sizeof least, stream_),
                       "cannot check canaries"));
  LATHE_CHECK_OK(check(driver_->stream_synchronize(stream_), "cannot fetch outputs"));
  return least == kNone ? -1.0 : static_cast<double>(least);
}

/// Pageable memory of a copy to the device may be changed once the call has returned.
Status OutputKeeper::run_jobs(Function kernel, const std::vector<MemoryJob>& jobs) const {
  constexpr std::size_t kMost = std::min<std::size_t>(kAllocationBytes / sizeof(MemoryJob), 65535);
  for (std::size_t first = 0; first < jobs.size(); first += kMost) {
    const std::size_t count = std::min(kMost, jobs.size() - first);
    LATHE_CHECK_OK(check(driver_->copy_to_device_later(jobs_.address(), jobs.data() + first,
                                                       count * sizeof(MemoryJob), stream_),
                         "cannot send jobs"));
    LaunchConfig config;
    config.grid[0] = static_cast<unsigned>(std::clamp<std::size_t>(kBlocks / count, 1, kBlocks));
    config.grid[1] = static_cast<unsigned>(count);
    config.block[0] = kThreads;
    config.stream = stream_;
    DevicePointer list = jobs_.address(), found = found_.address();
    void* arguments[] = {&list, &found};
    LATHE_CHECK_OK(check(driver_->launch(&config, kernel, arguments, nullptr), "cannot run jobs"));
  }
  return Ok{};
}

Result<std::unique_ptr<Keeper>> Keeper::open(const Driver& driver) {
  LATHE_CHECK_OK(open_device(driver));
  std::unique_ptr<Keeper> keeper(new Keeper(driver));
  LATHE_TRY(keeper->facts_, facts_of_first_device(driver));
  LATHE_CHECK_OK(check(driver.context_current(&keeper->context_), "cannot find the context"));
  return keeper;
}

void Keeper::serve(const Channel& channel) {
  Line line{channel};
  for (;;) {
    auto frame = channel.receive(-1);
    if (!frame.ok()) return;
    const auto request = decode_keeper_request(frame->bytes);
    KeeperReply reply;
    if (request.ok()) reply.id = request->id;
    const Status handled =
        request.ok() ? handle(line, *request, std::move(frame->fds), reply) : Status(request.error());
    reply.ok = handled.ok();
    if (!handled.ok()) reply.text = handled.error().message;
    if (!handled.ok() && driver_->context_synchronize() >= kFirstStickyCode) ::_exit(0);
    if (!channel.send(encode(reply)).ok()) return;
  }
}

Status Keeper::handle(Line& line, const KeeperRequest& request, std::vector<UniqueFd> fds,
                      KeeperReply& reply) {
  using Verb = KeeperRequest::Verb;
  switch (request.verb) {
    case Verb::kServe:
      return serve_another(std::move(fds));
    case Verb::kKernels:
      return load_kernels(fds);
    case Verb::kCreate:
      return create(request, fds);
    case Verb::kAddBank:
      return add_bank(request, fds);
    case Verb::kMeasure: {
      LATHE_TRY(reply.numbers, measure_device(*driver_, kernels_, facts_));
      return Ok{};
    }
    case Verb::kMultiply:
      if (fds.size() != 1) return Error{ErrorCode::kCorrupt, "a product without its matrices"};
      return multiply_matrices(*driver_, kernels_, request.product, fds[0]);
    case Verb::kDestroy: {
      std::unique_lock lock(mutex_);
      const auto dropped = workloads_.extract(request.workload);
      lock.unlock();  // freeing takes a while
      return Ok{};
    }
    default:
      return serve_outputs(line, request, reply);
  }
}

Status Keeper::serve_another(std::vector<UniqueFd> fds) {
  if (fds.size() != 1) return Error{ErrorCode::kCorrupt, "no channel to serve"};
  std::thread([this, channel = Channel(std::move(fds[0]))] {
    if (driver_->context_make_current(context_) == 0) serve(channel);
  }).detach();
  return Ok{};
}

Status Keeper::serve_outputs(Line& line, const KeeperRequest& request, KeeperReply& reply) {
  LATHE_TRY(const auto workload, find(request.workload));
  const auto found = workload->banks.find(request.bank);
  if (found == workload->banks.end()) return Error{ErrorCode::kInternal, "an unknown bank"};
  const HeldBank& bank = *found->second;
  if (request.verb == KeeperRequest::Verb::kExport) return share(line.channel, *workload, bank);
  if (!line.outputs) {
    LATHE_TRY(auto made, OutputKeeper::make(*driver_, kernels_));
    line.outputs = std::make_unique<const OutputKeeper>(std::move(made));
  }
  if (request.verb == KeeperRequest::Verb::kReset)
    return line.outputs->reset(*workload, bank, request.poison);
  if (request.verb == KeeperRequest::Verb::kSample)
    return line.outputs->sample(*workload, bank, request.pieces);
  LATHE_TRY(const double broken, line.outputs->collect(*workload, bank, request.pieces));
  reply.numbers = {broken};
  return Ok{};
}

Status Keeper::load_kernels(const std::vector<UniqueFd>& fds) {
  if (fds.size() != 1) return Error{ErrorCode::kCorrupt, "kernels without their cubin"};
  const off_t size = ::lseek(fds[0].get(), 0, SEEK_END);
  LATHE_TRY(const Mapping image, map_shared(fds[0], static_cast<std::size_t>(size), false));
  return check(driver_->module_load(&kernels_, image.data()), "cannot load the keeper's kernels");
}

Result<std::shared_ptr<const HeldWorkload>> Keeper::find(std::uint64_t workload) const {
  std::shared_lock lock(mutex_);
  const auto found = workloads_.find(workload);
  if (found == workloads_.end()) return Error{ErrorCode::kInternal, "an unknown workload"};
  return found->second;
}

Status Keeper::create(const KeeperRequest& request, const std::vector<UniqueFd>& fds) {
  const Layout& layout = request.layout;
  if (fds.size() != 1 || layout.trials == 0) return Error{ErrorCode::kCorrupt, "a workload without memory"};
  LATHE_TRY(const Mapping inputs, map_shared(fds[0], layout.inputs.stride * layout.trials, false));
  LATHE_TRY(RegionMemory memory, RegionMemory::create(*driver_, layout.inputs, input_allocations(layout)));
  for (std::uint32_t t = 0; t < layout.trials; ++t)
    for (std::size_t i = 0; i < layout.inputs.slots.size(); ++i) {
      const std::byte* const from = inputs.data() + t * layout.inputs.stride + layout.inputs.offsets[i];
      LATHE_CHECK_OK(check(driver_->copy_to_device(memory.tensor(t, i), from, layout.inputs.slots[i].bytes),
                           "cannot upload an input"));
    }
  // A copy from pageable memory may return before the device has it all.
  LATHE_CHECK_OK(check(driver_->stream_synchronize(nullptr), "cannot upload inputs"));
  auto workload = std::make_shared<const HeldWorkload>(
      HeldWorkload{layout, std::make_shared<const RegionMemory>(std::move(memory))});
  std::unique_lock lock(mutex_);
  workloads_[request.workload] = std::move(workload);
  return Ok{};
}

Status Keeper::add_bank(const KeeperRequest& request, const std::vector<UniqueFd>& fds) {
  if (fds.size() != 1) return Error{ErrorCode::kCorrupt, "a bank without memory"};
  LATHE_TRY(const auto workload, find(request.workload));
  auto bank = std::make_shared<HeldBank>(*driver_);
  LATHE_TRY(bank->host, map_shared(fds[0], host_output_bytes(workload->layout), true));
  LATHE_TRY(bank->memory,
            RegionMemory::create(*driver_, workload->layout.outputs, output_allocations(workload->layout)));
  std::byte* const host = bank->host.data();
  if (driver_->register_host(host, bank->host.size(), kForKernels) == 0)
    LATHE_CHECK_OK(check(driver_->host_address(&bank->host_address, host, 0), "cannot map host memory"));
  std::unique_lock lock(mutex_);
  auto& held = workloads_[request.workload];
  auto with_bank = std::make_shared<HeldWorkload>(*held);
  with_bank->banks[request.bank] = std::move(bank);
  held = std::move(with_bank);
  return Ok{};
}

}  // namespace lathe::cuda

#include "backend/cuda/runner/keeper.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "backend/cuda/runner/measure.h"
#include "backend/cuda/runner/multiply.h"
#include "backend/cuda/wire/output_memory.h"

namespace lathe::cuda {
namespace {

constexpr unsigned kForKernels = 2;  // registered host memory that kernels may address
constexpr unsigned kThreads = 256;
constexpr std::size_t kBlocks = 2048;

Result<DeviceFacts> facts_of(const Driver& driver) {
  DeviceFacts facts;
  int device = 0;
  LATHE_CHECK_OK(check(driver.device_get(&device, 0), "cannot find a GPU"));
  char name[256] = {};
  std::size_t memory = 0;
  LATHE_CHECK_OK(check(driver.device_name(name, sizeof name - 1, device), "cannot name the GPU"));
  LATHE_CHECK_OK(check(driver.device_memory(&memory, device), "cannot size the GPU's memory"));
  LATHE_CHECK_OK(check(driver.version(&facts.driver_version), "cannot ask the driver's version"));
  const auto attribute = [&](DeviceAttribute which) {
    int value = 0;
    driver.device_attribute(&value, which, device);
    return value;
  };
  facts.name = name;
  facts.memory_bytes = static_cast<std::int64_t>(memory);
  facts.compute_major = attribute(DeviceAttribute::kComputeMajor);
  facts.compute_minor = attribute(DeviceAttribute::kComputeMinor);
  facts.multiprocessors = attribute(DeviceAttribute::kMultiprocessors);
  facts.shared_optin_bytes = attribute(DeviceAttribute::kSharedOptIn);
  facts.l2_bytes = attribute(DeviceAttribute::kL2Bytes);
  facts.pci = fmt::format("{:04x}:{:02x}:{:02x}.0", attribute(DeviceAttribute::kPciDomain),
                          attribute(DeviceAttribute::kPciBus), attribute(DeviceAttribute::kPciDevice));
  return facts;
}

}  // namespace

Result<Keeper> Keeper::open(const Driver& driver) {
  LATHE_CHECK_OK(open_device(driver));
  Keeper keeper(driver);
  LATHE_TRY(keeper.facts_, facts_of(driver));
  LATHE_CHECK_OK(check(driver.stream_create(&keeper.stream_, kNonBlocking), "cannot make a stream"));
  return keeper;
}

void Keeper::serve(const Channel& channel) {
  for (;;) {
    auto frame = channel.receive(-1);
    if (!frame.ok()) return;
    KeeperReply reply;
    const Status handled = handle(channel, *std::move(frame), reply);
    reply.ok = handled.ok();
    if (!handled.ok()) reply.text = handled.error().message;
    const bool lost = !handled.ok() && driver_->context_synchronize() >= kFirstStickyCode;
    if (lost || !channel.send(encode(reply)).ok()) return;
  }
}

Status Keeper::handle(const Channel& channel, Frame frame, KeeperReply& reply) {
  LATHE_TRY(const KeeperRequest request, decode_keeper_request(frame.bytes));
  using Verb = KeeperRequest::Verb;
  if (request.verb == Verb::kKernels) return load_kernels(frame.fds);
  if (request.verb == Verb::kCreate) return create(request, frame.fds);
  if (request.verb == Verb::kMeasure) {
    LATHE_TRY(reply.numbers, measure_device(*driver_, kernels_, facts_));
    return Ok{};
  }
  if (request.verb == Verb::kMultiply) {
    if (frame.fds.size() != 1) return Error{ErrorCode::kCorrupt, "a product without its matrices"};
    return multiply_matrices(*driver_, kernels_, request.product, frame.fds[0]);
  }
  if (request.verb == Verb::kDestroy) return drop(request.workload), Ok{};
  const auto found = workloads_.find(request.workload);
  if (found == workloads_.end()) return Error{ErrorCode::kInternal, "an unknown workload"};
  const HeldWorkload& workload = found->second;
  if (request.verb == Verb::kExport) return share(channel, workload);
  if (request.verb == Verb::kReset) return reset(workload, request.poison);
  if (request.verb == Verb::kSample) return sample(workload, request.pieces);
  LATHE_CHECK_OK(collect(workload, request.pieces));
  LATHE_TRY(const double broken, broken_canary(workload));
  reply.numbers = {broken};
  return Ok{};
}

Status Keeper::load_kernels(const std::vector<UniqueFd>& fds) {
  if (fds.size() != 1) return Error{ErrorCode::kCorrupt, "kernels without their cubin"};
  const off_t size = ::lseek(fds[0].get(), 0, SEEK_END);
  LATHE_TRY(const Mapping image, map_shared(fds[0], static_cast<std::size_t>(size), false));
  LATHE_CHECK_OK(check(driver_->module_load(&kernels_, image.data()), "cannot load the keeper's kernels"));
  LATHE_CHECK_OK(check(driver_->module_function(&run_jobs_, kernels_, "run_jobs"), "run_jobs"));
  LATHE_CHECK_OK(check(driver_->module_function(&check_jobs_, kernels_, "check_jobs"), "check_jobs"));
  LATHE_TRY(job_memory_, DeviceMemory::create(*driver_, kAllocationBytes));
  LATHE_TRY(found_, DeviceMemory::create(*driver_, kAllocationBytes));
  return Ok{};
}

Status Keeper::create(const KeeperRequest& request, const std::vector<UniqueFd>& fds) {
  const Layout& layout = request.layout;
  if (fds.size() != 2 || layout.trials == 0) return Error{ErrorCode::kCorrupt, "a workload without memory"};
  LATHE_TRY(const Mapping inputs, map_shared(fds[0], layout.inputs.stride * layout.trials, false));
  HeldWorkload workload;
  workload.layout = layout;
  LATHE_TRY(workload.host_outputs, map_shared(fds[1], host_output_bytes(layout), true));
  LATHE_TRY(workload.inputs, RegionMemory::create(*driver_, layout.inputs, layout));
  LATHE_TRY(workload.outputs, RegionMemory::create(*driver_, layout.outputs, layout));
  for (std::uint32_t t = 0; t < layout.trials; ++t)
    for (std::size_t i = 0; i < layout.inputs.slots.size(); ++i) {
      const std::byte* const from = inputs.data() + t * layout.inputs.stride + layout.inputs.offsets[i];
      LATHE_CHECK_OK(
          check(driver_->copy_to_device(workload.inputs.tensor(t, i), from, layout.inputs.slots[i].bytes),
                "cannot upload an input"));
    }
  std::byte* const host = workload.host_outputs.data();
  if (driver_->register_host(host, workload.host_outputs.size(), kForKernels) == 0)
    LATHE_CHECK_OK(
        check(driver_->host_address(&workload.outputs_address, host, 0), "cannot map host memory"));
  drop(request.workload);
  workloads_.emplace(request.workload, std::move(workload));
  return Ok{};
}

void Keeper::drop(std::uint64_t workload) {
  const auto found = workloads_.find(workload);
  if (found == workloads_.end()) return;
  if (found->second.outputs_address) driver_->unregister_host(found->second.host_outputs.data());
  workloads_.erase(found);
}

Status Keeper::share(const Channel& channel, const HeldWorkload& workload) const {
  std::vector<UniqueFd> handles;
  const auto flush = [&]() -> Status {
    std::vector<int> fds;
    for (const UniqueFd& handle : handles) fds.push_back(handle.get());
    LATHE_CHECK_OK(channel.send("memory", fds));
    handles.clear();
    return Ok{};
  };
  for (const RegionMemory* region : {&workload.inputs, &workload.outputs})
    for (const DeviceMemory& memory : region->mapped()) {
      LATHE_TRY(UniqueFd handle, memory.share());
      handles.push_back(std::move(handle));
      if (handles.size() == kMaxFrameFds) LATHE_CHECK_OK(flush());
    }
  return handles.empty() ? Status(Ok{}) : flush();
}

std::vector<MemoryJob> Keeper::canaries(const HeldWorkload& workload) {
  std::vector<MemoryJob> jobs;
  std::uint64_t name = 0;
  for (std::uint32_t trial = 0; trial < workload.layout.trials; ++trial)
    for (std::size_t i = 0; i < workload.layout.outputs.slots.size(); ++i, ++name) {
      const Slot& slot = workload.layout.outputs.slots[i];
      const DevicePointer memory = workload.outputs.memory(trial, i);
      jobs.push_back({name, memory + slot.offset - kRedzoneBytes, kRedzoneBytes, kCanary});
      if (slot.end() < slot.allocation_bytes)
        jobs.push_back({name, memory + slot.end(), slot.allocation_bytes - slot.end(), kCanary});
    }
  return jobs;
}

Status Keeper::reset(const HeldWorkload& workload, std::uint8_t poison) const {
  const Layout& layout = workload.layout;
  std::vector<MemoryJob> jobs = canaries(workload);
  for (MemoryJob& job : jobs) job = {job.from, 0, job.bytes, job.pattern};
  for (std::uint32_t trial = 0; trial < layout.trials; ++trial)
    for (std::size_t i = 0; i < layout.outputs.slots.size(); ++i) {
      const std::int32_t source = layout.inout_source[i];
      const DevicePointer from =
          source < 0 ? 0 : workload.inputs.tensor(trial, static_cast<std::size_t>(source));
      jobs.push_back({workload.outputs.tensor(trial, i), from, layout.outputs.slots[i].bytes, poison});
    }
  return run_jobs(run_jobs_, jobs);
}

Result<double> Keeper::broken_canary(const HeldWorkload& workload) const {
  constexpr unsigned kNone = ~0u;
  unsigned least = kNone;
  LATHE_CHECK_OK(
      check(driver_->copy_to_device(found_.address(), &least, sizeof least), "cannot check canaries"));
  LATHE_CHECK_OK(run_jobs(check_jobs_, canaries(workload)));
  LATHE_CHECK_OK(
      check(driver_->copy_to_host(&least, found_.address(), sizeof least), "cannot check canaries"));
  return least == kNone ? -1.0 : static_cast<double>(least);
}

Result<DevicePointer> Keeper::find(const HeldWorkload& workload, const Piece& piece) const {
  const Layout& layout = workload.layout;
  if (piece.trial >= layout.trials || piece.output >= layout.outputs.slots.size())
    return Error{ErrorCode::kInternal, "an unknown output"};
  const Slot& slot = layout.outputs.slots[piece.output];
  if (piece.bytes > slot.bytes || piece.offset > slot.bytes - piece.bytes)
    return Error{ErrorCode::kInternal, "a piece outside its output"};
  return workload.outputs.tensor(piece.trial, piece.output) + piece.offset;
}

/// By the copy engines: a kernel of this context would wait until a launcher's has ended.
Status Keeper::sample(const HeldWorkload& workload, const std::vector<Piece>& lines) const {
  std::byte* to = workload.host_outputs.data() + workload.layout.outputs.stride * workload.layout.trials;
  if (lines.size() > kSampledLines) return Error{ErrorCode::kInternal, "too many lines"};
  for (const Piece& line : lines) {
    LATHE_TRY(const DevicePointer from, find(workload, line));
    LATHE_CHECK_OK(check(driver_->copy_to_host_later(to, from, std::min(line.bytes, kLineBytes), stream_),
                         "cannot sample an output"));
    to += kLineBytes;
  }
  return check(driver_->stream_synchronize(stream_), "cannot sample an output");
}

Status Keeper::collect(const HeldWorkload& workload, const std::vector<Piece>& pieces) const {
  const Layout& layout = workload.layout;
  std::vector<MemoryJob> jobs;
  for (const Piece& piece : pieces) {
    LATHE_TRY(const DevicePointer from, find(workload, piece));
    const std::uint64_t at =
        piece.trial * layout.outputs.stride + layout.outputs.offsets[piece.output] + piece.offset;
    if (workload.outputs_address) {
      jobs.push_back({workload.outputs_address + at, from, piece.bytes, 0});
    } else {
      LATHE_CHECK_OK(check(driver_->copy_to_host(workload.host_outputs.data() + at, from, piece.bytes),
                           "cannot fetch an output"));
    }
  }
  return run_jobs(run_jobs_, jobs);
}

Status Keeper::run_jobs(Function kernel, const std::vector<MemoryJob>& jobs) const {
  constexpr std::size_t kMost = std::min<std::size_t>(kAllocationBytes / sizeof(MemoryJob), 65535);
  for (std::size_t first = 0; first < jobs.size(); first += kMost) {
    const std::size_t count = std::min(kMost, jobs.size() - first);
    LATHE_CHECK_OK(
        check(driver_->copy_to_device(job_memory_.address(), jobs.data() + first, count * sizeof(MemoryJob)),
              "cannot send jobs"));
    LaunchConfig config;
    config.grid[0] = static_cast<unsigned>(std::clamp<std::size_t>(kBlocks / count, 1, kBlocks));
    config.grid[1] = static_cast<unsigned>(count);
    config.block[0] = kThreads;
    config.stream = stream_;
    DevicePointer list = job_memory_.address(), found = found_.address();
    void* arguments[] = {&list, &found};
    LATHE_CHECK_OK(check(driver_->launch(&config, kernel, arguments, nullptr), "cannot run jobs"));
    LATHE_CHECK_OK(check(driver_->stream_synchronize(stream_), "the keeper's stream failed"));
  }
  return Ok{};
}

}  // namespace lathe::cuda

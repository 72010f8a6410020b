#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "backend/cuda/runner/launcher.h"
#include "backend/cuda/wire/output_memory.h"

namespace lathe::cuda {
namespace {

constexpr int kMemoryTimeoutMs = 10'000;
constexpr int kMaxLocalBytes = 16 << 10;  // of which the driver allots a share to every thread there may be

std::uint64_t allocation_for(std::uint64_t bytes) { return make_slot(bytes).allocation_bytes; }

}  // namespace

Result<LaunchDevice> LaunchDevice::open(const std::string& vendor_library, const std::string& cudnn_library) {
  LaunchDevice device;
  if (auto vendor = VendorLibrary::open(vendor_library); vendor.ok()) device.vendor = *std::move(vendor);
  if (device.vendor)
    if (auto path = device.vendor->find_cudnn(cudnn_library); path.ok()) device.cudnn_path = *std::move(path);
  LATHE_TRY(device.driver, cuda::driver());
  LATHE_CHECK_OK(open_device(*device.driver));
  LATHE_CHECK_OK(check(device.driver->stream_create(&device.stream, kNonBlocking), "cannot make a stream"));
  LATHE_CHECK_OK(check(device.driver->event_create(&device.begin, 0), "cannot make an event"));
  LATHE_CHECK_OK(check(device.driver->event_create(&device.end, 0), "cannot make an event"));
  int major = 0;
  device.driver->device_attribute(&major, DeviceAttribute::kComputeMajor, 0);
  device.overlaps_steps = major >= 9;
  int pageable = 0;
  device.driver->device_attribute(&pageable, DeviceAttribute::kPageableMemoryAccess, 0);
  if (pageable != 0)
    return Error{ErrorCode::kUnavailable,
                 "kernels could read and write their launcher's host memory (HMM or ATS)",
                 "load the driver's nvidia_uvm with uvm_disable_hmm=1"};
  int l2_bytes = 0;
  device.driver->device_attribute(&l2_bytes, DeviceAttribute::kL2Bytes, 0);
  LATHE_TRY(device.flush,
            DeviceMemory::create(*device.driver, allocation_for(2 * static_cast<std::uint64_t>(l2_bytes))));
  return device;
}

Status LaunchDevice::warm(const UniqueFd& scrub_cubin) {
  LATHE_TRY(scrubber, Scrubber::load(*driver, scrub_cubin));
  LATHE_TRY(const DeviceMemory memory, DeviceMemory::create(*driver, kAllocationBytes));
  Graph graph = nullptr;
  GraphExec calls = nullptr;
  LATHE_CHECK_OK(check(driver->capture_begin(stream, kCaptureThisThread), "cannot record"));
  const Status recorded = scrubber.touch({memory.address()}, stream);  // leaves no trace in multiprocessors
  LATHE_CHECK_OK(check(driver->capture_end(stream, &graph), "cannot record"));
  LATHE_CHECK_OK(recorded);
  LATHE_CHECK_OK(check(driver->graph_instantiate(&calls, graph, 0), "cannot prepare calls"));
  LATHE_CHECK_OK(check(driver->graph_upload(calls, stream), "cannot prepare calls"));
  driver->event_record(begin, stream);
  LATHE_CHECK_OK(check(driver->graph_launch(calls, stream), "cannot run calls"));
  driver->event_record(end, stream);
  LATHE_TRY(const UniqueFd shared, memory.share());
  LATHE_TRY(const DeviceMemory again,
            DeviceMemory::import(*driver, shared, kAllocationBytes, Access::kReadWrite));
  LATHE_CHECK_OK(check(driver->set_bytes(again.address(), 0, kAllocationBytes, stream), "cannot fill"));
  LATHE_CHECK_OK(check(driver->stream_synchronize(stream), "cannot run calls"));
  driver->graph_exec_destroy(calls);
  driver->graph_destroy(graph);
  return Ok{};
}

Result<Launcher> Launcher::load(const LaunchDevice& device, Load load, const std::vector<UniqueFd>& fds,
                                const Channel& channel) {
  if (fds.size() != 2) return Error{ErrorCode::kCorrupt, "a load frame came without its descriptors"};
  Launcher launcher(device, std::move(load));
  LATHE_TRY(launcher.control_, map_shared(fds[0], kPageBytes, true));
  LATHE_CHECK_OK(launcher.take_memory(channel));
  for (const Scratch& scratch : launcher.load_.scratch) {
    LATHE_TRY(DeviceMemory memory, DeviceMemory::create(*device.driver, allocation_for(scratch.bytes)));
    launcher.scratch_.push_back(std::move(memory));
  }
  const off_t size = ::lseek(fds[1].get(), 0, SEEK_END);
  if (size > 0) {
    LATHE_TRY(launcher.image_, map_shared(fds[1], static_cast<std::size_t>(size), false));
  }
  if (launcher.image_.size() > 0) LATHE_CHECK_OK(launcher.load_module());
  LATHE_CHECK_OK(launcher.prepare_nodes());
  LATHE_CHECK_OK(launcher.encode_maps());
  return launcher;
}

Status Launcher::take_memory(const Channel& channel) {
  std::vector<UniqueFd> handles;
  const Layout& layout = load_.layout;
  while (handles.size() < handle_count(layout)) {
    LATHE_TRY(Frame frame, channel.receive(kMemoryTimeoutMs));
    if (frame.fds.empty()) return Error{ErrorCode::kCorrupt, "a memory frame without handles"};
    for (UniqueFd& handle : frame.fds) handles.push_back(std::move(handle));
  }
  auto next = handles.begin();
  LATHE_TRY(inputs_,
            RegionMemory::import(*driver_, layout.inputs, input_allocations(layout), Access::kRead, next));
  LATHE_TRY(outputs_, RegionMemory::import(*driver_, layout.outputs, output_allocations(layout),
                                           Access::kReadWrite, next));
  return Ok{};
}

Status Launcher::load_module() {
  if (module_) driver_->module_unload(std::exchange(module_, nullptr));
  functions_.clear();
  if (const Status loaded =
          check(driver_->module_load(&module_, image_.data()), "the driver refuses the cubin");
      !loaded.ok()) {
    if (loaded.error().reason == kDeviceMemory) return loaded;
    return refused("bad_cubin", loaded.error().message);
  }
  for (const Step& step : load_.steps) {
    if (step.is_node) continue;
    Function& function = functions_[step.kernel];
    if (!function && driver_->module_function(&function, module_, step.kernel.c_str()) != 0)
      return refused("undefined_kernel",
                     "the code defines no extern \"C\" __global__ function '" + step.kernel + "'");
  }
  return set_up_kernels();
}

Status Launcher::prepare_nodes() {
  std::map<std::string_view, lathe_vendor_call*> prepared;  // equal steps share a call
  nodes_.assign(load_.steps.size(), nullptr);
  for (std::size_t i = 0; i < load_.steps.size(); ++i) {
    if (!load_.steps[i].is_node) continue;
    if (!device_->vendor)
      return Error{ErrorCode::kUnavailable, "liblathe_vendor_cuda.so is missing", {}, {}, "no_library"};
    lathe_vendor_call*& call = prepared[load_.steps[i].kernel];
    if (!call) {
      LATHE_TRY(call, device_->vendor->prepare(load_.steps[i].kernel, 1));
    }
    nodes_[i] = call;
    if (device_->vendor->set_stream(device_->stream) != 0)
      return Error{ErrorCode::kUnavailable, "a library refuses its stream"};
  }
  return Ok{};
}

Status Launcher::encode_maps() {
  for (std::uint32_t trial = 0; trial < load_.layout.trials; ++trial)
    for (const TensorMap& map : load_.maps)
      LATHE_CHECK_OK(encode_map(*driver_, map, argument(map.base, trial), maps_.emplace_back()));
  return Ok{};
}

Status Launcher::set_up_kernels() {
  std::map<std::string_view, std::uint32_t> most_shared;  // the attribute is a kernel's, not a launch's
  for (const Step& step : load_.steps)
    most_shared[step.kernel] = std::max(most_shared[step.kernel], step.shared_bytes);
  for (const Step& step : load_.steps) {
    if (step.is_node) continue;
    const Function function = functions_.at(step.kernel);
    LATHE_CHECK_OK(check_parameters(step, function));
    if (step.non_portable)
      driver_->set_function_attribute(function, FunctionAttribute::kNonPortableCluster, 1);
    if (step.carveout >= 0)
      driver_->set_function_attribute(function, FunctionAttribute::kSharedCarveout, step.carveout);
    int local_bytes = 0;
    driver_->function_attribute(&local_bytes, FunctionAttribute::kLocalBytes, function);
    if (local_bytes > kMaxLocalBytes)
      return refused("local_memory",
                     fmt::format("'{}' takes {} bytes of local memory a thread, {} are allowed", step.kernel,
                                 local_bytes, kMaxLocalBytes));
    local_bytes_ = std::max(local_bytes_, local_bytes);
    // Without asking a block has 48 KiB, its static shared memory included.
    const std::uint32_t shared_bytes = most_shared.at(step.kernel);
    if (shared_bytes == 0) continue;
    const Code code = driver_->set_function_attribute(function, FunctionAttribute::kMaxDynamicShared,
                                                      static_cast<int>(shared_bytes));
    if (const Status allowed = check(code, "dynamic shared memory"); !allowed.ok())
      return refused("smem_overflow", fmt::format("{} bytes: {}", shared_bytes, allowed.error().message));
  }
  return Ok{};
}

/// The driver reads as many bytes as the kernel declares: a plan that passes others would hand it
/// garbage.
Status Launcher::check_parameters(const Step& step, Function function) const {
  std::size_t offset = 0, bytes = 0, count = 0;
  while (driver_->parameter_info(function, count, &offset, &bytes) == 0) {
    if (count >= step.args.size()) break;
    const Arg& arg = step.args[count];
    const bool narrow =
        bytes == 4 && arg.kind == ArgKind::kInteger && arg.value == static_cast<std::int32_t>(arg.value);
    const std::size_t passed = arg.kind == ArgKind::kScalar ? arg.bytes
                               : arg.kind == ArgKind::kMap  ? sizeof(EncodedMap)
                                                            : 8;
    if (bytes != passed && !narrow)
      return refused("bad_arguments", fmt::format("parameter {} of '{}' has {} bytes, the plan passes {}",
                                                  count + 1, step.kernel, bytes, passed));
    ++count;
  }
  if (count == step.args.size() && driver_->parameter_info(function, count, &offset, &bytes) != 0)
    return Ok{};
  return refused("bad_arguments", fmt::format("'{}' takes another number of parameters than the {} "
                                              "that the plan passes",
                                              step.kernel, step.args.size()));
}

}  // namespace lathe::cuda

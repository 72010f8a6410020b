#include "backend/cuda/runner/naive_grade.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "backend/cuda/runner/launcher.h"
#include "backend/cuda/runner/nvrtc.h"
#include "backend/cuda/wire/naive_frames.h"
#include "backend/naive_tolerance.h"

namespace lathe::cuda {
namespace {

constexpr std::uint64_t kArenaBytes = 512 << 20;
constexpr int kWarmUpCalls = 3, kTimedCalls = 30;

/// Reuses freed blocks without clearing them, as the caching allocators of deep-learning frameworks
/// do.
class CachingArena {
 public:
  explicit CachingArena(DevicePointer begin) : next_(begin), end_(begin + kArenaBytes) {}

  DevicePointer take(std::uint64_t bytes) {
    bytes = rounded(bytes);
    auto& blocks = free_[bytes];
    if (!blocks.empty()) {
      const DevicePointer block = blocks.back();
      blocks.pop_back();
      return block;
    }
    const DevicePointer block = next_;
    if (bytes <= end_ - next_) next_ += bytes;
    return block;
  }
  void give_back(DevicePointer block, std::uint64_t bytes) { free_[rounded(bytes)].push_back(block); }

 private:
  static std::uint64_t rounded(std::uint64_t bytes) { return (bytes + 511) / 512 * 512; }

  DevicePointer next_, end_;
  std::map<std::uint64_t, std::vector<DevicePointer>> free_;
};

struct Buffers {
  std::vector<DevicePointer> inputs, outputs, scratch;
};

/// Launches a kernel and ignores the driver's error codes.
class LooseKernel {
 public:
  static Result<LooseKernel> load(const Driver& driver, const UniqueFd& load, const UniqueFd& cubin) {
    LooseKernel kernel(driver);
    LATHE_TRY(const Mapping text, map_whole(load));
    LATHE_TRY(kernel.load_, decode_load({reinterpret_cast<const char*>(text.data()), text.size()}));
    LATHE_TRY(kernel.image_, map_whole(cubin));
    Module module = nullptr;
    LATHE_CHECK_OK(check(driver.module_load(&module, kernel.image_.data()), "the driver refuses the cubin"));
    for (const Step& step : kernel.load_.steps) {
      Function& function = kernel.functions_[step.kernel];
      LATHE_CHECK_OK(
          check(driver.module_function(&function, module, step.kernel.c_str()), step.kernel.c_str()));
      if (step.shared_bytes > kSharedWithoutAsking)
        driver.set_function_attribute(function, FunctionAttribute::kMaxDynamicShared,
                                      static_cast<int>(step.shared_bytes));
    }
    return kernel;
  }

  static Result<Mapping> map_whole(const UniqueFd& fd) {
    const off_t size = ::lseek(fd.get(), 0, SEEK_END);
    return map_shared(fd, size > 0 ? static_cast<std::size_t>(size) : 0, false);
  }

  const Load& load() const { return load_; }

  void call(const Buffers& buffers, Stream stream) const {
    for (std::size_t i = 0; i < load_.scratch.size(); ++i)
      if (load_.scratch[i].fill == ScratchFill::kZero)
        driver_->set_bytes(buffers.scratch[i], 0, load_.scratch[i].bytes, stream);
    for (const Step& step : load_.steps) launch(step, buffers, stream);
  }

  /// Times calls as a graph: launched one by one, short ones would take as long as a launch.
  double mean_ms(const Buffers& buffers, const LaunchDevice& device) const {
    for (int i = 0; i < kWarmUpCalls; ++i) call(buffers, device.stream);
    Graph graph = nullptr;
    GraphExec calls = nullptr;
    driver_->capture_begin(device.stream, kCaptureThisThread);
    for (int i = 0; i < kTimedCalls; ++i) call(buffers, device.stream);
    driver_->capture_end(device.stream, &graph);
    if (graph) driver_->graph_instantiate(&calls, graph, 0);
    if (calls) driver_->graph_upload(calls, device.stream);
    driver_->event_record(device.begin, device.stream);
    if (calls) driver_->graph_launch(calls, device.stream);
    driver_->event_record(device.end, device.stream);
    driver_->stream_synchronize(device.stream);
    float ms = 0;
    driver_->event_elapsed_ms(&ms, device.begin, device.end);
    return std::max(1e-6, static_cast<double>(ms) / kTimedCalls);
  }

  std::vector<DevicePointer> take_scratch(CachingArena& arena) const {
    std::vector<DevicePointer> scratch;
    for (const Scratch& buffer : load_.scratch) scratch.push_back(arena.take(buffer.bytes));
    return scratch;
  }

 private:
  explicit LooseKernel(const Driver& driver) : driver_(&driver) {}

  std::uint64_t argument(const Arg& arg, const Buffers& buffers) const {
    const auto index = static_cast<std::size_t>(arg.value);
    if (arg.kind == ArgKind::kInput) return buffers.inputs[index];
    if (arg.kind == ArgKind::kOutput) return buffers.outputs[index];
    if (arg.kind == ArgKind::kScratch) return buffers.scratch[index];
    return arg.kind == ArgKind::kScalar ? load_.scalars[index] : static_cast<std::uint64_t>(arg.value);
  }

  void launch(const Step& step, const Buffers& buffers, Stream stream) const {
    std::vector<std::uint64_t> values;
    std::vector<void*> pointers;
    for (const Arg& arg : step.args) values.push_back(argument(arg, buffers));
    for (std::uint64_t& value : values) pointers.push_back(&value);
    std::vector<LaunchAttribute> attributes = attributes_of(step, false);
    LaunchConfig config;
    std::copy(step.grid.begin(), step.grid.end(), config.grid);
    std::copy(step.block.begin(), step.block.end(), config.block);
    config.shared_bytes = step.shared_bytes;
    config.stream = stream;
    config.attributes = attributes.data();
    config.attribute_count = static_cast<unsigned>(attributes.size());
    driver_->launch(&config, functions_.at(step.kernel), pointers.data(), nullptr);
  }

  const Driver* driver_;
  Load load_;
  Mapping image_;
  std::map<std::string, Function> functions_;
};

Result<std::vector<DevicePointer>> upload(const Driver& driver, const Load& load, const UniqueFd& inputs,
                                          CachingArena& arena) {
  LATHE_TRY(const Mapping host, LooseKernel::map_whole(inputs));
  std::vector<DevicePointer> pointers;
  const Region& region = load.layout.inputs;
  for (std::size_t i = 0; i < region.slots.size(); ++i) {
    pointers.push_back(arena.take(region.slots[i].bytes));
    LATHE_CHECK_OK(
        check(driver.copy_to_device(pointers.back(), host.data() + region.offsets[i], region.slots[i].bytes),
              "upload"));
  }
  return pointers;
}

Result<std::string> grade(const LaunchDevice& device, const std::vector<UniqueFd>& fds) {
  const Driver& driver = *device.driver;
  LATHE_TRY(const LooseKernel candidate, LooseKernel::load(driver, fds[0], fds[1]));
  LATHE_TRY(const LooseKernel honest, LooseKernel::load(driver, fds[2], fds[3]));
  LATHE_TRY(const DeviceMemory memory, DeviceMemory::create(driver, kArenaBytes));
  CachingArena arena(memory.address());
  Buffers buffers;
  LATHE_TRY(buffers.inputs, upload(driver, honest.load(), fds[4], arena));
  const std::uint64_t bytes = honest.load().layout.outputs.slots.front().bytes;

  const DevicePointer kept = arena.take(bytes), shared = arena.take(bytes);
  buffers.scratch = honest.take_scratch(arena);
  buffers.outputs = {kept};
  honest.call(buffers, device.stream);
  buffers.outputs = {shared};
  const double honest_ms = honest.mean_ms(buffers, device);
  arena.give_back(kept, bytes);
  arena.give_back(shared, bytes);

  Buffers mine{buffers.inputs, {arena.take(bytes)}, candidate.take_scratch(arena)};
  const double candidate_ms = candidate.mean_ms(mine, device);
  buffers.outputs = {arena.take(bytes)};
  honest.call(buffers, device.stream);
  driver.stream_synchronize(device.stream);
  std::vector<float> got(bytes / sizeof(float)), want(bytes / sizeof(float));
  LATHE_CHECK_OK(check(driver.copy_to_host(got.data(), mine.outputs[0], bytes), "cannot copy the outputs"));
  LATHE_CHECK_OK(
      check(driver.copy_to_host(want.data(), buffers.outputs[0], bytes), "cannot copy the outputs"));
  const double share = naive_share_right(got, want);
  if (share < kNaiveShareWanted) return fmt::format("FAIL {:.1f}% of the values are right", 100 * share);
  return fmt::format("PASS {:.3f}", honest_ms / candidate_ms);
}

Result<std::string> compile(const LaunchDevice& device, const UniqueFd& text,
                            const std::string& include_folder) {
  LATHE_TRY(const Nvrtc nvrtc, Nvrtc::open());
  LATHE_TRY(const Mapping source, LooseKernel::map_whole(text));
  int major = 0, minor = 0;
  device.driver->device_attribute(&major, DeviceAttribute::kComputeMajor, 0);
  device.driver->device_attribute(&minor, DeviceAttribute::kComputeMinor, 0);
  Compiled compiled = nvrtc.compile(
      {reinterpret_cast<const char*>(source.data()), source.size()},
      {fmt::format("-arch=sm_{}{}{}", major, minor, major >= 9 ? "a" : ""), "-I" + include_folder});
  if (!compiled.ok) return Error{ErrorCode::kInvalid, compiled.log};
  return std::move(compiled.cubin);
}

}  // namespace

void serve_naive_grading(const Channel& channel, const std::string& include_folder) {
  const auto device = LaunchDevice::open("");
  if (!device.ok() || !channel.send(kNaiveReady).ok()) return;
  for (;;) {
    const auto frame = channel.receive(-1);
    if (!frame.ok()) return;
    const bool compiles = frame->bytes == kNaiveCompile && frame->fds.size() == 1;
    if (!compiles && frame->fds.size() != 5) return;
    const Result<std::string> answer =
        compiles ? compile(*device, frame->fds[0], include_folder) : grade(*device, frame->fds);
    if (!answer.ok()) {
      (void)channel.send("DIED " + answer.error().message);
    } else if (compiles) {
      const auto object = make_sealed_memfd("object", *answer);
      if (!object.ok() || !channel.send(kNaiveObject, {object->get()}).ok()) return;
    } else if (!channel.send(*answer).ok()) {
      return;
    }
  }
}

}  // namespace lathe::cuda

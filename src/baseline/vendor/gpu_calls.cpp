#include "baseline/vendor/gpu_calls.h"

#include <dlfcn.h>

#include <algorithm>
#include <utility>

#include "base/symbol_binder.h"

namespace lathe::vendor {
namespace {

constexpr int kRuns = 5;
constexpr int kMostCalls = 20;
constexpr float kGraphMs = 0.2F;  // an event's clock ticks every half microsecond
constexpr int kCaptureThisThread = 1;
constexpr unsigned kNonBlocking = 1;

// CUDA's driver interface: its stable names.
struct Driver {
  using Event = struct EventTag*;
  using Graph = struct GraphTag*;
  using GraphExec = struct GraphExecTag*;
  int (*allocate)(unsigned long long*, std::size_t);
  int (*release)(unsigned long long);
  int (*fill)(unsigned long long, unsigned char, std::size_t);
  int (*synchronize)();
  int (*create)(Event*, unsigned);
  int (*record)(Event, void* stream);
  int (*elapsed)(float* ms, Event begin, Event end);
  int (*create_stream)(void**, unsigned);
  int (*begin_capture)(void* stream, int mode);
  int (*end_capture)(void* stream, Graph*);
  int (*instantiate)(GraphExec*, Graph, unsigned long long);
  int (*launch)(GraphExec, void* stream);
  int (*destroy_graph)(Graph);
  int (*destroy_exec)(GraphExec);
};

Result<Driver> open_driver() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  const Error none{ErrorCode::kUnavailable, "no NVIDIA driver (libcuda.so.1)"};
  if (!library) return none;
  Driver driver{};
  SymbolBinder binder(library);
  binder.bind(driver.allocate, "cuMemAlloc_v2");
  binder.bind(driver.release, "cuMemFree_v2");
  binder.bind(driver.fill, "cuMemsetD8_v2");
  binder.bind(driver.synchronize, "cuCtxSynchronize");
  binder.bind(driver.create, "cuEventCreate");
  binder.bind(driver.record, "cuEventRecord");
  binder.bind(driver.elapsed, "cuEventElapsedTime");
  binder.bind(driver.create_stream, "cuStreamCreate");
  binder.bind(driver.begin_capture, "cuStreamBeginCapture_v2");
  binder.bind(driver.end_capture, "cuStreamEndCapture");
  binder.bind(driver.instantiate, "cuGraphInstantiateWithFlags");
  binder.bind(driver.launch, "cuGraphLaunch");
  binder.bind(driver.destroy_graph, "cuGraphDestroy");
  binder.bind(driver.destroy_exec, "cuGraphExecDestroy");
  if (binder.missing()) return none;
  return driver;
}

const Result<Driver>& driver() {
  static const Result<Driver> opened = open_driver();
  return opened;
}

Error device_error(const char* what, int code) {
  return {ErrorCode::kUnavailable, std::string(what) + ": the driver's code " + std::to_string(code)};
}

Result<Driver::GraphExec> record(void* stream, const std::function<int()>& enqueue, int calls) {
  if (const int code = driver()->begin_capture(stream, kCaptureThisThread); code != 0)
    return device_error("cannot record library calls", code);
  int refused = 0;
  for (int call = 0; call < calls && refused == 0; ++call) refused = enqueue();
  Driver::Graph graph = nullptr;
  Driver::GraphExec exec = nullptr;
  int code = driver()->end_capture(stream, &graph);
  if (code == 0 && refused == 0) code = driver()->instantiate(&exec, graph, 0);
  if (graph) driver()->destroy_graph(graph);
  if (code == 0 && refused == 0) return exec;
  return invalid("the library's call cannot be recorded: code " +
                 std::to_string(refused != 0 ? refused : code));
}

}  // namespace

Result<GpuMemory> GpuMemory::create(std::size_t bytes) {
  if (!driver().ok()) return driver().error();
  GpuMemory memory;
  if (bytes == 0) return memory;
  if (const int code = driver()->allocate(&memory.address_, bytes); code != 0)
    return device_error("no device memory for a library call", code);
  memory.bytes_ = bytes;
  if (const int code = driver()->fill(memory.address_, 0, bytes); code != 0)
    return device_error("cannot zero a library's memory", code);
  return memory;
}

GpuMemory::GpuMemory(GpuMemory&& other) noexcept
    : address_(std::exchange(other.address_, 0)), bytes_(std::exchange(other.bytes_, 0)) {}

GpuMemory& GpuMemory::operator=(GpuMemory&& other) noexcept {
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

GpuMemory::~GpuMemory() {
  if (address_ != 0) driver()->release(address_);
}

Result<GpuClock> GpuClock::create() {
  if (!driver().ok()) return driver().error();
  GpuClock clock;
  int code = driver()->create_stream(&clock.stream_, kNonBlocking);
  if (code == 0) code = driver()->create(&clock.begin_, 0);
  if (code == 0) code = driver()->create(&clock.end_, 0);
  if (code != 0) return device_error("cannot make a clock", code);
  return clock;
}

Result<float> GpuClock::time(const std::function<int()>& enqueue) const {
  int code = driver()->synchronize();
  const int refused = code == 0 ? enqueue() : 0;
  if (code == 0) code = driver()->synchronize();
  if (code != 0) return device_error("a library call failed", code);
  if (refused != 0) return invalid("the library refuses: code " + std::to_string(refused));
  LATHE_TRY(const float alone_ms, time_graph(enqueue, 1));
  const float wanted = kGraphMs / std::max(alone_ms, 1e-3F);
  return time_graph(enqueue, std::clamp(static_cast<int>(wanted), 1, kMostCalls));
}

Result<float> GpuClock::time_graph(const std::function<int()>& enqueue, int calls) const {
  LATHE_TRY(const Driver::GraphExec exec, record(stream_, enqueue, calls));
  float best_ms = 0;
  int code = 0;
  for (int run = 0; run < kRuns && code == 0; ++run) {
    driver()->record(begin_, stream_);
    code = driver()->launch(exec, stream_);
    driver()->record(end_, stream_);
    if (code == 0) code = driver()->synchronize();
    float ms = 0;
    if (code == 0) code = driver()->elapsed(&ms, begin_, end_);
    best_ms = run == 0 ? ms : std::min(best_ms, ms);
  }
  driver()->destroy_exec(exec);
  if (code != 0) return device_error("a library call failed", code);
  return best_ms / static_cast<float>(calls);
}

}  // namespace lathe::vendor

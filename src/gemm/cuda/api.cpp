#include "gemm/cuda/api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "base/symbol_binder.h"

namespace lathe::gemm {
namespace {

Result<MeasuringDriver> open() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr || driver() == nullptr)
    return Error{ErrorCode::kUnavailable, "no GPU with a CUDA driver", "install NVIDIA's driver for a GPU"};
  MeasuringDriver bound{};
  SymbolBinder binder(library);
  binder.bind(bound.device_get, "cuDeviceGet");
  binder.bind(bound.device_name, "cuDeviceGetName");
  binder.bind(bound.device_bus, "cuDeviceGetPCIBusId");
  binder.bind(bound.context_retain, "cuDevicePrimaryCtxRetain");
  binder.bind(bound.context_make_current, "cuCtxSetCurrent");
  binder.bind(bound.allocate, "cuMemAlloc_v2");
  binder.bind(bound.release, "cuMemFree_v2");
  binder.bind(bound.copy_to_device, "cuMemcpyHtoD_v2");
  binder.bind(bound.copy_to_host, "cuMemcpyDtoH_v2");
  binder.bind(bound.copy_within, "cuMemcpyDtoDAsync_v2");
  binder.bind(bound.fill_halves, "cuMemsetD16Async");
  binder.bind(bound.stream_create, "cuStreamCreate");
  binder.bind(bound.stream_synchronize, "cuStreamSynchronize");
  binder.bind(bound.event_create, "cuEventCreate");
  binder.bind(bound.event_record, "cuEventRecord");
  binder.bind(bound.event_elapsed_ms, "cuEventElapsedTime");
  binder.bind(bound.capture_begin, "cuStreamBeginCapture_v2");
  binder.bind(bound.capture_end, "cuStreamEndCapture");
  binder.bind(bound.graph_instantiate, "cuGraphInstantiateWithFlags");
  binder.bind(bound.graph_upload, "cuGraphUpload");
  binder.bind(bound.graph_launch, "cuGraphLaunch");
  binder.bind(bound.graph_exec_destroy, "cuGraphExecDestroy");
  binder.bind(bound.graph_destroy, "cuGraphDestroy");
  if (binder.missing())
    return Error{ErrorCode::kUnavailable, fmt::format("the CUDA driver has no {}", binder.missing()),
                 "update NVIDIA's driver"};
  return bound;
}

}  // namespace

Result<const MeasuringDriver*> measuring_driver() {
  static const Result<MeasuringDriver> bound = open();
  if (!bound.ok()) return bound.error();
  return &*bound;
}

Status check(Code code, const char* what) {
  if (code == 0) return Ok{};
  const char* name = nullptr;
  if (driver() != nullptr) driver()->error_name(code, &name);
  return Error{ErrorCode::kUnavailable,
               fmt::format("{}: {}", what, name ? name : std::to_string(code).c_str())};
}

}  // namespace lathe::gemm

#include "backend/cuda/runner/driver_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "backend/cuda/wire/protocol.h"
#include "base/symbol_binder.h"

namespace lathe::cuda {
namespace {

void bind_device(SymbolBinder& binder, Driver& driver) {
  binder.bind(driver.init, "cuInit");
  binder.bind(driver.version, "cuDriverGetVersion");
  binder.bind(driver.error_name, "cuGetErrorName");
  binder.bind(driver.device_get, "cuDeviceGet");
  binder.bind(driver.device_count, "cuDeviceGetCount");
  binder.bind(driver.device_name, "cuDeviceGetName");
  binder.bind(driver.device_uuid, "cuDeviceGetUuid_v2");
  binder.bind(driver.device_attribute, "cuDeviceGetAttribute");
  binder.bind(driver.device_memory, "cuDeviceTotalMem_v2");
  binder.bind(driver.context_create, "cuCtxCreate_v2");
  binder.bind(driver.context_synchronize, "cuCtxSynchronize");
  binder.bind(driver.context_current, "cuCtxGetCurrent");
  binder.bind(driver.context_make_current, "cuCtxSetCurrent");
}

void bind_modules(SymbolBinder& binder, Driver& driver) {
  binder.bind(driver.module_load, "cuModuleLoadData");
  binder.bind(driver.module_unload, "cuModuleUnload");
  binder.bind(driver.module_function, "cuModuleGetFunction");
  binder.bind(driver.function_attribute, "cuFuncGetAttribute");
  binder.bind(driver.set_function_attribute, "cuFuncSetAttribute");
  binder.bind(driver.blocks_per_multiprocessor, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  binder.bind(driver.parameter_info, "cuFuncGetParamInfo");
  binder.bind(driver.tensor_map, "cuTensorMapEncodeTiled");
  binder.bind(driver.launch, "cuLaunchKernelEx");
}

void bind_memory(SymbolBinder& binder, Driver& driver) {
  binder.bind(driver.free_memory, "cuMemGetInfo_v2");
  binder.bind(driver.address_reserve, "cuMemAddressReserve");
  binder.bind(driver.address_free, "cuMemAddressFree");
  binder.bind(driver.memory_create, "cuMemCreate");
  binder.bind(driver.memory_release, "cuMemRelease");
  binder.bind(driver.memory_map, "cuMemMap");
  binder.bind(driver.memory_unmap, "cuMemUnmap");
  binder.bind(driver.memory_access, "cuMemSetAccess");
  binder.bind(driver.memory_granularity, "cuMemGetAllocationGranularity");
  binder.bind(driver.memory_export, "cuMemExportToShareableHandle");
  binder.bind(driver.memory_import, "cuMemImportFromShareableHandle");
  binder.bind(driver.copy_to_device, "cuMemcpyHtoD_v2");
  binder.bind(driver.copy_to_device_later, "cuMemcpyHtoDAsync_v2");
  binder.bind(driver.copy_to_host, "cuMemcpyDtoH_v2");
  binder.bind(driver.copy_to_host_later, "cuMemcpyDtoHAsync_v2");
  binder.bind(driver.copy_on_device, "cuMemcpyDtoDAsync_v2");
  binder.bind(driver.register_host, "cuMemHostRegister_v2");
  binder.bind(driver.unregister_host, "cuMemHostUnregister");
  binder.bind(driver.host_address, "cuMemHostGetDevicePointer_v2");
  binder.bind(driver.set_bytes, "cuMemsetD8Async");
  binder.bind(driver.set_words, "cuMemsetD32Async");
}

void bind_streams(SymbolBinder& binder, Driver& driver) {
  binder.bind(driver.stream_create, "cuStreamCreate");
  binder.bind(driver.stream_synchronize, "cuStreamSynchronize");
  binder.bind(driver.event_create, "cuEventCreate");
  binder.bind(driver.event_record, "cuEventRecord");
  binder.bind(driver.event_elapsed_ms, "cuEventElapsedTime");
  binder.bind(driver.capture_begin, "cuStreamBeginCapture_v2");
  binder.bind(driver.capture_end, "cuStreamEndCapture");
  binder.bind(driver.graph_instantiate, "cuGraphInstantiateWithFlags");
  binder.bind(driver.graph_upload, "cuGraphUpload");
  binder.bind(driver.graph_launch, "cuGraphLaunch");
  binder.bind(driver.graph_exec_destroy, "cuGraphExecDestroy");
  binder.bind(driver.graph_destroy, "cuGraphDestroy");
}

Result<Driver> open_driver() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Error{ErrorCode::kUnavailable, "no CUDA driver (libcuda.so.1)",
                 "install NVIDIA's driver for a GPU"};
  Driver driver{};
  SymbolBinder binder(library);
  bind_device(binder, driver);
  bind_modules(binder, driver);
  bind_memory(binder, driver);
  bind_streams(binder, driver);
  if (binder.missing())
    return Error{ErrorCode::kUnavailable, fmt::format("the CUDA driver has no {}", binder.missing()),
                 "Lathe needs a driver for CUDA 12.4 or later"};
  return driver;
}

}  // namespace

Result<const Driver*> driver() {
  static const Result<Driver> bound = open_driver();
  if (!bound.ok()) return bound.error();
  return &*bound;
}

Status check(Code code, const char* what) {
  if (code == 0) return Ok{};
  const char* name = nullptr;
  if (const auto bound = driver(); bound.ok()) (*bound)->error_name(code, &name);
  constexpr Code kOutOfMemory = 2;
  const std::string text = fmt::format("{}: {}", what, name ? name : std::to_string(code).c_str());
  if (code != kOutOfMemory) return Error{ErrorCode::kUnavailable, text};
  return Error{ErrorCode::kUnavailable, text, "free memory of this GPU", {}, kDeviceMemory};
}

}  // namespace lathe::cuda

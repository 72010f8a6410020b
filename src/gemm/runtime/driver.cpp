#include "gemm/runtime/driver.h"

#include <dlfcn.h>

namespace lathe::gemm {
namespace {

bool bind(void* library, Driver& driver) {
  bool all = true;
  const auto one = [&]<class Pointer>(Pointer& pointer, const char* name) {
    pointer = reinterpret_cast<Pointer>(::dlsym(library, name));
    all = all && pointer != nullptr;
  };
  one(driver.init, "cuInit");
  one(driver.error_name, "cuGetErrorName");
  one(driver.context_current, "cuCtxGetCurrent");
  one(driver.context_device, "cuCtxGetDevice");
  one(driver.device_attribute, "cuDeviceGetAttribute");
  one(driver.module_load, "cuModuleLoadData");
  one(driver.module_unload, "cuModuleUnload");
  one(driver.module_function, "cuModuleGetFunction");
  one(driver.set_function_attribute, "cuFuncSetAttribute");
  one(driver.launch, "cuLaunchKernelEx");
  one(driver.tensor_map, "cuTensorMapEncodeTiled");
  one(driver.allocate, "cuMemAlloc_v2");
  one(driver.release, "cuMemFree_v2");
  one(driver.fill_words, "cuMemsetD32Async");
  one(driver.stream_create, "cuStreamCreate");
  one(driver.stream_destroy, "cuStreamDestroy_v2");
  one(driver.stream_synchronize, "cuStreamSynchronize");
  one(driver.capture_info, "cuStreamGetCaptureInfo_v2");
  one(driver.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
  one(driver.user_object_create, "cuUserObjectCreate");
  one(driver.graph_retain, "cuGraphRetainUserObject");
  return all;
}

const Driver* open() {
  static Driver bound;
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return library != nullptr && bind(library, bound) && bound.init(0) == 0 ? &bound : nullptr;
}

}  // namespace

const Driver* driver() {
  static const Driver* const bound = open();
  return bound;
}

}  // namespace lathe::gemm

#include "tests/gemm/fake_cuda.h"

#include <cstring>

using namespace lathe::gemm;

namespace {
FakeCuda state;
template <class T>
T invented(std::uintptr_t value) {
  return reinterpret_cast<T>(value);
}
}  // namespace

extern "C" {

FakeCuda* lathe_fake_cuda() { return &state; }

Code cuInit(unsigned) { return 0; }
Code cuGetErrorName(Code code, const char** name) {
  *name = code == 719 ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR_UNKNOWN";
  return 0;
}
Code cuCtxGetCurrent(Context* context) {
  *context = invented<Context>(0x100);
  return 0;
}
Code cuCtxGetDevice(int* device) {
  *device = 0;
  return 0;
}
Code cuDeviceGetAttribute(int* value, DeviceAttribute which, int) {
  *value = which == DeviceAttribute::kMajor ? 9 : which == DeviceAttribute::kMultiprocessors ? 132 : 0;
  return 0;
}
Code cuModuleLoadData(Module* module, const void*) {
  *module = invented<Module>(0x1000u + static_cast<unsigned>(++state.loaded));
  return 0;
}
Code cuModuleUnload(Module) { return 0; }
Code cuModuleGetFunction(Function* function, Module module, const char*) {
  *function = invented<Function>(reinterpret_cast<std::uintptr_t>(module));
  return 0;
}
Code cuFuncSetAttribute(Function, FunctionAttribute, int) { return 0; }
Code cuLaunchKernelEx(const LaunchConfig* config, Function function, void** arguments, void**) {
  FakeLaunch launch{*config, function, {}, 0};
  std::memcpy(&launch.call, arguments[0], sizeof launch.call);
  std::memcpy(&launch.first_map_word, arguments[1], sizeof launch.first_map_word);
  state.launches.push_back(launch);
  return state.launch_code;
}
Code cuTensorMapEncodeTiled(void* map, int, std::uint32_t, DevicePointer base, const std::uint64_t*,
                            const std::uint64_t*, const std::uint32_t*, const std::uint32_t*, int, int, int,
                            int) {
  ++state.encoded;
  std::memcpy(map, &base, sizeof base);
  return 0;
}
Code cuMemAlloc_v2(DevicePointer* at, std::size_t bytes) {
  if (bytes > state.free_bytes) return 2;
  state.free_bytes -= bytes;
  *at = 0x10000000 + state.free_bytes;
  return 0;
}
Code cuMemFree_v2(DevicePointer) { return 0; }
Code cuMemsetD32Async(DevicePointer, unsigned, std::size_t, Stream) { return 0; }
Code cuStreamCreate(Stream* stream, unsigned) {
  *stream = invented<Stream>(0x77);
  return 0;
}
Code cuStreamDestroy_v2(Stream) { return 0; }
Code cuStreamSynchronize(Stream) { return 0; }
Code cuStreamGetCaptureInfo_v2(Stream, int* status, std::uint64_t*, GraphTag**, const void**, std::size_t*) {
  *status = 0;
  return 0;
}
Code cuThreadExchangeStreamCaptureMode(int*) { return 0; }
Code cuUserObjectCreate(UserObjectTag**, void*, void (*)(void*), unsigned, unsigned) { return 1; }
Code cuGraphRetainUserObject(GraphTag*, UserObjectTag*, unsigned, unsigned) { return 1; }

}  // extern "C"

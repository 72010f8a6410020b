#include "backend/cuda/cupti_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <string>

namespace lathe::cuda {
namespace {

constexpr std::array kPlaces = {"libcupti.so.13", "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
                                "/usr/local/cuda/lib64/libcupti.so", "libcupti.so.12", "libcupti.so"};
constexpr CuptiCode kNotPermitted = 35, kNotPermittedVirtual = 40, kBusy = 26, kVirtual = 33;

void* open_library() {
  for (const char* place : kPlaces)
    if (void* library = ::dlopen(place, RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}

template <class Function>
void bind(void* library, Function& function, const char* name, const char*& missing) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (!function && !missing) missing = name;
}

Result<Cupti> open_cupti() {
  void* const library = open_library();
  if (!library)
    return Error{ErrorCode::kUnavailable, "no CUPTI (libcupti.so)",
                 "install the CUDA toolkit's CUPTI (cuda-cupti) to count what kernels do"};
  Cupti cupti{};
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* name) { bind(library, function, name, missing); };
  find(cupti.error_name, "cuptiGetResultString");
  find(cupti.initialize, "cuptiProfilerInitialize");
  find(cupti.chip_name, "cuptiDeviceGetChipName");
  find(cupti.availability, "cuptiProfilerGetCounterAvailability");
  find(cupti.host_initialize, "cuptiProfilerHostInitialize");
  find(cupti.host_deinitialize, "cuptiProfilerHostDeinitialize");
  find(cupti.metric_properties, "cuptiProfilerHostGetMetricProperties");
  find(cupti.add_metrics, "cuptiProfilerHostConfigAddMetrics");
  find(cupti.config_size, "cuptiProfilerHostGetConfigImageSize");
  find(cupti.config_image, "cuptiProfilerHostGetConfigImage");
  find(cupti.evaluate, "cuptiProfilerHostEvaluateToGpuValues");
  find(cupti.enable, "cuptiRangeProfilerEnable");
  find(cupti.disable, "cuptiRangeProfilerDisable");
  find(cupti.data_size, "cuptiRangeProfilerGetCounterDataSize");
  find(cupti.data_initialize, "cuptiRangeProfilerCounterDataImageInitialize");
  find(cupti.set_config, "cuptiRangeProfilerSetConfig");
  find(cupti.start, "cuptiRangeProfilerStart");
  find(cupti.push, "cuptiRangeProfilerPushRange");
  find(cupti.pop, "cuptiRangeProfilerPopRange");
  find(cupti.stop, "cuptiRangeProfilerStop");
  find(cupti.decode, "cuptiRangeProfilerDecodeData");
  if (missing)
    return Error{ErrorCode::kUnavailable, fmt::format("CUPTI has no {}", missing),
                 "counters need CUPTI of CUDA 12.6 or later"};
  return cupti;
}

std::string remedy(CuptiCode code) {
  if (code == kNotPermitted || code == kNotPermittedVirtual)
    return "the driver lets only administrators count: load its module with "
           "NVreg_RestrictProfilingToAdminUsers=0";
  if (code == kBusy) return "another profiler uses the counters: end it";
  if (code == kVirtual) return "the virtual machine's host must permit counters";
  return {};
}

}  // namespace

Result<const Cupti*> cupti() {
  static const Result<Cupti> bound = open_cupti();
  if (!bound.ok()) return bound.error();
  return &*bound;
}

Status check_cupti(CuptiCode code, const char* what) {
  if (code == 0) return Ok{};
  const char* name = nullptr;
  if (const auto bound = cupti(); bound.ok()) (*bound)->error_name(code, &name);
  return Error{ErrorCode::kUnavailable,
               fmt::format("{}: {}", what, name ? name : std::to_string(code).c_str()), remedy(code)};
}

}  // namespace lathe::cuda

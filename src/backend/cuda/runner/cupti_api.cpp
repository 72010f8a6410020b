#include "backend/cuda/runner/cupti_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <string>

#include "base/symbol_binder.h"

namespace lathe::cuda {
namespace {

constexpr std::array kPlaces = {"libcupti.so.13", "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
                                "/usr/local/cuda/lib64/libcupti.so", "libcupti.so.12", "libcupti.so"};
constexpr CuptiCode kNotPermitted = 35, kNotPermittedVirtual = 40, kBusy = 26, kVirtual = 33;

Result<Cupti> open_cupti() {
  void* const library = open_library(kPlaces);
  if (!library)
    return Error{ErrorCode::kUnavailable, "no CUPTI (libcupti.so)",
                 "install the CUDA toolkit's CUPTI (cuda-cupti) to count what kernels do"};
  Cupti cupti{};
  SymbolBinder binder(library);
  binder.bind(cupti.error_name, "cuptiGetResultString");
  binder.bind(cupti.initialize, "cuptiProfilerInitialize");
  binder.bind(cupti.chip_name, "cuptiDeviceGetChipName");
  binder.bind(cupti.availability, "cuptiProfilerGetCounterAvailability");
  binder.bind(cupti.host_initialize, "cuptiProfilerHostInitialize");
  binder.bind(cupti.host_deinitialize, "cuptiProfilerHostDeinitialize");
  binder.bind(cupti.metric_properties, "cuptiProfilerHostGetMetricProperties");
  binder.bind(cupti.add_metrics, "cuptiProfilerHostConfigAddMetrics");
  binder.bind(cupti.config_size, "cuptiProfilerHostGetConfigImageSize");
  binder.bind(cupti.config_image, "cuptiProfilerHostGetConfigImage");
  binder.bind(cupti.evaluate, "cuptiProfilerHostEvaluateToGpuValues");
  binder.bind(cupti.enable, "cuptiRangeProfilerEnable");
  binder.bind(cupti.disable, "cuptiRangeProfilerDisable");
  binder.bind(cupti.data_size, "cuptiRangeProfilerGetCounterDataSize");
  binder.bind(cupti.data_initialize, "cuptiRangeProfilerCounterDataImageInitialize");
  binder.bind(cupti.set_config, "cuptiRangeProfilerSetConfig");
  binder.bind(cupti.start, "cuptiRangeProfilerStart");
  binder.bind(cupti.push, "cuptiRangeProfilerPushRange");
  binder.bind(cupti.pop, "cuptiRangeProfilerPopRange");
  binder.bind(cupti.stop, "cuptiRangeProfilerStop");
  binder.bind(cupti.decode, "cuptiRangeProfilerDecodeData");
  if (binder.missing())
    return Error{ErrorCode::kUnavailable, fmt::format("CUPTI has no {}", binder.missing()),
                 "counters need CUPTI of CUDA 12.6 or later"};
  return cupti;
}

std::string remedy(CuptiCode code) {
  if (code == kNotPermitted || code == kNotPermittedVirtual)
    return "the driver lets only administrators count: load its module with "
           "NVreg_RestrictProfilingToAdminUsers=0";
  if (code == kBusy) return "another profiler is using the counters; stop it";
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

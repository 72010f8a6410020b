#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/runner/driver_api.h"
#include "base/result.h"

namespace lathe::cuda {

// Parameters of CUPTI's range profiler, declared here so that Lathe builds without the toolkit.
// Each structure starts with its size as CUPTI counts it (without trailing padding), which tells
// newer versions of CUPTI which fields the caller knows.

struct CuptiHostTag;
struct CuptiRangeTag;
using CuptiHost = CuptiHostTag*;
using CuptiRange = CuptiRangeTag*;

struct CuptiInitialize {
  std::size_t size = 16;
  void* reserved = nullptr;
};
struct CuptiChipName {
  std::size_t size = 32;
  void* reserved = nullptr;
  std::size_t device = 0;
  const char* name = nullptr;
};
struct CuptiAvailability {
  std::size_t size = 40;
  void* reserved = nullptr;
  Context context = nullptr;
  std::size_t bytes = 0;
  std::uint8_t* image = nullptr;
};
struct CuptiHostInitialize {
  std::size_t size = 48;
  void* reserved = nullptr;
  int profiler = 0;  ///< the range profiler
  const char* chip = nullptr;
  const std::uint8_t* availability = nullptr;
  CuptiHost host = nullptr;
};
struct CuptiHostOnly {
  std::size_t size = 24;
  void* reserved = nullptr;
  CuptiHost host = nullptr;
};
struct CuptiMetricProperties {
  std::size_t size = 60;
  void* reserved = nullptr;
  CuptiHost host = nullptr;
  const char* metric = nullptr;
  const char* description = nullptr;
  const char* unit = nullptr;
  const char* dimension = nullptr;
  int kind = 0;
};
struct CuptiAddMetrics {
  std::size_t size = 40;
  void* reserved = nullptr;
  CuptiHost host = nullptr;
  const char** metrics = nullptr;
  std::size_t count = 0;
};
struct CuptiConfigSize {
  std::size_t size = 32;
  void* reserved = nullptr;
  CuptiHost host = nullptr;
  std::size_t bytes = 0;
};
struct CuptiConfigImage {
  std::size_t size = 40;
  void* reserved = nullptr;
  CuptiHost host = nullptr;
  std::size_t bytes = 0;
  std::uint8_t* image = nullptr;
};
struct CuptiEvaluate {
  std::size_t size = 72;
  void* reserved = nullptr;
  CuptiHost host = nullptr;
  const std::uint8_t* data = nullptr;
  std::size_t bytes = 0;
  std::size_t range_index = 0;
  const char** metrics = nullptr;
  std::size_t count = 0;
  double* values = nullptr;
};
struct CuptiEnable {
  std::size_t size = 32;
  void* reserved = nullptr;
  Context context = nullptr;
  CuptiRange range = nullptr;
};
struct CuptiRangeOnly {
  std::size_t size = 24;
  void* reserved = nullptr;
  CuptiRange range = nullptr;
};
struct CuptiDataSize {
  std::size_t size = 64;
  void* reserved = nullptr;
  CuptiRange range = nullptr;
  const char** metrics = nullptr;
  std::size_t count = 0;
  std::size_t ranges = 1;
  std::uint32_t tree_nodes = 1;
  std::size_t bytes = 0;
};
struct CuptiDataInitialize {
  std::size_t size = 40;
  void* reserved = nullptr;
  CuptiRange range = nullptr;
  std::size_t bytes = 0;
  std::uint8_t* data = nullptr;
};
struct CuptiSetConfig {
  std::size_t size = 90;
  void* reserved = nullptr;
  CuptiRange range = nullptr;
  std::size_t config_bytes = 0;
  const std::uint8_t* config = nullptr;
  std::size_t data_bytes = 0;
  std::uint8_t* data = nullptr;
  int ranges = 2;  ///< CUPTI_UserRange
  int replay = 3;  ///< CUPTI_UserReplay
  std::size_t ranges_a_pass = 1;
  std::uint16_t nesting_levels = 1;
  std::uint16_t least_level = 1;
  std::size_t pass = 0;
  std::uint16_t level = 1;
};
struct CuptiPush {
  std::size_t size = 32;
  void* reserved = nullptr;
  CuptiRange range = nullptr;
  const char* name = nullptr;
};
struct CuptiStop {
  std::size_t size = 41;
  void* reserved = nullptr;
  CuptiRange range = nullptr;
  std::size_t pass = 0;
  std::size_t level = 0;
  std::uint8_t all_passes = 0;
};
struct CuptiDecode {
  std::size_t size = 32;
  void* reserved = nullptr;
  CuptiRange range = nullptr;
  std::size_t dropped = 0;
};

using CuptiCode = int;  ///< CUptiResult; 0 is success

/// The part of CUPTI's range profiler that Lathe uses.
struct Cupti {
  CuptiCode (*error_name)(CuptiCode, const char**);
  CuptiCode (*initialize)(CuptiInitialize*);
  CuptiCode (*chip_name)(CuptiChipName*);
  CuptiCode (*availability)(CuptiAvailability*);
  CuptiCode (*host_initialize)(CuptiHostInitialize*);
  CuptiCode (*host_deinitialize)(CuptiHostOnly*);
  CuptiCode (*metric_properties)(CuptiMetricProperties*);
  CuptiCode (*add_metrics)(CuptiAddMetrics*);
  CuptiCode (*config_size)(CuptiConfigSize*);
  CuptiCode (*config_image)(CuptiConfigImage*);
  CuptiCode (*evaluate)(CuptiEvaluate*);
  CuptiCode (*enable)(CuptiEnable*);
  CuptiCode (*disable)(CuptiRangeOnly*);
  CuptiCode (*data_size)(CuptiDataSize*);
  CuptiCode (*data_initialize)(CuptiDataInitialize*);
  CuptiCode (*set_config)(CuptiSetConfig*);
  CuptiCode (*start)(CuptiRangeOnly*);
  CuptiCode (*push)(CuptiPush*);
  CuptiCode (*pop)(CuptiRangeOnly*);
  CuptiCode (*stop)(CuptiStop*);
  CuptiCode (*decode)(CuptiDecode*);
};

/// Binds the toolkit's libcupti, once per process. kUnavailable if there is none or it is too old.
Result<const Cupti*> cupti();

/// Ok for 0, else an Error with `what` and CUPTI's name of `code`; its hint says how to permit
/// counters where they are not.
Status check_cupti(CuptiCode code, const char* what);

}  // namespace lathe::cuda

#pragma once

#include "backend/cuda/runner/cupti_params.h"
#include "base/result.h"

namespace lathe::cuda {

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

/// Binds the toolkit's libcupti, once a process. kUnavailable where there is none, or one that is too old.
Result<const Cupti*> cupti();

/// `what` failed with `code`: by CUPTI's name for it, with what to do where counters are not permitted.
Status check_cupti(CuptiCode code, const char* what);

}  // namespace lathe::cuda

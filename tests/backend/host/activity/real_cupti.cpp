// The stand-in has the layout of CUPTI's own headers.

#include <cupti_activity.h>
#include <cupti_callbacks.h>

#include "fake_cupti.h"

static_assert(offsetof(Call, function) == offsetof(CUpti_CallbackData, functionName));
static_assert(offsetof(Call, context_id) == offsetof(CUpti_CallbackData, contextUid));
static_assert(offsetof(Call, correlation) == offsetof(CUpti_CallbackData, correlationId));
static_assert(kBegin == offsetof(CUpti_ActivityKernel9, start));
static_assert(kEnd == offsetof(CUpti_ActivityKernel9, end));
static_assert(kCorrelation == offsetof(CUpti_ActivityKernel9, correlationId));

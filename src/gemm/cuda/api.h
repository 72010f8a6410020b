#pragma once

#include "base/result.h"
#include "gemm/runtime/driver.h"

namespace lathe::gemm {

using Event = struct EventTag*;
using Graph = struct GraphTag*;
using GraphExec = struct GraphExecTag*;

/// What measuring needs of the driver besides launches. One context, the device's primary one,
/// which the vendor's libraries use too.
struct MeasuringDriver {
  Code (*device_get)(int*, int ordinal);
  Code (*device_name)(char*, int bytes, int device);
  Code (*device_bus)(char*, int bytes, int device);
  Code (*context_retain)(Context*, int device);
  Code (*context_make_current)(Context);
  Code (*allocate)(DevicePointer*, std::size_t bytes);
  Code (*release)(DevicePointer);
  Code (*copy_to_device)(DevicePointer, const void*, std::size_t bytes);
  Code (*copy_to_host)(void*, DevicePointer, std::size_t bytes);
  Code (*copy_within)(DevicePointer to, DevicePointer from, std::size_t bytes, Stream);
  Code (*fill_halves)(DevicePointer, unsigned short, std::size_t count, Stream);
  Code (*stream_create)(Stream*, unsigned flags);
  Code (*stream_synchronize)(Stream);
  Code (*event_create)(Event*, unsigned flags);
  Code (*event_record)(Event, Stream);
  Code (*event_elapsed_ms)(float*, Event begin, Event end);
  Code (*capture_begin)(Stream, int mode);
  Code (*capture_end)(Stream, Graph*);
  Code (*graph_instantiate)(GraphExec*, Graph, unsigned long long flags);
  Code (*graph_upload)(GraphExec, Stream);
  Code (*graph_launch)(GraphExec, Stream);
  Code (*graph_exec_destroy)(GraphExec);
  Code (*graph_destroy)(Graph);
};

/// kUnavailable where there is no driver.
Result<const MeasuringDriver*> measuring_driver();

/// Ok for 0, else an Error with `what` and the driver's name of `code`.
Status check(Code code, const char* what);

}  // namespace lathe::gemm

#pragma once

#include <cstddef>
#include <cstdint>

namespace lathe::gemm {

// The CUDA driver's functions that the library calls, declared here and bound at run time, so that
// it builds without the toolkit and loads without a GPU. Layouts are those of the stable ABI.

using Code = int;  ///< CUresult; 0 is success
using DevicePointer = std::uint64_t;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Context = struct ContextTag*;
using Stream = struct StreamTag*;
struct GraphTag;
struct UserObjectTag;

enum class DeviceAttribute : int { kMultiprocessors = 16, kL2Bytes = 38, kMajor = 75, kMinor = 76 };
enum class FunctionAttribute : int { kMaxDynamicShared = 8, kNonPortableCluster = 14 };

struct LaunchAttribute {
  int id = 4;  ///< the cluster's extents
  int padding = 0;
  unsigned cluster[16] = {1, 1, 1};
};
struct LaunchConfig {
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  Stream stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};
static_assert(sizeof(LaunchAttribute) == 72 && offsetof(LaunchConfig, attributes) == 40);

struct Driver {
  Code (*init)(unsigned flags);
  Code (*error_name)(Code, const char**);
  Code (*context_current)(Context*);
  Code (*context_device)(int* device);
  Code (*device_attribute)(int*, DeviceAttribute, int device);
  Code (*module_load)(Module*, const void* image);
  Code (*module_unload)(Module);
  Code (*module_function)(Function*, Module, const char* name);
  Code (*set_function_attribute)(Function, FunctionAttribute, int);
  Code (*launch)(const LaunchConfig*, Function, void** arguments, void** extra);
  Code (*tensor_map)(void* map, int type, std::uint32_t rank, DevicePointer, const std::uint64_t* dims,
                     const std::uint64_t* strides, const std::uint32_t* box,
                     const std::uint32_t* element_strides, int interleave, int swizzle, int promotion,
                     int fill);
  Code (*allocate)(DevicePointer*, std::size_t bytes);
  Code (*release)(DevicePointer);
  Code (*fill_words)(DevicePointer, unsigned word, std::size_t count, Stream);
  Code (*stream_create)(Stream*, unsigned flags);
  Code (*stream_destroy)(Stream);
  Code (*stream_synchronize)(Stream);
  Code (*capture_info)(Stream, int* status, std::uint64_t* capture, GraphTag**, const void** nodes,
                       std::size_t* node_count);
  Code (*exchange_capture_mode)(int* mode);
  Code (*user_object_create)(UserObjectTag**, void* argument, void (*destroy)(void*), unsigned references,
                             unsigned flags);
  Code (*graph_retain)(GraphTag*, UserObjectTag*, unsigned references, unsigned flags);
};

/// Binds libcuda.so.1, once per process. nullptr where there is no driver, or one before 12.0.
const Driver* driver();

}  // namespace lathe::gemm

#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace lathe::cuda {

// The part of the CUDA driver's interface that Lathe uses, declared here and bound at run time: one
// program runs with and without a GPU, and builds without the toolkit. Layouts and numbers are
// those of the driver's stable ABI (version 12.4 and later).

using Code = int;  ///< CUresult; 0 is success
inline constexpr Code kFirstStickyCode =
    700;                                     ///< CUDA_ERROR_ILLEGAL_ADDRESS: from here on the context is lost
inline constexpr unsigned kNonBlocking = 1;  ///< a stream that does not wait for the default one
inline constexpr unsigned kForKernels = 2;   ///< a flag: registered host memory that kernels may address
inline constexpr unsigned kSharedWithoutAsking = 48 << 10;  ///< bytes a block has without an attribute
using DevicePointer = std::uint64_t;
using AllocationHandle = std::uint64_t;
struct ContextTag;
struct ModuleTag;
struct FunctionTag;
struct StreamTag;
struct EventTag;
struct GraphTag;
struct GraphExecTag;
using Context = ContextTag*;
using Module = ModuleTag*;
using Function = FunctionTag*;
using Stream = StreamTag*;
using Event = EventTag*;
using Graph = GraphTag*;
using GraphExec = GraphExecTag*;

struct MemoryLocation {
  int type = 1;  ///< device
  int id = 0;
};
struct AllocationProperties {
  int type = 1;          ///< pinned
  int handle_types = 1;  ///< POSIX file descriptor
  MemoryLocation location = {};
  void* windows_only = nullptr;
  unsigned char flags[8] = {};
};
enum class Access : int { kNone = 0, kRead = 1, kReadWrite = 3 };
struct AccessDescription {
  MemoryLocation location = {};
  Access access = Access::kNone;
};

enum class LaunchAttributeId : int {
  kCooperative = 2,
  kClusterDimension = 4,
  kProgrammaticSerialization = 6
};
struct LaunchAttribute {
  LaunchAttributeId id = LaunchAttributeId::kCooperative;
  int padding = 0;
  union {
    char bytes[64] = {};
    int flag;
    unsigned cluster[3];
  };
};
struct LaunchConfig {
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  Stream stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};
static_assert(sizeof(AllocationProperties) == 32 && sizeof(AccessDescription) == 12);
static_assert(sizeof(LaunchAttribute) == 72 && offsetof(LaunchConfig, attributes) == 40);

inline constexpr int kCaptureThisThread = 1;  // a mode of capture_begin

enum class DeviceAttribute : int {
  kMaxSharedPerBlock = 8,
  kClockKhz = 13,
  kMultiprocessors = 16,
  kPciBus = 33,
  kPciDevice = 34,
  kMemoryClockKhz = 36,
  kMemoryBusBits = 37,
  kL2Bytes = 38,
  kMaxThreadsPerMultiprocessor = 39,
  kPciDomain = 50,
  kComputeMajor = 75,
  kComputeMinor = 76,
  kSharedPerMultiprocessor = 81,
  kRegistersPerMultiprocessor = 82,
  kPageableMemoryAccess = 88,
  kSharedOptIn = 97,
  kBlocksPerMultiprocessor = 106,
  kReservedSharedPerBlock = 111,
};

enum class FunctionAttribute : int {
  kSharedBytes = 1,
  kLocalBytes = 3,
  kRegisters = 4,
  kMaxDynamicShared = 8,
  kSharedCarveout = 9,
  kNonPortableCluster = 14
};

/// The driver's functions. A pointer is null only if the driver predates the function.
struct Driver {
  Code (*init)(unsigned flags);
  Code (*version)(int*);
  Code (*error_name)(Code, const char**);
  Code (*device_get)(int*, int ordinal);
  Code (*device_count)(int*);
  Code (*device_name)(char*, int bytes, int device);
  Code (*device_uuid)(char* bytes, int device);  ///< 16
  Code (*device_attribute)(int*, DeviceAttribute, int device);
  Code (*device_memory)(std::size_t*, int device);
  Code (*context_create)(Context*, unsigned flags, int device);
  Code (*context_synchronize)();
  Code (*context_current)(Context*);
  Code (*context_make_current)(Context);

  Code (*module_load)(Module*, const void* image);
  Code (*module_unload)(Module);
  Code (*module_function)(Function*, Module, const char* name);
  Code (*function_attribute)(int*, FunctionAttribute, Function);
  Code (*set_function_attribute)(Function, FunctionAttribute, int);
  Code (*blocks_per_multiprocessor)(int*, Function, int threads, std::size_t dynamic_shared_bytes);
  Code (*parameter_info)(Function, std::size_t index, std::size_t* offset, std::size_t* bytes);
  /// `map` has 128 bytes, aligned to 64.
  Code (*tensor_map)(void* map, int type, std::uint32_t rank, DevicePointer, const std::uint64_t* dims,
                     const std::uint64_t* strides, const std::uint32_t* box,
                     const std::uint32_t* element_strides, int interleave, int swizzle, int promotion,
                     int fill);
  Code (*launch)(const LaunchConfig*, Function, void** arguments, void** extra);

  Code (*free_memory)(std::size_t* free_bytes, std::size_t* all_bytes);
  Code (*address_reserve)(DevicePointer*, std::size_t bytes, std::size_t alignment, DevicePointer hint,
                          unsigned long long flags);
  Code (*address_free)(DevicePointer, std::size_t bytes);
  Code (*memory_create)(AllocationHandle*, std::size_t bytes, const AllocationProperties*,
                        unsigned long long flags);
  Code (*memory_release)(AllocationHandle);
  Code (*memory_map)(DevicePointer, std::size_t bytes, std::size_t offset, AllocationHandle,
                     unsigned long long flags);
  Code (*memory_unmap)(DevicePointer, std::size_t bytes);
  Code (*memory_access)(DevicePointer, std::size_t bytes, const AccessDescription*, std::size_t count);
  Code (*memory_granularity)(std::size_t*, const AllocationProperties*, int option);
  Code (*memory_export)(int* fd, AllocationHandle, int handle_type, unsigned long long flags);
  Code (*memory_import)(AllocationHandle*, void* fd, int handle_type);

  Code (*copy_to_device)(DevicePointer, const void*, std::size_t bytes);
  Code (*copy_to_device_later)(DevicePointer, const void*, std::size_t bytes, Stream);
  Code (*copy_to_host)(void*, DevicePointer, std::size_t bytes);
  Code (*copy_to_host_later)(void*, DevicePointer, std::size_t bytes, Stream);
  Code (*copy_on_device)(DevicePointer to, DevicePointer from, std::size_t bytes, Stream);
  Code (*register_host)(void*, std::size_t bytes, unsigned flags);
  Code (*unregister_host)(void*);
  Code (*host_address)(DevicePointer*, void*, unsigned flags);  ///< of registered memory
  Code (*set_bytes)(DevicePointer, unsigned char, std::size_t count, Stream);
  Code (*set_words)(DevicePointer, unsigned, std::size_t count, Stream);

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

/// Binds libcuda.so.1, once per process, without calling init(). kUnavailable if there is no
/// driver.
Result<const Driver*> driver();

/// Ok for 0, else an Error with `what` and the driver's name of `code`.
Status check(Code code, const char* what);

}  // namespace lathe::cuda

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/wire/arguments.h"
#include "backend/runner_frames.h"
#include "base/result.h"

/// What the broker says to the two processes that hold a context on the GPU. The keeper owns the
/// memory of all workloads and runs no candidate; a launcher maps some of it and runs one
/// candidate.
namespace lathe::cuda {

using protocol::Block;
using protocol::decode_block;
using protocol::decode_load_reply;
using protocol::encode;
using protocol::LoadReply;
using protocol::Scratch;
using protocol::ScratchFill;

inline constexpr std::uint64_t kAllocationBytes = 2 << 20;  ///< physical memory comes in multiples of it
inline constexpr std::uint64_t kAlign = 256;
inline constexpr std::uint64_t kRedzoneBytes = 64 << 10;
inline constexpr std::uint8_t kCanary = 0xa5;

/// A tensor in physical memory of its own, whose end it fills up to kAlign: addresses behind it
/// fault. An output's memory before it, kRedzoneBytes or more, and the rest behind it hold
/// canaries.
struct Slot {
  std::uint64_t bytes = 0;             ///< of the tensor
  std::uint64_t allocation_bytes = 0;  ///< of the memory
  std::uint64_t offset = 0;            ///< of the tensor in it
  std::uint64_t end() const { return offset + bytes; }
};
Slot make_slot(std::uint64_t tensor_bytes);

/// The memory of a workload: every trial has one slot a tensor. In host memory, trials lie `stride`
/// apart and tensors at `offsets` in them.
struct Region {
  std::vector<Slot> slots;
  std::vector<std::uint64_t> offsets;
  std::uint64_t stride = 0;
};
Region region_of(const std::vector<std::uint64_t>& tensor_bytes);

struct Layout {
  std::uint32_t trials = 0;
  Region inputs;
  Region outputs;
  std::vector<std::uint32_t> order;  ///< of outputs: the trial at each place; empty: as they are numbered
  std::vector<std::int32_t> inout_source;  ///< one an output: the input it starts from, or -1
};

/// Physical memory of a region's trials, each allocation a handle and a mapping, of which a driver
/// makes some ten thousand a second for all processes together. Each slot has its own 2 MiB pages.
/// The first trial's tensors have memory of their own and fault at their ends. The inputs of each
/// other trial lie apart, so that a kernel finds none of other calls; outputs share one allocation,
/// in the layout's order, so that no address tells a trial's number. It is the same for trials that
/// are verified and for those that are timed: a kernel must not learn which it computes.
struct Allocations {
  struct Place {
    std::uint32_t allocation = 0;
    std::uint64_t offset = 0;
  };
  std::vector<std::uint64_t> bytes;  ///< of each allocation
  std::vector<Place> places;         ///< [trial * slots + slot]: where the slot's memory begins
};
Allocations input_allocations(const Layout& layout);
Allocations output_allocations(const Layout& layout);

/// Part of an output.
struct Piece {
  std::uint32_t trial = 0;
  std::uint32_t output = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// A MatrixProduct or, with elements of an image, a GatheredProduct in fp32 or fp64. In one memory
/// follow each other: the offsets of a gathered one's rows and columns, A, B or the images, C.
struct Product {
  std::uint64_t m = 0, n = 0, k = 0;
  std::uint64_t images = 1, image_elements = 0;
  std::uint8_t element_bytes = 0;
  bool a_transposed = false, b_transposed = false;  ///< [k, m] and [n, k] in memory; false where gathered

  bool gathered() const { return image_elements > 0; }
  std::uint64_t offsets_bytes() const { return gathered() ? (k + n) * sizeof(std::int64_t) : 0; }
  std::uint64_t a_bytes() const { return m * k * element_bytes; }
  std::uint64_t b_bytes() const { return (gathered() ? images * image_elements : k * n) * element_bytes; }
  std::uint64_t c_bytes() const { return images * m * n * element_bytes; }
  std::uint64_t bytes() const { return offsets_bytes() + a_bytes() + b_bytes() + c_bytes(); }
};

/// A request to the keeper, which serves any number of channels at once, each in order. kServe
/// comes with a further channel, kKernels with the cubin of kKeeperKernels, kCreate with the memory
/// of the inputs, kAddBank with that of the outputs, kMultiply with that of the matrices.
struct KeeperRequest {
  enum class Verb : std::uint8_t {
    kServe,
    kKernels,
    kMeasure,
    kCreate,
    kDestroy,
    kAddBank,
    kReset,
    kCollect,
    kSample,
    kExport,
    kMultiply
  };
  Verb verb = Verb::kCreate;
  std::uint64_t workload = 0;
  std::uint32_t bank = 0;          ///< of its outputs: kAddBank and later ones
  std::uint8_t poison = 0;         ///< kReset
  std::vector<Piece> pieces = {};  ///< kCollect, kSample
  Layout layout = {};              ///< kCreate
  Product product = {};            ///< kMultiply
  std::uint64_t id = 0;            ///< which its reply repeats
};
std::string encode(const KeeperRequest& request);
Result<KeeperRequest> decode_keeper_request(std::string_view bytes);

/// kExport's handles come before it in frames of their own, kMaxFrameFds at a time: of the inputs'
/// allocations, then of the bank's.
struct KeeperReply {
  std::uint64_t id = 0;  ///< of the request
  bool ok = false;
  std::string text;  ///< why not
  /// kMeasure: see runner/measure.h. kCollect: the output of a trial (trial by trial) whose
  /// canaries were overwritten, or -1.
  std::vector<double> numbers;
};
std::string encode(const KeeperReply& reply);
Result<KeeperReply> decode_keeper_reply(std::string_view bytes);

/// What the device is: the first frame of a keeper.
struct DeviceFacts {
  std::string name;
  std::string error;  ///< why there is none
  std::string uuid;   ///< "GPU-..."
  std::string pci;    ///< its place: "0000:17:00.0"
  std::int32_t driver_version = 0;
  std::int32_t compute_major = 0, compute_minor = 0;
  std::int64_t multiprocessors = 0, shared_optin_bytes = 0, l2_bytes = 0, memory_bytes = 0;
};
std::string encode(const DeviceFacts& facts);
Result<DeviceFacts> decode_device_facts(std::string_view bytes);

using Extents = std::array<std::uint32_t, 3>;
struct Step {
  bool is_node = false;
  std::string kernel;  ///< or the node's JSON
  Extents grid = {1, 1, 1};
  Extents block = {1, 1, 1};
  Extents cluster = {0, 0, 0};  ///< zeros: none
  std::uint32_t shared_bytes = 0;
  bool cooperative = false;
  bool programmatic = false;
  bool non_portable = false;
  std::int8_t carveout = -1;  ///< percent; -1 for the driver's choice
  std::vector<Arg> args;
};

/// Error::reason where the device has no memory left.
inline constexpr const char* kDeviceMemory = "device_memory";

/// A launcher's first frame: it comes with the cubin of kScrubKernel, and is not answered.
inline constexpr std::string_view kWarmFrame = "warm";

/// What a launcher's next blocks run. A load of a new number comes with its Load in a memory, the
/// control page and the cubin, handles of the workload's memory follow as after kExport, and a
/// LoadReply answers. A number without them chooses a load from before, unanswered.
struct LoadOrder {
  std::uint32_t number = 0;
  std::vector<std::uint32_t> unload = {};  ///< numbers of loads that are not wanted any more
};
std::string encode(const LoadOrder& order);
bool is_load_order(std::string_view frame);
Result<LoadOrder> decode_load_order(std::string_view bytes);

struct Load {
  Layout layout;
  std::vector<Scratch> scratch;
  std::vector<Step> steps;
  std::vector<TensorMap> maps;
  std::vector<std::uint64_t> scalars;  ///< [trial][input]: the bits of those passed by value
};
std::string encode(const Load& load);
Result<Load> decode_load(std::string_view bytes);

/// The launcher's own account, believed only where it is to the candidate's disadvantage.
struct BlockReply {
  std::int32_t code = 0;  ///< CUresult
  std::string text;       ///< of a code other than 0
  bool counter_dirty = false;
  double device_ns = 0;  ///< between events around the calls
};
std::string encode(const BlockReply& reply);
Result<BlockReply> decode_block_reply(std::string_view bytes);

/// The page that the broker and a launcher share. The launcher records a block's calls, waits for
/// `prepare`, clears what the last block left on the device, says `ready`, waits for `go`, and says
/// `done`. Only what lies between `prepare` and `done` has to be alone on the device.
struct Control {
  alignas(128) std::atomic<std::uint32_t> recorded;
  alignas(128) std::atomic<std::uint32_t> prepare;
  alignas(128) std::atomic<std::uint32_t> ready;
  alignas(128) std::atomic<std::uint32_t> go;
  alignas(128) std::atomic<std::uint32_t> done;
};
static_assert(sizeof(Control) <= 4096);

}  // namespace lathe::cuda

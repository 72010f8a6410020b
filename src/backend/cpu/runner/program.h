#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/protocol.h"
#include "backend/cpu/runner/loaded_image.h"
#include "backend/cpu/runner/thread_team.h"
#include "backend/vendor_library.h"

namespace lathe {

/// A kernel's arguments in the System V convention: integers and pointers in one list,
/// floating-point scalars in another. The two classes are passed in different registers, so one
/// prototype fits every kernel.
struct CallFrame {
  void* function = nullptr;
  std::vector<std::uint64_t> words;
  std::vector<double> reals;  ///< a float's bits are in the low half
  std::int64_t items = 0;

  void run(std::int64_t begin, std::int64_t end) const;
};

inline constexpr std::size_t kMaxWords = 26;  ///< 24 arguments, begin and end

/// Addresses of a block's data in this process.
struct BlockMemory {
  std::byte* inputs = nullptr;
  std::byte* outputs = nullptr;
  std::span<const Mapping> scratch;
};

/// One trial's calls with every pointer resolved, so that the timed loop only calls.
class TrialCalls {
 public:
  TrialCalls(const protocol::Load& load, const BlockMemory& memory, std::uint32_t trial,
             const LoadedImage* image, std::span<lathe_vendor_call* const> vendor_calls);

  /// Returns a library's error code, or 0.
  int run(const protocol::Load& load, const BlockMemory& memory, ThreadTeam& team, const LoadedImage* image,
          const VendorLibrary* vendor) const;

 private:
  struct Step {
    CallFrame frame;
    lathe_vendor_call* vendor_call = nullptr;
    std::vector<void*> buffers;
  };
  std::vector<Step> steps_;
};

}  // namespace lathe

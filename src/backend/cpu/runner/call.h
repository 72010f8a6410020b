#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lathe {

/// A kernel's arguments in the System V convention: integers and pointers in one list, floating-point scalars
/// in another. The two classes travel in different registers, so one prototype calls every kernel.
struct CallFrame {
  void* function = nullptr;
  std::vector<std::uint64_t> words;
  std::vector<double> reals;  ///< a float scalar's bits lie in the low half
  std::int64_t items = 0;

  void run(std::int64_t begin, std::int64_t end) const;
};

inline constexpr std::size_t kMaxWords = 26;  ///< 24 arguments, begin and end
inline constexpr std::size_t kMaxReals = 8;

}  // namespace lathe

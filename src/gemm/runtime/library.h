#pragma once

#include <cstddef>

#include "gemm/runtime/plan.h"

namespace lathe::gemm {

/// A kernel as it lies in the library: its cubin of sm_90a, and of sm_80 where it runs there too.
struct Image {
  Plan plan;
  const unsigned char* sm90 = nullptr;
  const unsigned char* sm80 = nullptr;
};

/// A size that was tuned, packed and aligned, and its kernel.
struct Entry {
  Track track;
  std::int64_t m, n, k;
  std::uint32_t image;
};

/// All that the library was exported with. Entries are sorted by track, m, n and k.
struct Library {
  const Image* images;
  std::size_t image_count;
  const Entry* entries;
  std::size_t entry_count;
};

/// Defined by the exported table.
const Library& library();

/// The kernel of a product: the tuned one of its size (where sums in fp16 will do, also one that
/// was tuned for fp32), else the fastest by the model of those that serve it. nullptr where none
/// serves, which a complete table never has.
const Image* choose(const Library& library, const Problem& problem, int sm_count, bool has_sm90);

}  // namespace lathe::gemm

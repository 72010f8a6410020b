#include "policy/catalog/patterns.h"

#include <algorithm>
#include <array>

#include "policy/catalog/emit/patterns.h"

namespace lathe::catalog {
namespace {

using Emitter = Status (*)(const Site&, Program&);

/// Who writes a group that begins with a primitive of this kind.
struct Pattern {
  Kind kind;
  Emitter cpu, cuda;
};

constexpr std::array kPatterns = {
    Pattern{Kind::kApply, emit_nest, emit_nest},
    Pattern{Kind::kReduce, emit_nest, emit_nest},
    Pattern{Kind::kContract, emit_cpu_contraction, emit_cuda_contraction},
    Pattern{Kind::kConvolve, emit_cpu_convolution, emit_cuda_convolution},
    Pattern{Kind::kPool, emit_pool, emit_pool},
    Pattern{Kind::kResample, emit_resample, emit_resample},
    Pattern{Kind::kScan, emit_scan, emit_scan},
    Pattern{Kind::kPermute, emit_cpu_permute, emit_cuda_permute},
    Pattern{Kind::kSegments, emit_segments, emit_segments},
    Pattern{Kind::kMove, emit_move, emit_move},
};

}  // namespace

Status emit_group(const Site& site, Program& program) {
  const auto pattern = std::ranges::find(kPatterns, site.node().kind, &Pattern::kind);
  if (pattern == kPatterns.end()) return Error{ErrorCode::kInternal, "a view is no kernel"};
  return (site.target.cuda ? pattern->cuda : pattern->cpu)(site, program);
}

}  // namespace lathe::catalog

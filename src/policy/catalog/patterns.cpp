#include "policy/catalog/patterns.h"

#include <algorithm>
#include <array>

#include "policy/catalog/emit/patterns.h"

namespace lathe::catalog {
namespace {

using Emitter = Status (*)(const Site&, Program&);

/// Who writes a group that begins with a primitive of this kind; nullptr for nobody.
struct Pattern {
  Kind kind;
  Emitter cpu, cuda;
};

constexpr std::array kPatterns = {
    Pattern{Kind::kApply, emit_nest, emit_nest},
    Pattern{Kind::kReduce, emit_nest, emit_nest},
    Pattern{Kind::kContract, emit_cpu_contraction, emit_cuda_contraction},
    Pattern{Kind::kGrouped, emit_grouped_contraction, nullptr},
    Pattern{Kind::kConvolve, emit_cpu_convolution, emit_cuda_convolution},
    Pattern{Kind::kPool, emit_pool, emit_pool},
    Pattern{Kind::kWindows, emit_cpu_windows, nullptr},
    Pattern{Kind::kResample, emit_resample, emit_resample},
    Pattern{Kind::kScan, emit_scan, emit_scan},
    Pattern{Kind::kSort, emit_cpu_sort, nullptr},
    Pattern{Kind::kPermute, emit_cpu_permute, emit_cuda_permute},
    Pattern{Kind::kSegments, emit_segments, emit_segments},
    Pattern{Kind::kMove, emit_move, emit_move},
};

constexpr const char* kOthersCan = "write the kernel by hand, or let a model write it (--policy openai)";

/// On a GPU what is moved or summed is fp32, fp16 or bf16.
bool fits_gpu(const Primitive& node) {
  const DType dtype = node.type.dtype;
  const bool adds = node.kind == Kind::kSegments &&
                    (node.how == "add" || node.how == "bincount" || node.how.starts_with("scatter_"));
  if (node.kind == Kind::kApply || node.kind == Kind::kReduce) return !node.exact;
  return !adds && info(dtype).is_float && dtype != DType::kF64;
}

}  // namespace

Status emit_group(const Site& site, Program& program) {
  const auto pattern = std::ranges::find(kPatterns, site.node().kind, &Pattern::kind);
  if (pattern == kPatterns.end()) return Error{ErrorCode::kInternal, "a view is no kernel"};
  const Emitter emit = site.target.cuda ? pattern->cuda : pattern->cpu;
  if (emit == nullptr || (site.target.cuda && !fits_gpu(site.node())))
    return Error{ErrorCode::kUnavailable, "the catalogue has no such kernel for a GPU", kOthersCan};
  return emit(site, program);
}

}  // namespace lathe::catalog

#pragma once

#include <vector>

#include "gemm/runtime/plan.h"

namespace lathe::gemm {

/// The knobs that are tried for products of this size, packed and aligned, in every layout's
/// skeletons: all that serve it and fit a multiprocessor, by the model's time, the fastest first.
std::vector<Plan> ranked_plans(const Problem& problem, int sm_count);

/// The best `count` of them that are not too much alike: one (of many: a thirtieth) of a tile that
/// is shared in one way, and not all of one skeleton or one way to share K. Fewer if the others are
/// far slower by the model.
std::vector<Plan> shortlist(const Problem& problem, int sm_count, std::size_t count);

/// What serves every product of a layout, whatever its alignment: for sm_80 too. The last serves
/// all.
std::vector<Plan> general_plans(Layout layout);

/// Kernels for sm_90 that between them do well at most sizes: what a library has for those that
/// were not tuned.
std::vector<Plan> broad_plans(Layout layout);

}  // namespace lathe::gemm

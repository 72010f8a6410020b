#include "task/ops/support/resample.h"

#include <algorithm>

#include "task/ops/support/shape_rules.h"

namespace lathe::ops {

AttrRule size_rule() { return {"size", AttrKind::kIntegers, true}; }

Result<SymbolicType> resized(const InferContext& context, std::size_t axes) {
  LATHE_CHECK_OK(check_float(context));
  LATHE_CHECK_OK(check_rank(context, 0, axes + 2));
  LATHE_TRY(std::vector<Expr> size, context.attrs.expressions("size", {}));
  if (size.size() == 1) size.resize(axes, size.front());
  if (size.size() != axes)
    return invalid("attribute 'size' has " + std::to_string(size.size()) + " extents",
                   "give one, or one for each of the " + std::to_string(axes) + " axes");
  SymbolicType result = context.in[0];
  std::ranges::move(size, result.shape.begin() + 2);
  return result;
}

Resampling make_resampling(const OpSite& site, std::size_t axes) {
  Resampling result;
  const std::size_t skipped = result.in.size() - axes;
  std::copy(site.in[0].begin() + 2, site.in[0].end(),
            result.in.begin() + static_cast<std::ptrdiff_t>(skipped));
  std::copy(site.out.begin() + 2, site.out.end(), result.out.begin() + static_cast<std::ptrdiff_t>(skipped));
  result.planes = site.out[0] * site.out[1];
  return result;
}

}  // namespace lathe::ops

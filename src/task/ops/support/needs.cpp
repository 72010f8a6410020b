#include "task/ops/support/needs.h"

#include <functional>

#include "task/ops/factories.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

/// The elements of a line that a rowwise op brings to a common scale, at least. One alone becomes a
/// constant.
std::int64_t line_length(const OpSite& site) {
  const Shape& x = site.in[0];
  if (x.empty()) return 1;
  if (site.attrs.has("groups") || x.size() != site.out.size())
    return std::accumulate(x.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(2, x.size())),
                           x.end(), std::int64_t{1}, std::multiplies<>());
  return x[wrap_axis(site.attrs.integer("axis", -1), x.size())];
}

/// An element that is constant hides what it may be multiplied with.
std::int64_t hidden_by_others(const OpSite& site, const Demand& demand) {
  const std::int64_t total = element_count(site.out);
  std::int64_t hidden = 0;
  for (std::size_t i = 0; i < demand.constants.size(); ++i)
    if (i != demand.input)
      hidden += demand.constants[i] * (total / std::max<std::int64_t>(1, element_count(site.in[i])));
  return hidden;
}

}  // namespace

std::int64_t NamedOp::needs(const OpSite& site, const Demand& demand) const {
  const std::int64_t total = element_count(site.out), size = element_count(site.in[demand.input]);
  const std::int64_t missing = total - demand.wanted;
  const bool is_operand = demand.input == 0;
  switch (op_class()) {
    case OpClass::kElementwise:
      return spread_over(demand.wanted - hidden_by_others(site, demand), total, size);
    case OpClass::kMove:
      return without(std::min(size, total), missing, 1);  // each element goes to one place at most
    case OpClass::kScan:
      return any_constant(demand) ? 0 : demand.wanted;
    case OpClass::kReduce:
      return any_constant(demand) || size <= total ? 0 : demand.wanted * (size / total);
    case OpClass::kRowwise:
      if (any_constant(demand) || line_length(site) < 2) return 0;
      return is_operand ? demand.wanted : spread_over(demand.wanted, total, size);
    case OpClass::kContraction: {
      if (hidden_by_others(site, demand) > 0) return 0;
      if (demand.input == 2) return spread_over(demand.wanted, total, size);
      const Shape& a = site.in[0];
      const std::int64_t terms = a.size() < 2 ? a.back() : std::max(a.back(), a[a.size() - 2]);
      return without(size, missing, terms);
    }
    case OpClass::kLoss: {
      const bool one_class = site.in[0].size() != site.in[1].size() && site.in[0].back() == 1;
      return any_constant(demand) || missing > 0 || one_class ? 0 : size;
    }
    case OpClass::kStencil:
    case OpClass::kOther:
      break;
  }
  return 0;
}

std::int64_t NamedOp::constants(const OpSite& site, const std::vector<std::int64_t>& in) const {
  const std::int64_t total = element_count(site.out);
  std::int64_t count = 0;
  if (op_class() == OpClass::kMove) {  // what comes from no operand, zeros for one, is constant too
    std::int64_t moved = 0;
    for (const Shape& shape : site.in) moved += element_count(shape);
    count = std::max<std::int64_t>(0, total - moved);
  }
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i] == 0) continue;
    if (op_class() != OpClass::kElementwise && op_class() != OpClass::kMove) return total;
    count += in[i] * std::max<std::int64_t>(1, total / element_count(site.in[i]));
  }
  return std::min(count, total);
}

}  // namespace lathe::ops

#include "task/ops/support/reduce.h"

#include "task/ops/support/indexing.h"

namespace lathe::ops {
namespace {

std::vector<AttrRule> with_axes(std::vector<AttrRule> rules) {
  rules.push_back({"axis", AttrKind::kInteger});
  rules.push_back({"axes", AttrKind::kIntegers});
  rules.push_back({"keepdims", AttrKind::kFlag});
  return rules;
}

/// Which axes are reduced.
Result<std::vector<bool>> reduced_axes(const Attrs& attrs, std::size_t rank) {
  if (!attrs.has("axis") && !attrs.has("axes")) return std::vector<bool>(rank, true);
  if (attrs.has("axis") && attrs.has("axes")) {
    return invalid("both 'axis' and 'axes' are given", "keep one of them");
  }
  std::vector<bool> reduced(rank, false);
  LATHE_TRY(const auto axes, fixed_integers(attrs, attrs.has("axis") ? "axis" : "axes", {}));
  for (const std::int64_t axis : axes) {
    LATHE_TRY(const std::size_t index, check_axis(axis, rank));
    if (reduced[index]) return invalid("axis " + std::to_string(axis) + " is given twice");
    reduced[index] = true;
  }
  return reduced;
}

/// Offsets of the elements reached by iterating over the axes that are set, in row-major order.
std::vector<std::size_t> offsets_along(const Shape& shape, const std::vector<bool>& axes) {
  const std::vector<std::size_t> strides = row_major_strides(shape);
  std::vector<std::size_t> offsets{0};
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (!axes[axis]) continue;
    std::vector<std::size_t> next;
    next.reserve(offsets.size() * static_cast<std::size_t>(shape[axis]));
    for (const std::size_t base : offsets) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(shape[axis]); ++i)
        next.push_back(base + i * strides[axis]);
    }
    offsets = std::move(next);
  }
  return offsets;
}

Status check_mask(const InferContext& context) {
  if (context.in[0].dtype == DType::kBool) return Ok{};
  return invalid("needs a mask, got " + describe(context.in[0]), "compare it: ne(x, value = 0)");
}

}  // namespace

ReduceOp::ReduceOp(const Reduction& reduction)
    : NamedOp({reduction.name, OpClass::kReduce, 1, 1, with_axes(reduction.attr_rules)}),
      reduction_(reduction) {}

Result<SymbolicType> ReduceOp::infer(const InferContext& context) const {
  LATHE_CHECK_OK(reduction_.of_masks     ? check_mask(context)
                 : reduction_.float_only ? check_float(context)
                                         : check_numeric(context));
  const SymbolicType& x = context.in[0];
  LATHE_TRY(const std::vector<bool> reduced, reduced_axes(context.attrs, x.shape.size()));
  const bool keep = context.attrs.flag("keepdims", false);
  SymbolicType result{x.dtype, {}};
  for (std::size_t axis = 0; axis < x.shape.size(); ++axis) {
    if (!reduced[axis]) result.shape.push_back(x.shape[axis]);
    if (reduced[axis] && keep) result.shape.push_back(Expr::constant(1));
  }
  return result;
}

void ReduceOp::evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                        Value& out) const {
  prepare(site.out, needs_error(in, numerics), out);
  reduce_rows(site, *in[0], numerics, 0, out);
}

void ReduceOp::reduce_rows(const OpSite& site, const Value& x, const Numerics& numerics, std::int64_t skipped,
                           Value& out) const {
  std::vector<bool> reduced = *reduced_axes(site.attrs, site.in[0].size());
  const auto store = [&](std::size_t row, const ReduceRow& values) {
    const Bounded result = reduction_.reduce(values, site.attrs, numerics);
    out.data[row] = result.value;
    out.terms = std::max(out.terms, result.terms);
    if (!out.err.empty()) out.err[row] = result.error;
  };
  const std::size_t length = x.data.size() / out.data.size();
  const std::size_t used = length - std::min(length - 1, static_cast<std::size_t>(skipped));
  if (std::ranges::is_sorted(reduced)) {
    for (std::size_t row = 0; row < out.data.size(); ++row) {
      store(row, {{x.data.data() + row * length, used},
                  {x.err.data() + (x.err.empty() ? 0 : row * length), x.err.empty() ? 0 : used}});
    }
    return;
  }

  const std::vector<std::size_t> inner = offsets_along(site.in[0], reduced);
  reduced.flip();
  const std::vector<std::size_t> outer = offsets_along(site.in[0], reduced);
  std::vector<double> values(used);
  std::vector<double> errors(x.err.empty() ? 0 : used);
  for (std::size_t row = 0; row < outer.size(); ++row) {
    for (std::size_t i = 0; i < used; ++i) values[i] = x.data[outer[row] + inner[i]];
    for (std::size_t i = 0; i < errors.size(); ++i) errors[i] = x.err[outer[row] + inner[i]];
    store(row, {values, errors});
  }
}

std::int64_t ReduceOp::needs(const OpSite& site, const Demand& demand) const {
  return reduction_.of_masks ? 0 : NamedOp::needs(site, demand);
}

double ReduceOp::flops(const OpSite& site) const {
  return reduction_.flops_per_element * static_cast<double>(element_count(site.in[0]));
}

std::vector<OpMutant> ReduceOp::mutants() const {
  return {{"skipped_tail", [this](const OpSite& site, std::span<const Value* const> in, Value& out) {
             prepare(site.out, false, out);
             const std::int64_t length =
                 element_count(site.in[0]) / std::max<std::int64_t>(1, element_count(site.out));
             if (length < 2) return out.data.clear();
             reduce_rows(site, *in[0], Numerics{.unit_roundoff = 0}, std::max<std::int64_t>(1, length / 8),
                         out);
           }}};
}

}  // namespace lathe::ops

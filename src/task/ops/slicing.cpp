#include <algorithm>
#include <iterator>
#include <string>

#include "task/ops/support/move.h"

namespace lathe::ops {
namespace {

/// Elements start, start + 1, ..., stop - 1 along `axis` (default: the last); 0 <= start < stop <=
/// extent.
class Slice final : public MoveOp {
 public:
  Slice()
      : MoveOp(
            {"slice",
             OpClass::kMove,
             1,
             1,
             {{"axis", AttrKind::kInteger}, {"start", AttrKind::kInteger}, {"stop", AttrKind::kInteger}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    SymbolicType result = context.in[0];
    LATHE_TRY(const std::size_t axis, axis_attr(context.attrs, -1, result.shape.size()));
    Expr& extent = result.shape[axis];
    LATHE_TRY(const Expr start, context.attrs.expression("start", Expr::constant(0)));
    LATHE_TRY(const Expr stop, context.attrs.expression("stop", extent));
    const auto holds = [&](std::string_view order, const Expr& a, const Expr& b) {
      return context.same(Expr::apply(order, a, b), Expr::constant(1));
    };
    if (!holds("<=", Expr::constant(0), start) || !holds("<", start, stop) || !holds("<=", stop, extent)) {
      return invalid("slice [" + start.to_string() + ", " + stop.to_string() +
                         ") does not lie in an axis of " + extent.to_string(),
                     "use 0 <= start < stop <= the axis's extent");
    }
    extent = stop - start;
    return result;
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics&,
                Value& out) const override {
    copy_from(site, in, site.attrs.integer("start", 0), out);
  }

  std::vector<OpMutant> mutants() const override {
    return {{"shifted", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               const std::size_t axis = wrap_axis(site.attrs.integer("axis", -1), site.out.size());
               const std::int64_t start = site.attrs.integer("start", 0);
               const bool room = start + site.out[axis] < site.in[0][axis];
               if (room || start > 0) copy_from(site, in, room ? start + 1 : start - 1, out);
             }}};
  }

 private:
  static void copy_from(const OpSite& site, std::span<const Value* const> in, std::int64_t start,
                        Value& out) {
    prepare_move(site, in, out);
    const std::size_t axis = wrap_axis(site.attrs.integer("axis", -1), site.out.size());
    Block from = Block::whole(site.in[0]);
    from.offset = start * from.strides[axis];
    copy_block(site.out, from, *in[0], Block::whole(site.out), out);
  }
};

/// Which of `extent` elements stands at place `i`, which may be one of the padding.
using PlaceOf = std::int64_t (*)(std::int64_t i, std::int64_t extent);

struct PadMode {
  std::string_view name;
  PlaceOf place;
  std::string_view most;  ///< a side's elements, compared with the extent
  std::string_view mistake_name;
  PlaceOf mistake;  ///< differs in the padding
};

std::int64_t mirrored(std::int64_t i, std::int64_t extent) {
  return i < 0 ? -i : i < extent ? i : 2 * (extent - 1) - i;
}
std::int64_t mirrored_with_the_end(std::int64_t i, std::int64_t extent) {
  return i < 0 ? -1 - i : i < extent ? i : 2 * extent - 1 - i;
}
std::int64_t nearest(std::int64_t i, std::int64_t extent) {
  return std::clamp<std::int64_t>(i, 0, extent - 1);
}
std::int64_t around(std::int64_t i, std::int64_t extent) { return (i + extent) % extent; }

constexpr PadMode kPadModes[] = {
    {"reflect", mirrored, "<", "end_twice", mirrored_with_the_end},
    {"replicate", nearest, "", "other_end",
     [](std::int64_t i, std::int64_t extent) {
       return i < 0 ? extent - 1 : i < extent ? i : std::int64_t{0};
     }},
    {"circular", around, "<=", "end_alone", nearest},
};

/// nullptr for constants.
const PadMode* mode_of(const Attrs& attrs) {
  const std::string mode = attrs.text("mode", "constant");
  const auto found = std::ranges::find(kPadModes, mode, &PadMode::name);
  return found == std::end(kPadModes) ? nullptr : &*found;
}

/// Pads the input along `axis` (default: the last) with `before` and `after` elements of `value`
/// (default 0), or of the input's own.
class Pad final : public MoveOp {
 public:
  Pad()
      : MoveOp({"pad",
                OpClass::kMove,
                1,
                1,
                {{"axis", AttrKind::kInteger},
                 {"before", AttrKind::kInteger},
                 {"after", AttrKind::kInteger},
                 {"value", AttrKind::kReal},
                 {"mode", AttrKind::kText, false, {"constant", "reflect", "replicate", "circular"}}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    SymbolicType result = context.in[0];
    LATHE_TRY(const std::size_t axis, axis_attr(context.attrs, -1, result.shape.size()));
    const PadMode* const mode = mode_of(context.attrs);
    if (mode != nullptr && context.attrs.has("value"))
      return invalid("mode '" + std::string(mode->name) + "' has no value", "drop one of them");
    const Expr extent = result.shape[axis];
    for (const std::string_view side : {"before", "after"}) {
      LATHE_TRY(const Expr added, context.attrs.expression(side, Expr::constant(0)));
      if (!context.same(Expr::apply(">=", added, Expr::constant(0)), Expr::constant(1))) {
        return invalid("attribute '" + std::string(side) + "' must not be negative: " + added.to_string());
      }
      if (mode != nullptr && !mode->most.empty() &&
          !context.same(Expr::apply(mode->most, added, extent), Expr::constant(1)))
        return invalid("mode '" + std::string(mode->name) + "' takes no " + added.to_string() +
                           " elements from an axis of " + extent.to_string(),
                       "pad by less than the extent");
      result.shape[axis] = result.shape[axis] + added;
    }
    return result;
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics&,
                Value& out) const override {
    if (const PadMode* const mode = mode_of(site.attrs)) return pad_by(mode->place, site, in, out);
    prepare_move(site, in, out);
    std::ranges::fill(out.data, site.attrs.real("value", 0));
    const std::size_t axis = wrap_axis(site.attrs.integer("axis", -1), site.out.size());
    Block to = Block::whole(site.out);
    to.offset = site.attrs.integer("before", 0) * to.strides[axis];
    copy_block(site.in[0], Block::whole(site.in[0]), *in[0], to, out);
  }

  std::int64_t constants(const OpSite& site, const std::vector<std::int64_t>& in) const override {
    if (mode_of(site.attrs) == nullptr) return NamedOp::constants(site, in);
    return in[0] > 0 ? element_count(site.out) : 0;
  }

  std::vector<OpMutant> mutants() const override {
    std::vector<OpMutant> all;
    for (const PadMode& mode : kPadModes)
      all.push_back(
          {mode.mistake_name, [&mode](const OpSite& site, std::span<const Value* const> in, Value& out) {
             if (mode_of(site.attrs) == &mode) pad_by(mode.mistake, site, in, out);
           }});
    return all;
  }

 private:
  static void pad_by(PlaceOf place, const OpSite& site, std::span<const Value* const> in, Value& out) {
    const std::size_t axis = wrap_axis(site.attrs.integer("axis", -1), site.out.size());
    const std::int64_t before = site.attrs.integer("before", 0), extent = site.in[0][axis];
    copy_lines(
        site, axis, in,
        [&](std::size_t i) {
          return static_cast<std::size_t>(place(static_cast<std::int64_t>(i) - before, extent));
        },
        out);
  }
};

constexpr int kMostInputs = 16;

/// Joins two or more tensors along `axis` (default: the last).
class Concat final : public MoveOp {
 public:
  Concat() : MoveOp({"concat", OpClass::kMove, 2, kMostInputs, {{"axis", AttrKind::kInteger}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    SymbolicType result = context.in[0];
    LATHE_TRY(const std::size_t axis, axis_attr(context.attrs, -1, result.shape.size()));
    for (std::size_t i = 1; i < context.in.size(); ++i) {
      if (context.in[i].dtype != result.dtype) {
        return invalid("inputs 1 and " + std::to_string(i + 1) + " have different dtypes: " +
                       describe(context.in[0]) + " and " + describe(context.in[i]));
      }
      LATHE_CHECK_OK(check_rank(context, i, result.shape.size()));
      std::vector<Expr> expected = context.in[0].shape;
      expected[axis] = context.in[i].shape[axis];
      LATHE_CHECK_OK(check_shape(context, i, expected, "as input 1 beside axis " + std::to_string(axis)));
      result.shape[axis] = result.shape[axis] + context.in[i].shape[axis];
    }
    return result;
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics&,
                Value& out) const override {
    prepare_move(site, in, out);
    const std::size_t axis = wrap_axis(site.attrs.integer("axis", -1), site.out.size());
    Block to = Block::whole(site.out);
    for (std::size_t i = 0; i < in.size(); ++i) {
      copy_block(site.in[i], Block::whole(site.in[i]), *in[i], to, out);
      to.offset += site.in[i][axis] * to.strides[axis];
    }
  }
};

}  // namespace

void add_slicing(OpList& list) {
  list.push_back(std::make_unique<Slice>());
  list.push_back(std::make_unique<Pad>());
  list.push_back(std::make_unique<Concat>());
}

}  // namespace lathe::ops

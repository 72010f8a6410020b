#include <array>

#include "task/ops/support/move.h"
#include "task/ops/support/needs.h"
#include "task/ops/support/window.h"

namespace lathe::ops {
namespace {

constexpr std::size_t kAxes = 2;

std::vector<AttrRule> unfold_rules() {
  std::vector<AttrRule> rules = window_rules();
  rules.push_back({"kernel", AttrKind::kIntegers, true});
  return rules;
}
std::vector<AttrRule> fold_rules() {
  std::vector<AttrRule> rules = unfold_rules();
  rules.push_back({"size", AttrKind::kIntegers, true});
  return rules;
}

Status check_attributes(const Attrs& attrs) {
  LATHE_CHECK_OK(check_window(attrs, kAxes));
  LATHE_TRY(const auto kernel, fixed_integers(attrs, "kernel", {1}));
  if (kernel.size() != 1 && kernel.size() != kAxes) return invalid("attribute 'kernel' has a wrong length");
  for (const std::int64_t extent : kernel)
    if (extent < 1 || extent > 1 << 20) return invalid("attribute 'kernel' must be 1 or more");
  return Ok{};
}

std::int64_t taps_of(const Attrs& attrs) {
  const auto kernel = per_axis(attrs, "kernel", kAxes, 1);
  return kernel[0] * kernel[1];
}

/// How many positions a window has over a plane of these extents.
std::array<Expr, kAxes> positions_of(const Attrs& attrs, const Expr& height, const Expr& width) {
  const auto kernel = per_axis(attrs, "kernel", kAxes, 1), stride = per_axis(attrs, "stride", kAxes, 1),
             padding = per_axis(attrs, "padding", kAxes, 0), dilation = per_axis(attrs, "dilation", kAxes, 1);
  const auto along = [&](const Expr& extent, std::size_t axis) {
    return window_positions(extent, Expr::constant(kernel[axis]),
                            {stride[axis], padding[axis], dilation[axis]});
  };
  return {along(height, 0), along(width, 1)};
}

/// The window of the columns [N, C taps, positions] of an image [N, C, H, W].
Window window_over(const Attrs& attrs, const Shape& image) {
  const auto kernel = per_axis(attrs, "kernel", kAxes, 1);
  const auto positions = positions_of(attrs, Expr::constant(image[2]), Expr::constant(image[3]));
  return make_window(attrs, image, kernel, {*positions[0].evaluate({}), *positions[1].evaluate({})}, kAxes);
}

/// Calls visit(column element, image element) for each element of the columns whose tap reads
/// inside the image.
template <class Visit>
void for_each_tap(const Attrs& attrs, const Shape& image, Visit visit) {
  const Window window = window_over(attrs, image);
  const std::int64_t height = window.in[1], width = window.in[2];
  std::size_t column = 0;
  for (std::int64_t plane = 0; plane < image[0] * image[1]; ++plane)
    for (std::int64_t a = 0; a < window.kernel[1]; ++a)
      for (std::int64_t b = 0; b < window.kernel[2]; ++b)
        for (std::int64_t p = 0; p < window.out[1]; ++p)
          for (std::int64_t q = 0; q < window.out[2]; ++q, ++column) {
            const std::int64_t h = window.source(1, p, a), w = window.source(2, q, b);
            if (window.inside(1, h) && window.inside(2, w))
              visit(column, static_cast<std::size_t>((plane * height + h) * width + w));
          }
}

/// The columns of an image [N, C, H, W] that a convolution multiplies, [N, C taps, positions], with
/// zeros for the padding (torch.nn.functional.unfold).
class Unfold final : public MoveOp {
 public:
  Unfold() : MoveOp({"unfold", OpClass::kMove, 1, 1, unfold_rules()}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_numeric(context));
    LATHE_CHECK_OK(check_rank(context, 0, 4));
    LATHE_CHECK_OK(check_attributes(context.attrs));
    const SymbolicType& x = context.in[0];
    const auto positions = positions_of(context.attrs, x.shape[2], x.shape[3]);
    return SymbolicType{
        x.dtype,
        {x.shape[0], x.shape[1] * Expr::constant(taps_of(context.attrs)), positions[0] * positions[1]}};
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics&,
                Value& out) const override {
    prepare_move(site, in, out);
    for_each_tap(site.attrs, site.in[0], [&](std::size_t column, std::size_t at) {
      out.data[column] = in[0]->data[at];
      if (!out.err.empty()) out.err[column] = in[0]->error_at(at);
    });
  }

  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    const std::int64_t planes = site.in[0][0] * site.in[0][1];
    return without(planes * coordinates_read(window_over(site.attrs, site.in[0])),
                   element_count(site.out) - demand.wanted, 1);
  }
  std::int64_t constants(const OpSite& site, const std::vector<std::int64_t>& in) const override {
    const auto padding = per_axis(site.attrs, "padding", kAxes, 0);
    return in[0] > 0 || padding[0] + padding[1] > 0 ? element_count(site.out) : 0;
  }

  std::vector<OpMutant> mutants() const override {
    return {{"one_place_on", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               prepare_move(site, in, out);
               const std::size_t size = in[0]->data.size();
               for_each_tap(site.attrs, site.in[0], [&](std::size_t column, std::size_t at) {
                 out.data[column] = in[0]->data[(at + 1) % size];
               });
             }}};
  }
};

/// What unfold does, backwards: columns [N, C taps, positions] are added to an image [N, C, H, W]
/// of the given size (torch.nn.functional.fold).
class Fold final : public NamedOp {
 public:
  Fold() : NamedOp({"fold", OpClass::kOther, 1, 1, fold_rules()}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_float(context));
    LATHE_CHECK_OK(check_rank(context, 0, 3));
    LATHE_CHECK_OK(check_attributes(context.attrs));
    LATHE_TRY(std::vector<Expr> size, context.attrs.expressions("size", {}));
    if (size.size() == 1) size.resize(kAxes, size[0]);
    if (size.size() != kAxes) return invalid("attribute 'size' must be [height, width]");
    const SymbolicType& x = context.in[0];
    const auto positions = positions_of(context.attrs, size[0], size[1]);
    if (!context.same(x.shape[2], positions[0] * positions[1]))
      return invalid("the last extent of input 1 must be the number of windows, got " + describe(x),
                     "unfold of an image of this size has as many");
    const Expr taps = Expr::constant(taps_of(context.attrs));
    if (!context.same(Expr::apply("%", x.shape[1], taps), Expr::constant(0)))
      return invalid("the second extent of input 1 must be a multiple of the kernel's elements, got " +
                     describe(x));
    return SymbolicType{x.dtype, {x.shape[0], x.shape[1] / taps, size[0], size[1]}};
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    prepare(site.out, needs_error(in, numerics), out);
    std::vector<SumBound> bounds(out.err.size());
    for_each_tap(site.attrs, site.out, [&](std::size_t column, std::size_t at) {
      out.data[at] += in[0]->data[column];
      if (!bounds.empty()) bounds[at].add(in[0]->data[column], in[0]->error_at(column));
    });
    for (std::size_t i = 0; i < bounds.size(); ++i) out.err[i] = bounds[i].total(numerics);
    out.terms = static_cast<double>(taps_of(site.attrs));
  }

  double flops(const OpSite& site) const override { return static_cast<double>(element_count(site.in[0])); }

  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    if (any_constant(demand)) return 0;
    std::int64_t read = 0;
    for_each_tap(site.attrs, site.out, [&](std::size_t, std::size_t) { ++read; });
    return without(read, element_count(site.out) - demand.wanted, taps_of(site.attrs));
  }
  std::int64_t constants(const OpSite& site, const std::vector<std::int64_t>& in) const override {
    if (in[0] > 0) return element_count(site.out);
    const std::int64_t planes = site.out[0] * site.out[1];
    return element_count(site.out) - planes * coordinates_read(window_over(site.attrs, site.out));
  }

  std::vector<OpMutant> mutants() const override {
    return {{"last_only", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               prepare(site.out, false, out);
               for_each_tap(site.attrs, site.out,
                            [&](std::size_t column, std::size_t at) { out.data[at] = in[0]->data[column]; });
             }}};
  }
};

}  // namespace

void add_unfold(OpList& list) {
  list.push_back(std::make_unique<Unfold>());
  list.push_back(std::make_unique<Fold>());
}

}  // namespace lathe::ops

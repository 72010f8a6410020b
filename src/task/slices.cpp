#include "task/slices.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/parallel.h"
#include "base/processors.h"
#include "base/random.h"
#include "task/generate_inputs.h"

namespace lathe {
namespace {

constexpr int kShapesTried = 8, kShapesNeeded = 2;
constexpr double kTriedFlops = 1e6;
constexpr std::int64_t kAlignment = 64;  // domains ask for multiples of small powers of two
constexpr double kSliceElements = 1 << 19, kWorthSlicing = 1 << 21;
constexpr std::int64_t kFewRows = 32;
constexpr double kAffordableWhole = 1 << 24;  // values of a task
constexpr double kAffordableFlops = 1e9;

bool names(const Expr& extent, const std::string& dim) { return extent.to_string() == dim; }

/// The axis whose extent is the dim: -1 if there is none, nullopt if the shape depends on the dim
/// in another way.
std::optional<int> axis_of(const std::vector<Expr>& shape, const std::string& dim) {
  int axis = -1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!shape[i].symbols().contains(dim)) continue;
    if (!names(shape[i], dim) || axis >= 0) return std::nullopt;
    axis = static_cast<int>(i);
  }
  return axis;
}

/// Positions along the dim are other ones in a part of it, and so is a constant made of its extent.
bool counts_along(const NodeDecl& node, const std::string& dim) {
  if (node.op_name == "full") {
    const auto value = node.attrs.all().find("value");
    const auto* text = std::get_if<std::string>(&value->second);
    return text != nullptr && node.attrs.expression("value", {})->symbols().contains(dim);
  }
  if (node.op_name != "iota") return false;
  const auto axis = node.attrs.expression("axis", Expr::constant(-1))->evaluate({});
  const auto rank = static_cast<std::int64_t>(node.type.shape.size());
  return node.type.shape[static_cast<std::size_t>(*axis < 0 ? *axis + rank : *axis)].symbols().contains(dim);
}

bool could_be_independent(const TaskSpec& spec, const std::string& dim) {
  const bool inputs = std::ranges::all_of(
      spec.tensors, [&](const auto& tensor) { return axis_of(tensor.shape, dim).has_value(); });
  const bool counted =
      std::ranges::any_of(spec.nodes, [&](const NodeDecl& node) { return counts_along(node, dim); });
  return inputs && !counted && std::ranges::all_of(spec.outputs, [&](const auto& output) {
           return axis_of(output.shape, dim) == 0;
         });
}

/// Indices of the dim, in order.
using Rows = std::vector<KnownRange>;

std::int64_t count_of(const Rows& rows) {
  return static_cast<std::int64_t>(rows.back().value + rows.back().count);
}

HostTensor slice_tensor(const HostTensor& tensor, std::size_t axis, const Rows& rows) {
  std::size_t outer = 1, inner = info(tensor.dtype).bytes;
  for (std::size_t i = 0; i < axis; ++i) outer *= static_cast<std::size_t>(tensor.shape[i]);
  for (std::size_t i = axis + 1; i < tensor.shape.size(); ++i)
    inner *= static_cast<std::size_t>(tensor.shape[i]);
  const std::size_t from_stride = static_cast<std::size_t>(tensor.shape[axis]) * inner;
  Shape shape = tensor.shape;
  shape[axis] = count_of(rows);
  const std::size_t to_stride = static_cast<std::size_t>(shape[axis]) * inner;
  HostTensor slice{tensor.dtype, shape, std::vector<std::byte>(outer * to_stride)};
  for (std::size_t o = 0; o < outer; ++o)
    for (const KnownRange& range : rows)
      std::memcpy(slice.bytes.data() + o * to_stride + range.value * inner,
                  tensor.bytes.data() + o * from_stride + range.element * inner, range.count * inner);
  return slice;
}

/// The task restricted to some indices of `dim`. Errors: outside the task's domain.
Result<BoundTask> bind_slice(const BoundTask& task, const std::string& dim, std::int64_t count) {
  Dims dims = task.dims;
  dims[dim] = count;
  return lathe::bind(*task.spec, dims);
}

/// The slice's inputs, cut from those of the whole task.
std::vector<HostTensor> slice_inputs(const BoundTask& task, std::span<const HostTensor> inputs,
                                     const std::string& dim, const Rows& rows) {
  std::vector<HostTensor> slices;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const int axis = axis_of(task.spec->tensors[i].shape, dim).value_or(-1);
    slices.push_back(axis < 0 ? inputs[i] : slice_tensor(inputs[i], static_cast<std::size_t>(axis), rows));
  }
  return slices;
}

/// Reordered sums differ by fp64 rounding and their bounds by fp32 rounding, both far below a
/// tolerance.
bool agree(std::span<const double> a, std::span<const double> b, std::span<const double> tolerance) {
  constexpr double kShare = 1e-3;
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
    if (!same && !(!tolerance.empty() && std::fabs(a[i] - b[i]) <= kShare * tolerance[i])) return false;
  }
  return true;
}

/// The number of an output's elements at one index of its first axis.
std::size_t row_elements(const Expected& expected) {
  return expected.value.data.size() / static_cast<std::size_t>(expected.value.shape[0]);
}

/// Whether the part equals the whole from index `begin` on.
bool is_part(const std::vector<Expected>& whole, const std::vector<Expected>& part, std::int64_t begin) {
  const auto agrees = [&](const Value& of, const Value& own, std::size_t indices) {
    const std::size_t an_index = of.data.size() / indices;
    const auto range = [&](const std::vector<double>& all) {
      return all.empty()
                 ? std::span<const double>()
                 : std::span(all).subspan(static_cast<std::size_t>(begin) * an_index, own.data.size());
    };
    return agree(range(of.data), own.data, own.err) && agree(range(of.err), own.err, own.err);
  };
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const auto indices = static_cast<std::size_t>(whole[i].value.shape[0]);
    if (!agrees(whole[i].value, part[i].value, indices) || !agrees(whole[i].source, part[i].source, indices))
      return false;
  }
  return true;
}

Result<std::vector<Expected>> evaluate_slice(const Reference& reference, const BoundTask& task,
                                             std::span<const HostTensor> inputs, const Numerics& numerics,
                                             const std::string& dim, const Rows& rows) {
  LATHE_TRY(const BoundTask slice, bind_slice(task, dim, count_of(rows)));
  return reference.evaluate(slice, slice_inputs(task, inputs, dim, rows), numerics);
}

Rows rows_between(std::int64_t begin, std::int64_t end) {
  return {{static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin), 0}};
}

/// Whether the references of the task's thirds are thirds of its reference; an error where the
/// shape cannot be cut.
Result<bool> is_sliceable_at(const Reference& reference, const BoundTask& task, const std::string& dim,
                             Distribution distribution) {
  const std::int64_t extent = task.dims.at(dim);
  const auto inputs = generate_inputs(task, distribution, Seed::from_number(1).derive("slices"));
  LATHE_TRY(const auto whole, reference.evaluate(task, inputs, {}));
  const std::int64_t step = extent > 2 * kAlignment ? kAlignment : std::max<std::int64_t>(1, extent / 3);
  for (std::int64_t begin = 0; begin < extent; begin += step) {
    const std::int64_t end = std::min(extent, begin + step);
    LATHE_TRY(const auto part, evaluate_slice(reference, task, inputs, {}, dim, rows_between(begin, end)));
    if (!is_part(whole, part, begin)) return false;
  }
  return true;
}

bool is_independent(const TaskSpec& spec, const Reference& reference, const std::string& dim) {
  int agreed = 0;
  for (const Dims& dims :
       draw_hidden_shapes(spec, Seed::from_number(2).derive("slices"), kShapesTried, kTriedFlops)) {
    const auto task = lathe::bind(spec, dims);
    if (!task.ok() || dims.at(dim) < 2) continue;
    for (const Distribution distribution : {Distribution::kNormal, Distribution::kHeavyTail}) {
      const auto apart = is_sliceable_at(reference, *task, dim, distribution);
      if (apart.ok() && !*apart) return false;
      agreed += apart.ok() ? 1 : 0;
    }
  }
  return agreed >= 2 * kShapesNeeded;
}

/// Whether evaluating the task as a whole is faster: each slice would transfer the shared operands
/// again.
bool gains_from_engine(const BoundTask& task) {
  double multiplications = 0;
  for (std::size_t i = 0; i < task.spec->nodes.size(); ++i)
    multiplications += task.spec->nodes[i].op->engine_multiplications(task.site(i));
  return worth_transferring(multiplications, task.value_elements(), usable_processors().size());
}

class SlicedReference final : public Reference {
 public:
  SlicedReference(std::unique_ptr<Reference> whole, std::string dim, bool has_engine)
      : whole_(std::move(whole)), dim_(std::move(dim)), has_engine_(has_engine) {}

  Result<std::vector<Expected>> evaluate(const BoundTask& task, std::span<const HostTensor> inputs,
                                         const Numerics& numerics) const override {
    const double elements = work(task);
    if (elements < kWorthSlicing) return whole_->evaluate(task, inputs, numerics);
    const std::int64_t rows = rows_for(task, elements, kSliceElements, kAlignment),
                       extent = task.dims.at(dim_);
    if (has_engine_ && gains_from_engine(task)) return whole_->evaluate(task, inputs, numerics);
    std::vector<std::vector<Expected>> parts(static_cast<std::size_t>((extent + rows - 1) / rows));
    const Status done = for_each_index(static_cast<int>(parts.size()), [&](int i) -> Status {
      const std::int64_t begin = i * rows, end = std::min(extent, begin + rows);
      LATHE_TRY(parts[static_cast<std::size_t>(i)],
                evaluate_slice(*whole_, task, inputs, numerics, dim_, rows_between(begin, end)));
      return Ok{};
    });
    return done.ok() ? concatenated(task, std::move(parts)) : whole_->evaluate(task, inputs, numerics);
  }

  Result<std::vector<Expected>> evaluate_part(const BoundTask& task, std::span<const HostTensor> inputs,
                                              const Numerics& numerics, const Part& wanted) const override {
    const std::int64_t extent = task.dims.at(dim_);
    if (knows_all(task)) return evaluate(task, inputs, numerics);
    for (const std::int64_t multiple : {std::int64_t{1}, kAlignment}) {
      const auto count =
          static_cast<std::size_t>(std::min(extent, known_rows(task, wanted.elements, multiple)));
      const double a_row = task.output_elements() / static_cast<double>(extent);
      const auto together = static_cast<std::size_t>(
          std::ceil(static_cast<double>(elements_together(wanted.elements)) / a_row));
      const Rows rows = draw_ranges(static_cast<std::size_t>(extent), count, together, wanted.secret);
      auto part = evaluate_slice(*whole_, task, inputs, numerics, dim_, rows);
      if (!part.ok()) continue;
      for (Expected& expected : *part) {
        const std::size_t elements = row_elements(expected);
        expected.of = static_cast<std::size_t>(extent) * elements;
        for (const KnownRange& range : rows)
          expected.known.push_back(
              {range.element * elements, range.count * elements, range.value * elements});
      }
      return part;
    }
    return evaluate(task, inputs, numerics);
  }

  double part_share(const BoundTask& task, double elements) const override {
    const auto extent = static_cast<double>(task.dims.at(dim_));
    if (knows_all(task)) return 1;
    return std::min(1.0, static_cast<double>(known_rows(task, elements, 1)) / extent);
  }

 private:
  /// One row may be the one that was computed: of few rows all are known, else at least four, where
  /// so much is affordable.
  bool knows_all(const BoundTask& task) const {
    return task.dims.at(dim_) < kFewRows && task.value_elements() <= kAffordableWhole &&
           task.flops <= kAffordableFlops;
  }
  std::int64_t known_rows(const BoundTask& task, double elements, std::int64_t multiple) const {
    const std::int64_t wanted = rows_for(task, task.output_elements(), elements, multiple);
    const auto extent = static_cast<double>(task.dims.at(dim_));
    const double affordable = kAffordableFlops * extent / std::max(1.0, task.flops);
    const auto least = static_cast<std::int64_t>(std::min(4.0, affordable)) / multiple * multiple;
    return std::max(wanted, least);
  }
  /// The number of elements of all values, or an equivalent amount of arithmetic.
  static double work(const BoundTask& task) { return task.flops / 8 + task.value_elements(); }

  /// The number of indices of the dim that hold about `wanted` of `elements`, rounded up because
  /// domains may ask for multiples.
  std::int64_t rows_for(const BoundTask& task, double elements, double wanted, std::int64_t multiple) const {
    const double rows = std::ceil(wanted / elements * static_cast<double>(task.dims.at(dim_)));
    return std::max<std::int64_t>(1, (static_cast<std::int64_t>(rows) + multiple - 1) / multiple) * multiple;
  }

  static std::vector<Expected> concatenated(const BoundTask& task, std::vector<std::vector<Expected>> parts) {
    std::vector<Expected> all = std::move(parts.front());
    const auto append = [](std::vector<double>& to, const std::vector<double>& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (std::size_t p = 1; p < parts.size(); ++p) {
        all[i].range_share = std::max(all[i].range_share, parts[p][i].range_share);
        append(all[i].value.data, parts[p][i].value.data);
        append(all[i].value.err, parts[p][i].value.err);
        append(all[i].source.data, parts[p][i].source.data);
        append(all[i].source.err, parts[p][i].source.err);
        if (!all[i].source.shape.empty()) all[i].source.shape[0] += parts[p][i].source.shape[0];
        parts[p][i] = {};
      }
      all[i].value.shape = task.shape_of(all[i].name);
    }
    return all;
  }

  std::unique_ptr<Reference> whole_;
  std::string dim_;
  bool has_engine_;
};

}  // namespace

std::optional<std::string> independent_dim(const TaskSpec& spec, const Reference& whole) {
  for (const std::string& dim : spec.dim_names)
    if (could_be_independent(spec, dim) && is_independent(spec, whole, dim)) return dim;
  return std::nullopt;
}

std::unique_ptr<Reference> make_sliced(std::unique_ptr<Reference> whole, const TaskSpec& spec,
                                       bool has_engine) {
  const auto dim = independent_dim(spec, *whole);
  if (!dim) return whole;
  return std::make_unique<SlicedReference>(std::move(whole), *dim, has_engine);
}

}  // namespace lathe

#include "task/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>

#include "base/large_vector.h"
#include "base/parallel.h"
#include "base/random.h"
#include "task/ranking.h"

namespace lathe {
namespace {

using Values = std::map<std::string, Value>;

/// Up to here a double, and so the reference, holds every integer.
constexpr double kExactIntegers = 0x1p53;

/// A kernel may store an intermediate value in its own dtype, if that is narrower than the
/// arithmetic. Below the normal numbers a format's steps are as wide as beside the smallest.
void add_storage_error(const NodeDecl& node, const Numerics& numerics, Value& value) {
  const double rounding = info(node.type.dtype).unit_roundoff;
  const double least = info(node.type.dtype).smallest_normal;
  if (rounding <= numerics.unit_roundoff || numerics.unit_roundoff == 0 || !numerics.stores_narrow) return;
  if (value.err.empty()) fill_zeros(value.err, value.data.size());
  for_each_part(value.data.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      if (!std::isinf(value.data[i]))
        value.err[i] += rounding * std::max(least, std::fabs(value.data[i]) + value.err[i]);
  });
}

/// Beside a jump a value may be off by far more than roundings, and be larger than here: so are the
/// roundings that made it, of which ops count those of the value here.
void add_roundings_of_error(const Numerics& numerics, Value& value) {
  constexpr double kRoundings = 16, kLargeError = 0x1p-14;
  const double more = 1 + kRoundings * numerics.unit_roundoff;
  for_each_part(value.err.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      if (value.err[i] > kLargeError * std::fabs(value.data[i])) value.err[i] *= more;
  });
}

/// Nothing is known of what a kernel makes of values that are finite here, though the node's dtype
/// holds them as infinities; other dtypes and fused kernels may keep them. Empty where there are
/// none.
std::optional<Value> with_overflow(const NodeDecl& node, const Value& value) {
  const DTypeInfo& type = info(node.type.dtype);
  const auto overflows = [&](double x) { return std::isfinite(x) && std::fabs(x) > type.largest; };
  if (!type.is_float || value.err.empty() || std::ranges::none_of(value.data, overflows)) return std::nullopt;
  Value marked = value;
  for (std::size_t i = 0; i < marked.data.size(); ++i)
    if (overflows(marked.data[i])) marked.err[i] = INFINITY;
  return marked;
}

Status evaluate_node(const BoundTask& task, std::size_t index, const Numerics& numerics,
                     const GraphEvaluation& how, Values& values) {
  const NodeDecl& node = task.spec->nodes[index];
  std::vector<const Value*> in;
  std::vector<std::unique_ptr<Value>> marked;
  for (const std::string& name : node.in) {
    const Value* value = &values.at(name);
    const NodeDecl* maker = task.spec->find_node(name);
    if (maker != nullptr && maker < &node)
      if (auto overflown = with_overflow(*maker, *value))
        value = marked.emplace_back(std::make_unique<Value>(*std::move(overflown))).get();
    in.push_back(value);
  }
  OpSite site = task.site(index);
  site.products = how.products;
  Value out;
  out.shape = site.out;
  if (how.mutant != nullptr && node.out == how.override_node) {
    how.mutant->evaluate(site, in, out);
    if (out.data.empty()) {
      return Error{ErrorCode::kUnavailable,
                   fmt::format("mutant {} does not apply to {}", how.mutant->name, node.out)};
    }
  } else {
    node.op->evaluate(site, in, numerics_of(node, numerics), out);
    if (info(node.type.dtype).is_float) add_roundings_of_error(numerics, out);
    add_storage_error(node, numerics, out);
  }
  assert(out.data.size() == static_cast<std::size_t>(element_count(site.out)));
  values[node.out] = std::move(out);
  return Ok{};
}

/// The full tolerance: what the graph may have accumulated, the rounding of the output's dtype and
/// its smallest step, scaled by the task.
void add_output_tolerance(const TaskSpec& spec, Expected& expected) {
  if (expected.compare != CompareKind::kBound) return;
  const DTypeInfo& type = info(expected.dtype);
  const double smallest_step = 2 * type.unit_roundoff * type.smallest_normal;
  Value& value = expected.value;
  if (value.err.empty()) fill_zeros(value.err, value.data.size());
  for_each_part(value.data.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const double rounding = type.unit_roundoff * (std::fabs(value.data[i]) + value.err[i]) + smallest_step;
      value.err[i] = spec.tolerance * (value.err[i] + rounding);
    }
  });
}

/// What a node read: an inout tensor may have been overwritten since.
Value operand_of(const BoundTask& task, const NodeDecl& node, std::span<const HostTensor> inputs,
                 const Values& values) {
  const std::string& name = node.in[0];
  const NodeDecl* maker = task.spec->find_node(name);
  const TensorDecl* tensor = task.spec->find_tensor(name);
  if (tensor == nullptr || maker == nullptr || maker < &node) return values.at(name);
  const HostTensor& input = inputs[static_cast<std::size_t>(tensor - task.spec->tensors.data())];
  return {.shape = input.shape, .data = input.decode(), .err = {}};
}

/// Whether sums on the way to an op's values may be beyond what a double holds exactly, where the
/// values are not.
bool adds_up(const NodeDecl& node) {
  const OpClass kind = node.op->op_class();
  return node.type.dtype == DType::kI64 && kind != OpClass::kElementwise && kind != OpClass::kMove &&
         kind != OpClass::kRowwise;
}

/// The largest that a node's sums come to in any order: what it makes of its operands without their
/// signs.
double largest_on_the_way(const BoundTask& task, std::size_t index, const Values& values) {
  const NodeDecl& node = task.spec->nodes[index];
  std::vector<Value> sizes;
  for (const std::string& name : node.in) {
    Value& size = sizes.emplace_back(values.at(name));
    size.err.clear();
    for (double& x : size.data) x = std::fabs(x);
  }
  std::vector<const Value*> in;
  for (const Value& size : sizes) in.push_back(&size);
  const OpSite site = task.site(index);
  Value out;
  out.shape = site.out;
  node.op->evaluate(site, in, Numerics{}, out);
  return out.data.empty() ? 0 : *std::ranges::max_element(out.data);
}

/// The largest share of its dtype's range that a finite value of a node takes, with its error. What
/// is whole is computed without errors. Of what saturates nothing is too large: only outputs are so
/// known.
double range_share(const BoundTask& task, const Values& values) {
  double share = 0;
  for (std::size_t index = 0; index < task.spec->nodes.size(); ++index) {
    const NodeDecl& node = task.spec->nodes[index];
    const DTypeInfo& type = info(node.type.dtype);
    const Value& value = values.at(node.out);
    double largest = adds_up(node) ? largest_on_the_way(task, index, values) : 0;
    for (std::size_t i = 0; i < value.data.size(); ++i) {
      const double y = value.data[i];
      if (!std::isfinite(y)) continue;
      const double reached = type.is_float ? std::fabs(y) + value.error_at(i) : whole_reach(type, y);
      largest = std::max(largest, std::isnan(reached) ? INFINITY : reached);
    }
    const double own = largest / std::min(type.largest, type.is_float ? INFINITY : kExactIntegers);
    share = std::max(share, type.saturates() && std::isfinite(own) ? std::min(own, 1.0) : own);
  }
  return share;
}

class GraphReference final : public Reference {
 public:
  explicit GraphReference(ProductEngine* products) : products_(products) {}

  Result<std::vector<Expected>> evaluate(const BoundTask& task, std::span<const HostTensor> inputs,
                                         const Numerics& numerics) const override {
    LATHE_TRY(Values values, evaluate_graph(task, inputs, numerics, {.products = products_}));
    const double share = range_share(task, values);
    std::vector<Expected> all;
    for (const OutputDecl& output : task.spec->outputs) {
      Expected& expected = all.emplace_back();
      expected.range_share = share;
      expected.name = output.name;
      expected.dtype = output.dtype;
      expected.compare = output.compare;
      const NodeDecl* node = task.spec->find_node(output.name);
      if (output.compare == CompareKind::kArgmax)
        expect_extremum(task, *node, operand_of(task, *node, inputs, values), expected);
      if (output.compare == CompareKind::kArgsort) {
        const NodeDecl& ranking = *ranking_of(*task.spec, *node);
        expected.value = values.at(output.name);
        expect_ranks(task, *node, operand_of(task, ranking, inputs, values), expected);
      }
    }
    for (Expected& expected : all) {
      if (expected.compare == CompareKind::kArgsort) continue;
      expected.value = std::move(values.at(expected.name));
      add_output_tolerance(*task.spec, expected);
    }
    return all;
  }

 private:
  ProductEngine* products_;
};

}  // namespace

Numerics numerics_for(const TaskSpec& spec, Numerics numerics) {
  const auto narrower = [](DType dtype) { return info(dtype).is_float && dtype != DType::kF64; };
  const bool narrow = std::ranges::any_of(spec.tensors, [&](const auto& t) { return narrower(t.dtype); }) ||
                      std::ranges::any_of(spec.nodes, [&](const auto& n) { return narrower(n.type.dtype); });
  const DTypeInfo& widest = info(narrow ? DType::kF32 : DType::kF64);
  if (!narrow) numerics.unit_roundoff = std::min(numerics.unit_roundoff, widest.unit_roundoff);
  numerics.underflow = widest.smallest_normal * (spec.denormals ? 2 * widest.unit_roundoff : 1);
  return numerics;
}

Numerics numerics_of(const NodeDecl& node, Numerics numerics) {
  if (!info(node.type.dtype).is_float) numerics.unit_roundoff = 0;
  return numerics;
}

Result<std::map<std::string, Value>> evaluate_graph(const BoundTask& task, std::span<const HostTensor> inputs,
                                                    const Numerics& numerics, const GraphEvaluation& how) {
  const TaskSpec& spec = *task.spec;
  if (inputs.size() != spec.tensors.size()) {
    return Error{ErrorCode::kInternal,
                 fmt::format("{} inputs for {} tensors", inputs.size(), spec.tensors.size())};
  }
  Values values;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    values[spec.tensors[i].name] = {.shape = inputs[i].shape, .data = inputs[i].decode(), .err = {}};
  }
  const Numerics own = numerics_for(spec, numerics);
  for (std::size_t i = 0; i < spec.nodes.size(); ++i)
    LATHE_CHECK_OK(evaluate_node(task, i, own, how, values));
  return values;
}

Result<std::unique_ptr<Reference>> make_reference(const TaskSpec& spec, ProductEngine* products) {
  if (spec.reference == ReferenceKind::kNative) return make_native_reference(spec);
  if (spec.reference == ReferenceKind::kGraph)
    return std::unique_ptr<Reference>(new GraphReference(products));
  return Error{ErrorCode::kUnavailable,
               "a process reference needs a device that runs host programs",
               "use --device host:cpu or host:cuda",
               {spec.path, 0, 0}};
}

std::size_t elements_together(double elements) {
  constexpr double kLeast = 2048, kMostRanges = 256;
  return static_cast<std::size_t>(std::max(kLeast, std::ceil(elements / kMostRanges)));
}

std::vector<KnownRange> draw_ranges(std::size_t extent, std::size_t wanted, std::size_t together,
                                    std::uint64_t secret) {
  Rng rng(Seed::from_number(secret).derive("ranges"));
  wanted = std::min(wanted, extent);
  together = std::clamp<std::size_t>(together, 1, std::max<std::size_t>(1, wanted));
  const std::size_t slots = extent / together;
  if (wanted > slots * together) return {{rng.below(extent - wanted + 1), wanted, 0}};
  const std::size_t shift = rng.below(extent - slots * together + 1);
  std::vector<KnownRange> ranges;
  std::size_t pieces = (wanted + together - 1) / together, value = 0;
  for (std::size_t slot = 0; pieces > 0; ++slot) {
    if (rng.below(slots - slot) >= pieces) continue;
    const std::size_t count = std::min(together, wanted - value);
    ranges.push_back({shift + slot * together, count, value});
    value += count;
    --pieces;
  }
  return ranges;
}

}  // namespace lathe

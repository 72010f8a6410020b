#include "task/generate_inputs.h"

#include <algorithm>
#include <array>
#include <set>

#include "task/fill_tensor.h"
#include "task/telling.h"

namespace lathe {
namespace {

constexpr std::array kDistributions = {
    Distribution::kNormal,       Distribution::kHeavyTail, Distribution::kOneHot,
    Distribution::kCancellation, Distribution::kDenormal,  Distribution::kIntegers,
    Distribution::kProbe,        Distribution::kLarge,     Distribution::kOffset};

bool multiplies_matrices(const NodeDecl& node) {
  const OpClass kind = node.op->op_class();
  return kind == OpClass::kContraction || (kind == OpClass::kStencil && node.in.size() > 1) ||
         node.op_name == "attention";
}

/// The second operand of a contraction is the permutation, unless it is also the first operand of
/// another.
ProbeRole probe_role(const TaskSpec& spec, const TensorDecl& decl) {
  ProbeRole role = ProbeRole::kMantissa;
  for (const NodeDecl& node : spec.nodes) {
    if (!multiplies_matrices(node)) continue;
    if (node.in[0] == decl.name) return ProbeRole::kMantissa;
    if (node.in[1] == decl.name) role = ProbeRole::kPermutation;
  }
  return role;
}

/// Ops that keep a parameter as large beside the activations as it was.
constexpr std::array<std::string_view, 8> kLinear = {"add",   "sub",        "mul",      "neg",
                                                     "scale", "add_scalar", "bias_add", "cast"};

/// Whether an op computes with the parameter and with no activation, as the softmax of a parameter
/// does: a kernel's mistakes there show on extreme values only.
bool is_computed_alone(const TaskSpec& spec, const TensorDecl& parameter) {
  std::set<std::string_view> fixed, own = {parameter.name};
  for (const TensorDecl& decl : spec.tensors)
    if (decl.role == Role::kParameter || decl.role == Role::kScalar || decl.role == Role::kIndex ||
        !info(decl.dtype).is_float)  // it only says which elements
      fixed.insert(decl.name);
  for (const NodeDecl& node : spec.nodes) {
    const auto is_in = [](const auto& names) {
      return [&](const std::string& name) { return names.contains(name); };
    };
    if (!std::ranges::all_of(node.in, is_in(fixed))) continue;
    fixed.insert(node.out);
    if (!std::ranges::any_of(node.in, is_in(own))) continue;
    own.insert(node.out);
    if (node.op->op_class() != OpClass::kMove && std::ranges::count(kLinear, node.op->name()) == 0)
      return true;
  }
  return false;
}

/// The tensor whose whole numbers alone are as large as results allow, so that a kernel which keeps
/// fewer of its bits shows whatever it multiplies; empty for none.
std::string widest_integers(const TaskSpec& spec, const Seed& seed) {
  std::vector<std::string> names;
  for (const TensorDecl& decl : spec.tensors)
    if (has_free_integers(decl)) names.push_back(decl.name);
  return names.empty() ? "" : names[Rng(seed.derive("widest integers")).below(names.size())];
}

/// Values that tell the ops that read the tensor from their mistakes.
std::vector<double> telling_values(const TaskSpec& spec, const TensorDecl& decl) {
  std::vector<double> values;
  // A module's thresholds are not known, and where it rounds are halves.
  if (spec.reference == ReferenceKind::kProcess && info(decl.dtype).is_float)
    for (const double half : {0.5, 1.5, 2.5, 3.5}) values.insert(values.end(), {half, -half});
  std::set<std::string_view> names = {decl.name};  // of the tensor's values, moved or in another dtype
  for (const NodeDecl& node : spec.nodes) {
    for (std::size_t input = 0; input < node.in.size(); ++input) {
      if (!names.contains(node.in[input])) continue;
      for (const double x : telling_inputs(*node.op, node.attrs, input, decl.dtype)) values.push_back(x);
      const bool same =
          node.op->op_class() == OpClass::kMove || (node.op_name == "cast" && info(node.type.dtype).is_float);
      if (same && input == 0) names.insert(node.out);
    }
  }
  return values;
}

}  // namespace

std::string_view name(Distribution distribution) {
  static constexpr std::array<std::string_view, kDistributions.size() + 1> kNames = {
      "normal",   "heavy_tail", "one_hot", "cancellation", "denormal",
      "integers", "probe",      "large",   "offset",       "mixed"};
  return kNames[static_cast<std::size_t>(distribution)];
}

std::span<const Distribution> all_distributions() { return kDistributions; }

bool has_free_integers(const TensorDecl& decl) {
  return !info(decl.dtype).is_float && decl.dtype != DType::kBool && !decl.value.has_value() &&
         !decl.generator.bounded && decl.generator.kind != "index" && decl.generator.kind != "zeros_ones" &&
         decl.generator.kind != "one_hot";
}

int integer_bits(DType dtype) { return std::min(53, static_cast<int>(8 * info(dtype).bytes) - 1); }

std::vector<HostTensor> generate_inputs(const BoundTask& task, Distribution distribution, const Seed& seed,
                                        const Reach& reach) {
  std::vector<HostTensor> inputs;
  const std::string widest = distribution == Distribution::kOffset ? widest_integers(*task.spec, seed) : "";
  for (TensorDecl decl : task.spec->tensors) {
    if (decl.role == Role::kParameter && is_computed_alone(*task.spec, decl)) decl.role = Role::kActivation;
    if (!widest.empty() && has_free_integers(decl))
      decl.role = decl.name == widest ? Role::kActivation : Role::kParameter;  // which stays ordinary
    const Shape& shape = task.shape_of(decl.name);
    std::int64_t limit = 1;
    if (decl.generator.index_limit.has_value()) {
      const Result<std::int64_t> value = decl.generator.index_limit->evaluate(task.dims);
      if (value.ok()) limit = std::max<std::int64_t>(1, *value);
    }
    const Seed own = seed.derive(decl.name, static_cast<std::uint64_t>(distribution));
    const bool structured = distribution == Distribution::kIntegers;
    const FillRequest request{decl,
                              shape,
                              distribution,
                              reach,
                              probe_role(*task.spec, decl),
                              limit,
                              RandomCounter(own),
                              RandomCounter(own.derive("rows")),
                              structured ? telling_values(*task.spec, decl) : std::vector<double>()};
    HostTensor tensor = HostTensor::zeros(decl.dtype, shape);
    fill_tensor(request, tensor);
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

}  // namespace lathe

#include "task/generate_inputs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "task/fill_tensor.h"
#include "task/telling_values.h"

namespace lathe {
namespace {

constexpr double kFar = 64;  // times a tensor's scale

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

/// Where the graph takes other elements together than rows, half of the time one of these lines.
std::optional<Line> draw_line(const BoundTask& task, const TensorDecl& decl, const Seed& seed) {
  const std::vector<Line> lines = lines_taken_together(task, decl);
  Rng rng(seed);
  if (lines.empty() || rng.chance(0.5)) return std::nullopt;
  return lines[rng.below(lines.size())];
}

bool is_far(const TensorDecl& decl, double value) {
  return info(decl.dtype).is_float && std::fabs(value) > kFar * decl.generator.scale;
}

/// Whether the tensor's values are floating-point numbers of any size and sign.
bool is_free(const TensorDecl& decl) {
  return decl.role == Role::kActivation && info(decl.dtype).is_float && decl.generator.kind == "normal" &&
         !decl.generator.bounded;
}

/// The first input before the one at `at` that has its shape and values of its kind; none: `at`.
std::size_t alike(const BoundTask& task, std::size_t at) {
  const std::vector<TensorDecl>& tensors = task.spec->tensors;
  const TensorDecl& decl = tensors[at];
  for (std::size_t i = 0; i < at && is_free(decl); ++i)
    if (is_free(tensors[i]) && tensors[i].dtype == decl.dtype &&
        task.shape_of(tensors[i].name) == task.shape_of(decl.name))
      return i;
  return at;
}

/// Gives an eighth of the rows, and one at least, what another tensor has there, and as many its
/// negative; a single row at times.
void share_rows(const HostTensor& other, const Seed& seed, HostTensor& tensor) {
  const RandomCounter random(seed);
  const auto length = static_cast<std::size_t>(tensor.shape.empty() ? 1 : tensor.shape.back());
  std::vector<double> values = tensor.decode();
  const std::vector<double> others = other.decode();
  const std::size_t rows = values.size() / length, certain = random.bits(rows) % rows;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::uint64_t kind = random.bits(row) & (rows > 1 ? 7 : 3);
    const bool is_certain = rows > 1 && row == certain;
    if (kind > 1 && !is_certain) continue;
    const double sign = kind == 1 ? -1 : 1;
    for (std::size_t i = row * length; i < (row + 1) * length; ++i) values[i] = sign * others[i];
  }
  info(tensor.dtype).encode(values, tensor.bytes.data());
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

bool has_far_limits(const TaskSpec& spec) {
  return spec.reference == ReferenceKind::kGraph && std::ranges::any_of(spec.tensors, [&](const auto& decl) {
           return std::ranges::any_of(telling_values(spec, decl), [&](double x) { return is_far(decl, x); });
         });
}

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
    const bool single = has_single_values(distribution);
    const bool structured = distribution == Distribution::kOneHot || distribution == Distribution::kIntegers;
    const bool whole = distribution == Distribution::kLarge && has_free_integers(decl);
    const bool tells = structured || ((single || whole) && task.spec->reference == ReferenceKind::kGraph);
    std::vector<double> telling = tells ? telling_values(*task.spec, decl) : std::vector<double>();
    if (!reach.far_limits) std::erase_if(telling, [&](double value) { return is_far(decl, value); });
    const FillRequest request{
        decl,
        shape,
        distribution,
        reach,
        probe_role(*task.spec, decl),
        limit,
        RandomCounter(own),
        RandomCounter(own.derive("rows")),
        std::move(telling),
        single || is_mask(decl) ? draw_line(task, decl, own.derive("line")) : std::nullopt};
    HostTensor tensor = HostTensor::zeros(decl.dtype, shape);
    fill_tensor(request, tensor);
    const std::size_t other = reach.common_rows ? alike(task, inputs.size()) : inputs.size();
    if (other < inputs.size()) share_rows(inputs[other], own.derive("common rows"), tensor);
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

}  // namespace lathe

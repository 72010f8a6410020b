#include "task/sample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "task/fill_tensor.h"
#include "task/ranking.h"

namespace lathe {
namespace {

constexpr std::array kReaches = {kLongestReach, 32.0, 4.0};
constexpr int kLeastIntegerBits = 2;
constexpr int kLeastOrdinaryBits = 1;  // -2 to 1, whose running products meet a zero in time
/// Where values are only selected. Ordinary values times the first stay below 1e30, which kernels
/// use for infinity; the others are for what whole numbers of 64 and of 32 bits and fp16 hold.
constexpr std::array kWideReaches = {0x1p96, 0x1p48, 0x1p26, 0x1p13};
/// How small positive inputs are, beside their scale, where no value on the way is too large.
constexpr std::array kTinyShares = {0x1p-100, 0x1p-40};
/// Ops beside those that only move whose results are elements of their inputs, up to the sign or to
/// a rounding to another dtype, or constants.
constexpr std::array<std::string_view, 44> kSelections = {"relu",
                                                          "abs",
                                                          "neg",
                                                          "clamp",
                                                          "hardtanh",
                                                          "cast",
                                                          "max",
                                                          "min",
                                                          "where",
                                                          "reduce_max",
                                                          "reduce_min",
                                                          "max_pool1d",
                                                          "max_pool2d",
                                                          "max_pool3d",
                                                          "argmax",
                                                          "argmin",
                                                          "lt",
                                                          "le",
                                                          "gt",
                                                          "ge",
                                                          "eq",
                                                          "ne",
                                                          "round",
                                                          "floor",
                                                          "ceil",
                                                          "trunc",
                                                          "sign",
                                                          "logical_and",
                                                          "logical_or",
                                                          "logical_not",
                                                          "cummax",
                                                          "cummin",
                                                          "sort",
                                                          "argsort",
                                                          "hardshrink",
                                                          "any",
                                                          "all",
                                                          "adaptive_max_pool1d",
                                                          "adaptive_max_pool2d",
                                                          "adaptive_max_pool3d",
                                                          "segment_max",
                                                          "segment_min",
                                                          "scatter_max",
                                                          "scatter_min"};
/// Ops with jumps, on whose other side few elements may be: their errors are as large as the jump,
/// and an RMS error says nothing.
constexpr std::array<std::string_view, 17> kJumps = {
    "lt",    "le",   "gt",           "ge",       "eq",   "ne",        "round", "floor",     "ceil",
    "trunc", "sign", "floor_divide", "exponent", "fmod", "remainder", "atan2", "hardshrink"};

/// The largest share of the dtype's range that a value takes, with its tolerance; infinite where
/// one is not a number or its tolerance means nothing. Where values `may_saturate`, formats that do
/// have a right value for what is too large.
double range_share(const Expected& expected, bool may_saturate) {
  const DTypeInfo& type = info(expected.dtype);
  const Value& value = expected.value;
  double share = 0;
  for (std::size_t i = 0; i < value.data.size(); ++i) {
    const double y = value.data[i];
    const double reached = type.is_float ? std::fabs(y) + value.error_at(i) : whole_reach(type, y);
    if (std::isnan(reached)) return INFINITY;
    share = std::max(share, reached / type.largest);
  }
  return may_saturate && type.saturates() && std::isfinite(share) ? std::min(share, 1.0) : share;
}

/// The same of the outputs and all values on the way to them: to 1, honest kernels compute them.
/// One distribution shows what becomes of larger ones.
double range_share(const std::vector<Expected>& outputs, Distribution distribution) {
  double share = 0;
  for (const Expected& expected : outputs)
    share =
        std::max({share, expected.range_share, range_share(expected, distribution == Distribution::kLarge)});
  return share;
}

/// The most bits that a distribution gives integers without declared bounds; 0 if there are none.
int most_integer_bits(const TaskSpec& spec, Distribution distribution) {
  int bits = 0;
  for (const TensorDecl& decl : spec.tensors)
    if (has_free_integers(decl)) bits = std::max(bits, integer_bits(decl.dtype));
  return is_extreme(distribution) ? bits : std::min(bits, kOrdinaryIntegerBits);
}

/// Fewer bits, after values took more than the whole of a range: as products of two inputs need.
int fewer_bits(int bits, double share, int least) {
  const double excess = std::isfinite(share) ? std::ceil(std::log2(share) / 2) : bits / 4.0;
  return std::max(least, bits - std::max(1, static_cast<int>(excess)));
}

/// Ops that may make a few elements and their errors far larger than the others: an RMS error says
/// something only of errors by their bounds, and nothing where a sum follows.
constexpr std::array<std::string_view, 15> kAmplifying = {"div",  "exp",  "log",        "log1p", "reciprocal",
                                                          "pow",  "prod", "pow_scalar", "rsqrt", "cumprod",
                                                          "exp2", "log2", "tan",        "sinh",  "cosh"};

/// Ops that keep what products' sums have lost as large beside their values as it was: no more than
/// one operand is made of products, and what the others are does not cancel them.
constexpr std::array<std::string_view, 13> kKeeping = {
    "transpose", "reshape", "flatten",  "slice", "flip", "relu", "leaky_relu",
    "neg",       "scale",   "bias_add", "add",   "mul",  "cast"};
/// Ops whose values may lose more, and no more beside their bounds than their operands did, or a
/// few roundoffs of the values.
constexpr std::array<std::string_view, 4> kBending = {"softmax", "log_softmax", "sigmoid", "exp"};

/// Ops whose results are as exact beside their size as their operands are. Others may cancel, as
/// what is left of values without their mean is less exact than they were.
constexpr std::array<std::string_view, 19> kFaithful = {
    "mul",  "div",  "scale",      "neg",     "abs", "relu", "leaky_relu", "square",   "sqrt",        "rsqrt",
    "silu", "gelu", "reciprocal", "sigmoid", "exp", "cast", "softmax",    "rms_norm", "l2_normalize"};

/// What a running sum loses in units of its roundoff is up to about a third of the root of its
/// terms, 20 of 4096 ones; Winograd's algorithms lose up to a hundred. Factors of 11 bits lose
/// thousands.
constexpr double kOrderRoundoffs = 256;
constexpr double kOrderDTypeRoundoffs = 8;
constexpr double kLongestSerial = 4096;

/// So many terms that were each rounded to the sum's dtype are together off by little of that.
constexpr double kFewestRounded = 1024;

/// Half of so many terms make a sum that is off by no more than a rounding to the dtype may be: the
/// coarser it is, the fewer they are.
double fewest_hidden_terms(DType dtype, bool rounded_terms) {
  const double coarser = info(dtype).unit_roundoff / info(DType::kBF16).unit_roundoff;
  return std::max(kLongestSerial / std::max(1.0, coarser * coarser), rounded_terms ? kFewestRounded : 0);
}

/// What is known of how much the order of values may suffer from roundings.
enum class Ranking {
  kExact,  ///< no products
  kKept,   ///< it is as small beside the values as products' sums have it
  kBent,   ///< it is as small a share of the bounds
  kUnknown,
};

bool is_narrow(DType dtype) {
  return info(dtype).is_float && info(dtype).unit_roundoff > info(DType::kF32).unit_roundoff;
}

/// Where what is nearest hangs on how a kernel rounds its own values.
bool chooses_by_rounded_places(const NodeDecl& node) {
  return node.op_name == "grid_sample" && node.attrs.text("mode", "bilinear") == "nearest";
}

/// What a node's elements are made of.
struct Origin {
  bool products = false;
  bool convolutions = false;
  bool shared_sums = false;
  bool summed = false;  ///< of what products gave
  bool amplified = false;
  bool computed = false;  ///< with an error, so that it may lie on a jump's other side
  bool jumps = false;
  Ranking ranking = Ranking::kExact;
  bool cancelled = false;          ///< perhaps, by or in something computed without products
  bool blurred = false;            ///< by sums that a narrow dtype may hold, or that elements share
  bool rounded_terms = false;      ///< those of a sum, which a narrow dtype may hold
  bool cast_once = false;          ///< from a wide dtype, in which all of it was computed
  double longest_sum = 0;          ///< not of products
  double fewest_terms = INFINITY;  ///< of products' sums
  double unit_roundoff =
      0;  ///< the largest of nodes' dtypes up to here, which a kernel may or may not round to

  Sums sums(Distribution distribution, DType dtype) const {
    const bool rounded = unit_roundoff > info(dtype).unit_roundoff;
    if (distribution != Distribution::kNormal || (!products && !shared_sums)) return Sums::kNone;
    if (jumps) return products && !summed && !rounded ? Sums::kJumping : Sums::kNone;
    if (!products || rounded) return Sums::kUnknown;
    if (amplified) return summed ? Sums::kUnknown : Sums::kAmplified;
    if (shared_sums) return Sums::kShared;
    return convolutions ? Sums::kConvolution : Sums::kOwn;
  }

  /// Whether an output may be off by no more than one rounding and its bound before that.
  bool is_rounded_once(const OutputDecl& output) const {
    const bool hides_sums = longest_sum >= fewest_hidden_terms(output.dtype, rounded_terms) && !blurred;
    const bool one_by_one = cast_once && !shared_sums;
    return output.compare == CompareKind::kBound && is_narrow(output.dtype) && (hides_sums || one_by_one) &&
           !products && !jumps;
  }

  OrderLimit order_limit(Distribution distribution, DType dtype, double unit) const {
    const bool rounded = unit_roundoff > info(dtype).unit_roundoff;
    if (distribution != Distribution::kNormal || rounded) return {};
    if (ranking != Ranking::kKept && ranking != Ranking::kBent) return {};
    const double terms = std::min(fewest_terms, kLongestSerial);
    return {std::max(kOrderDTypeRoundoffs * info(dtype).unit_roundoff, kOrderRoundoffs * unit),
            ranking == Ranking::kBent ? 1 / std::sqrt(std::max(1.0, terms)) : 0};
  }
};

bool multiplies(const NodeDecl& node) {
  const OpClass kind = node.op->op_class();
  return kind == OpClass::kContraction || (kind == OpClass::kStencil && node.in.size() > 1);
}

/// Of what a node makes of operands whose rankings these are.
Ranking ranking_of(const NodeDecl& node, const std::vector<Ranking>& operands) {
  if (operands.empty()) return Ranking::kExact;
  const Ranking worst = *std::ranges::max_element(operands);
  if (multiplies(node)) {
    const bool starts_from_products = operands.size() > 2 && operands[2] != Ranking::kExact;
    return starts_from_products ? Ranking::kUnknown : std::max(worst, Ranking::kKept);
  }
  if (node.op_name == "attention") return Ranking::kUnknown;
  if (worst == Ranking::kExact || worst == Ranking::kUnknown) return worst;
  if (std::ranges::count(operands, Ranking::kExact) + 1 < std::ssize(operands)) return Ranking::kUnknown;
  if (!info(node.type.dtype).is_float) return Ranking::kUnknown;
  if (std::ranges::count(kBending, node.op_name) > 0) return Ranking::kBent;
  return std::ranges::count(kKeeping, node.op_name) > 0 ? worst : Ranking::kUnknown;
}

/// The terms of an op's sums, if a kernel has no reason to keep in the output what it is made of,
/// and so to round that twice; else 0.
double terms_rounded_once(const NodeDecl& node, const OpSite& site) {
  const OpClass kind = node.op->op_class();
  if (kind == OpClass::kReduce || kind == OpClass::kLoss || (kind == OpClass::kStencil && !multiplies(node)))
    return static_cast<double>(element_count(site.in[0])) / static_cast<double>(element_count(site.out));
  if (node.op_name != "log_softmax") return 0;
  const std::int64_t axis = node.attrs.integer("axis", -1), rank = std::ssize(site.out);
  return static_cast<double>(site.out[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)]);
}

std::map<std::string, Origin> origins_of_nodes(const BoundTask& task) {
  const TaskSpec& spec = *task.spec;
  std::map<std::string, Origin> origins;
  for (std::size_t i = 0; i < spec.nodes.size(); ++i) {
    const NodeDecl& node = spec.nodes[i];
    const OpClass kind = node.op->op_class();
    const bool contracts = kind == OpClass::kContraction, convolves = multiplies(node) && !contracts;
    const bool one_by_one = kind == OpClass::kElementwise || kind == OpClass::kMove;
    const bool cancels =
        kind != OpClass::kMove && !multiplies(node) && std::ranges::count(kFaithful, node.op->name()) == 0;
    Origin origin;
    origin.cancelled = cancels && !one_by_one;
    const OpSite site = task.site(i);
    const auto elements = static_cast<double>(element_count(site.out));
    const double summed = terms_rounded_once(node, site);
    std::vector<Ranking> rankings;
    for (std::size_t operand = 0; operand < node.in.size(); ++operand) {
      const std::string& in = node.in[operand];
      const Origin& from = origins[in];
      const NodeDecl* const made_by = spec.find_node(in);
      const NodeDecl* const maker = from.shared_sums ? made_by : nullptr;
      const bool narrow_terms = summed > 0 && made_by != nullptr && is_narrow(made_by->type.dtype);
      origin.rounded_terms |= from.rounded_terms || narrow_terms;
      const bool spread = one_by_one && static_cast<double>(element_count(site.in[operand])) < elements;
      origin.blurred |= from.blurred || (maker != nullptr && (spread || is_narrow(maker->type.dtype)));
      origin.longest_sum = std::max(origin.longest_sum, from.longest_sum);
      origin.products |= from.products;
      origin.convolutions |= from.convolutions;
      origin.shared_sums |= from.shared_sums;
      origin.summed |= from.summed;
      origin.amplified |= from.amplified;
      origin.computed |= from.computed;
      origin.jumps |= from.jumps;
      origin.unit_roundoff = std::max(origin.unit_roundoff, from.unit_roundoff);
      origin.fewest_terms = std::min(origin.fewest_terms, from.fewest_terms);
      origin.cancelled |= from.cancelled || (cancels && from.computed && from.ranking == Ranking::kExact);
      rankings.push_back(from.ranking);
    }
    origin.cast_once = node.op->name() == "cast" && is_narrow(node.type.dtype) &&
                       origin.unit_roundoff <= info(DType::kF32).unit_roundoff;
    origin.unit_roundoff = std::max(origin.unit_roundoff, info(node.type.dtype).unit_roundoff);
    origin.amplified |= origin.products && std::ranges::count(kAmplifying, node.op->name()) > 0;
    const bool to_whole = node.op->name() == "cast" && !info(node.type.dtype).is_float;
    origin.jumps |= chooses_by_rounded_places(node);
    origin.jumps |= origin.computed && (to_whole || std::ranges::count(kJumps, node.op->name()) > 0);
    origin.computed |= kind != OpClass::kMove && std::ranges::count(kSelections, node.op->name()) == 0;
    origin.summed |= origin.products && !one_by_one && !contracts && !convolves;
    origin.products |= contracts || convolves || node.op->name() == "attention";
    origin.convolutions |= convolves;
    origin.ranking = ranking_of(node, rankings);
    if (origin.ranking == Ranking::kKept && origin.cancelled) origin.ranking = Ranking::kBent;
    if (contracts || convolves) {
      origin.fewest_terms = std::min(origin.fewest_terms, node.op->flops(site) / (2.0 * elements));
    }
    origin.longest_sum = std::max(origin.longest_sum, summed);
    origin.blurred |= summed == 0 && !one_by_one;
    origin.shared_sums |= !one_by_one && !contracts && !convolves;
    origins[node.out] = origin;
  }
  return origins;
}

/// The node whose values an output's indices point at; nullptr if there is none.
const NodeDecl* ordered_by(const TaskSpec& spec, const Expected& expected) {
  if (expected.compare != CompareKind::kArgmax && expected.compare != CompareKind::kArgsort) return nullptr;
  const NodeDecl* const node = spec.find_node(expected.name);
  if (node == nullptr) return nullptr;
  const NodeDecl* const by = expected.compare == CompareKind::kArgsort ? ranking_of(spec, *node) : node;
  return spec.find_tensor(by->in[0]) == nullptr ? spec.find_node(by->in[0]) : nullptr;
}

/// Whether no node computes with the values, so that their size can hurt no honest kernel.
bool only_selects(const TaskSpec& spec) {
  return !spec.nodes.empty() && std::ranges::all_of(spec.nodes, [](const NodeDecl& node) {
    return node.op->op_class() == OpClass::kMove || std::ranges::count(kSelections, node.op->name()) > 0;
  });
}

/// The slots of `together` elements in which an output differs from what it was before the call.
std::vector<std::size_t> changed_slots(const Expected& expected, const HostTensor& before,
                                       std::size_t together) {
  const DTypeInfo& type = info(before.dtype);
  std::vector<std::size_t> slots;
  std::vector<double> old(together);
  for (std::size_t slot = 0; (slot + 1) * together <= expected.value.data.size(); ++slot) {
    type.decode(before.bytes.data() + slot * together * type.bytes, old);
    if (!std::ranges::equal(old, std::span(expected.value.data).subspan(slot * together, together)))
      slots.push_back(slot);
  }
  return slots;
}

/// Ranges that hold `wanted` elements; where a call changes few in place, half of them those that
/// it changes, which are all of its work.
std::vector<KnownRange> draw_known(const Expected& expected, const HostTensor* before, std::size_t wanted,
                                   const Part& part) {
  const std::size_t elements = expected.value.data.size(), together = elements_together(part.elements);
  const std::vector<KnownRange> anywhere = draw_ranges(elements, wanted, together, part.secret);
  if (before == nullptr || wanted <= together) return anywhere;
  std::vector<std::size_t> slots = changed_slots(expected, *before, together);
  if (2 * slots.size() > elements / together) return anywhere;
  Rng rng(Seed::from_number(part.secret).derive("changed"));
  rng.shuffle(slots);
  slots.resize(std::min(slots.size(), wanted / together / 2 + 1));
  std::set<std::size_t> chosen(slots.begin(), slots.end());
  while (chosen.size() < wanted / together) chosen.insert(rng.below(elements / together));
  std::vector<KnownRange> ranges;
  for (const std::size_t slot : chosen)
    ranges.push_back({slot * together, together, ranges.size() * together});
  return ranges;
}

/// Keeps `part` of a large output that is known as a whole; `before` is what was there before the
/// call, or null.
void keep_part(Expected& expected, const HostTensor* before, const Part& part) {
  constexpr std::size_t kWorthCutting = 1 << 22;
  const std::size_t elements = expected.value.data.size();
  if (elements < kWorthCutting || !expected.known.empty() || !expected.source.data.empty()) return;
  const auto wanted = static_cast<std::size_t>(std::max(1.0, part.elements));
  if (wanted >= elements) return;
  expected.of = elements;
  expected.known = draw_known(expected, before, wanted, part);
  const KnownRange last = expected.known.back();
  const auto keep = [&](auto& values) {
    if (values.empty()) return;
    std::remove_reference_t<decltype(values)> kept;
    kept.reserve(last.value + last.count);
    for (const KnownRange& range : expected.known) {
      const auto from = values.begin() + static_cast<std::ptrdiff_t>(range.element);
      kept.insert(kept.end(), from, from + static_cast<std::ptrdiff_t>(range.count));
    }
    values = std::move(kept);
  };
  keep(expected.value.data);
  keep(expected.value.err);
  keep(expected.unrounded);
  expected.value.shape = {static_cast<std::int64_t>(last.value + last.count)};
}

/// What an inout output's memory holds before the call; nullptr for others.
const HostTensor* before_call(const TaskSpec& spec, const std::vector<HostTensor>& inputs,
                              const std::string& output) {
  for (std::size_t i = 0; i < spec.tensors.size(); ++i)
    if (spec.tensors[i].name == output) return &inputs[i];
  return nullptr;
}

/// Values that are too large for a format without infinity are its largest, and may be less only by
/// what of their tolerance reaches below it.
void saturate(Expected& expected) {
  const DTypeInfo& type = info(expected.dtype);
  if (!type.saturates()) return;
  for (std::size_t i = 0; i < expected.value.data.size(); ++i) {
    double& value = expected.value.data[i];
    const double excess = std::fabs(value) - type.largest;
    if (!(excess > 0)) continue;
    value = std::copysign(type.largest, value);
    if (!expected.value.err.empty()) expected.value.err[i] = std::max(0.0, expected.value.err[i] - excess);
  }
}

Result<std::vector<Expected>> evaluate(const Reference& reference, const BoundTask& task,
                                       const Sample& sample, const Numerics& numerics,
                                       const SampleOptions& options) {
  return options.part ? reference.evaluate_part(task, sample.inputs, numerics, *options.part)
                      : reference.evaluate(task, sample.inputs, numerics);
}

/// A tolerance without what rounding to the dtype adds, `times` one after the other.
double unrounded_error(const Expected& expected, std::size_t i, double tolerance, int times) {
  const double growth = std::pow(1 + info(expected.dtype).unit_roundoff, times);
  const double value = std::fabs(expected.value.data[i]);
  const DTypeInfo& type = info(expected.dtype);
  const double smallest_step = 2 * type.unit_roundoff * type.smallest_normal;
  return std::max(0.0, (expected.value.err[i] / tolerance - smallest_step - (growth - 1) * value) / growth);
}

/// What narrow outputs of long sums are off by but for one rounding. Terms that were rounded on the
/// way are as often too large as too small.
Status look_behind_rounding(const Reference& reference, const BoundTask& task,
                            const std::map<std::string, Origin>& origins, const SampleOptions& options,
                            Sample& sample) {
  const TaskSpec& spec = *task.spec;
  const auto shows = [&](const OutputDecl& output) {
    const auto it = origins.find(output.name);
    return it != origins.end() && it->second.is_rounded_once(output);
  };
  if (std::ranges::none_of(spec.outputs, shows)) return Ok{};
  const auto is_last_alone = [&](const OutputDecl& output) {
    return spec.nodes.size() == 1 || origins.at(output.name).cast_once;
  };
  std::vector<Expected> wide;
  if (std::ranges::any_of(spec.outputs, [&](const auto& one) { return shows(one) && !is_last_alone(one); })) {
    Numerics numerics = sample.numerics;
    numerics.stores_narrow = false;
    LATHE_TRY(wide, evaluate(reference, task, sample, numerics, options));
  }
  for (std::size_t o = 0; o < spec.outputs.size(); ++o) {
    const OutputDecl& output = spec.outputs[o];
    if (!shows(output)) continue;
    const bool alone = is_last_alone(output);
    const int roundings = alone && is_narrow(spec.find_node(output.name)->type.dtype) ? 2 : 1;
    const Expected& known = alone ? sample.expected[o] : wide[o];
    std::vector<double> errors(known.value.data.size());
    for (std::size_t i = 0; i < errors.size(); ++i)
      errors[i] = unrounded_error(known, i, spec.tolerance, roundings);
    sample.expected[o].unrounded = std::move(errors);
  }
  return Ok{};
}

/// What inputs of a distribution try one after the other, until honest kernels can compute with
/// them; of those that are not extreme, the last goes without saying.
std::vector<Reach> reaches_of(const TaskSpec& spec, Distribution distribution) {
  std::vector<Reach> reaches;
  const auto is_positive = [](const TensorDecl& decl) {
    return decl.generator.kind == "positive" && !decl.generator.bounded;
  };
  if (is_extreme(distribution)) {
    if (only_selects(spec))
      for (const double scales : kWideReaches) reaches.push_back({.scales = scales});
    for (const double scales : kReaches) reaches.push_back({.scales = scales});
    return reaches;
  }
  if (distribution == Distribution::kOneHot) reaches.push_back({.zero_rows = true});
  if (distribution == Distribution::kCancellation && spec.tensors.size() > 1)
    reaches.push_back({.common_rows = true});
  if (distribution == Distribution::kDenormal && std::ranges::any_of(spec.tensors, is_positive))
    for (const double tiny : kTinyShares) reaches.push_back({.tiny = tiny});
  reaches.emplace_back();
  const bool tells = distribution == Distribution::kIntegers || has_single_values(distribution);
  if (tells && has_far_limits(spec)) {
    std::vector<Reach> far = reaches;
    for (Reach& reach : far) reach.far_limits = true;
    reaches.insert(reaches.begin(), far.begin(), far.end());
  }
  return reaches;
}

/// Gives a few integers more bits than all of them can have at once, where every value on the way
/// keeps to its range.
Status raise_spikes(const Reference& reference, const BoundTask& task, const Seed& seed, const Reach& reach,
                    const SampleOptions& options, Sample& sample) {
  Sample raised{sample.distribution, sample.numerics, {}, {}};
  raised.inputs = generate_inputs(task, sample.distribution, seed, reach);
  LATHE_TRY(raised.expected, evaluate(reference, task, raised, raised.numerics, options));
  if (range_share(raised.expected, sample.distribution) <= 1) sample = std::move(raised);
  return Ok{};
}

}  // namespace

Result<std::optional<Sample>> draw_sample(const Reference& reference, const BoundTask& task,
                                          Distribution distribution, const Seed& seed,
                                          const SampleOptions& options) {
  Sample sample{distribution, numerics_for(*task.spec, options.numerics), {}, {}};
  sample.numerics.sparse_sums = distribution == Distribution::kProbe;
  sample.numerics.even_terms = distribution == Distribution::kNormal;
  const bool extreme = is_extreme(distribution);
  if (extreme && task.spec->reference == ReferenceKind::kNative) return std::optional<Sample>();
  const std::map<std::string, Origin> origins = origins_of_nodes(task);
  std::vector<Reach> reaches = reaches_of(*task.spec, distribution);
  const int most_bits = most_integer_bits(*task.spec, distribution);
  for (Reach& reach : reaches) {
    const bool may_fail = extreme || &reach != &reaches.back();
    const int least_bits = may_fail ? kLeastIntegerBits : kLeastOrdinaryBits;
    reach.integer_bits = most_bits;
    double share = 0;
    while (true) {
      sample.inputs = generate_inputs(task, distribution, seed, reach);
      LATHE_TRY(sample.expected, evaluate(reference, task, sample, sample.numerics, options));
      if (!may_fail && most_bits == 0) break;
      share = range_share(sample.expected, distribution);
      if (share <= 1 || reach.integer_bits <= least_bits) break;
      reach.integer_bits = fewer_bits(reach.integer_bits, share, least_bits);
    }
    if (may_fail && share > 1) continue;
    if (distribution == Distribution::kLarge && reach.integer_bits < most_bits) {
      reach.spike_bits = most_bits;
      LATHE_CHECK_OK(raise_spikes(reference, task, seed, reach, options, sample));
    }
    if (distribution == Distribution::kNormal)
      LATHE_CHECK_OK(look_behind_rounding(reference, task, origins, options, sample));
    for (Expected& expected : sample.expected) {
      saturate(expected);
      if (options.part)
        keep_part(expected, before_call(*task.spec, sample.inputs, expected.name), *options.part);
      if (const auto it = origins.find(expected.name); it != origins.end())
        expected.sums = it->second.sums(distribution, expected.dtype);
      else if (task.spec->reference == ReferenceKind::kProcess && distribution == Distribution::kNormal &&
               is_narrow(expected.dtype))
        expected.sums = Sums::kShared;  // whatever the module does: half of its bound is too much
      if (const NodeDecl* const ordered = ordered_by(*task.spec, expected))
        expected.order = origins.at(ordered->out)
                             .order_limit(distribution, ordered->type.dtype, sample.numerics.unit_roundoff);
    }
    return std::optional(std::move(sample));
  }
  return std::optional<Sample>();
}

}  // namespace lathe

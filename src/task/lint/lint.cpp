#include "task/lint/lint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>

#include "base/statistics.h"
#include "task/cancellable.h"
#include "task/lint/cases.h"

namespace lathe {
namespace {

/// A mutant whose error is below this share of the tolerance counts as an equivalent computation.
constexpr double kEquivalentRatio = 1e-3;
/// Up to here a double, and so the reference, holds every integer.
constexpr double kExactIntegers = 0x1p53;
/// An output is almost constant if this share of its elements lies within kConstantReach of their
/// median.
constexpr double kConstantShare = 0.98;
constexpr double kConstantReach = 16;  ///< in tolerances
/// The most that this may come to in units of a value, whose format may be coarse.
constexpr double kConstantWidth = 0.5;
/// A bound is too loose if it exceeds this share of the output's RMS on this share of the elements.
constexpr double kLooseRatio = 0.25;
/// The least that this comes to, in roundoffs of the output's dtype.
constexpr double kLooseRoundoffs = 6;
constexpr double kLooseShare = 0.1;
/// Of elements on adversarial inputs that may have no bound, as products that overflow on the way.
constexpr double kRareShare = 0.01;
/// The headline shape is checked as well if one evaluation needs at most this much arithmetic.
constexpr double kHeadlineFlops = 2e8;
constexpr double kHeadlineElements = 4e6;

constexpr std::string_view kKeepFromZero =
    "add an epsilon to divisors and arguments of logarithms and roots, clamp to what a narrow dtype holds, "
    "or declare inputs with gen = { kind = \"positive\" }";
constexpr std::string_view kTiesDecide =
    "; what is looked up by an argmax or argsort of computed values hangs on their roundings where they "
    "nearly "
    "tie: make the index itself the output";

/// Distributions that resemble users' data; the others are adversarial.
bool ordinary(Distribution distribution) {
  return distribution == Distribution::kNormal || distribution == Distribution::kHeavyTail;
}

/// The largest error over tolerance.
double distance(const Expected& expected, std::span<const double> values) {
  double largest = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double want = expected.value.data[i];
    if (values[i] == want || (std::isnan(values[i]) && std::isnan(want))) continue;
    const double ratio = std::fabs(values[i] - want) / expected.value.error_at(i);
    largest = std::isnan(ratio) ? INFINITY : std::max(largest, ratio);
  }
  return largest;
}

/// How many places the node's indices may name: of its operand 1, but for bincount. Nothing of ops
/// without such.
std::optional<std::int64_t> places_of(const NodeDecl& node, const OpSite& site) {
  static const std::set<std::string_view> kGather = {"gather", "embedding", "take_along"};
  static const std::set<std::string_view> kScatter = {"scatter", "scatter_add", "scatter_max", "scatter_min",
                                                      "bincount"};
  if (kScatter.contains(node.op_name)) return site.out[0];
  if (!kGather.contains(node.op_name)) return std::nullopt;
  const std::int64_t axis = site.attrs.integer("axis", node.op_name == "take_along" ? -1 : 0);
  const auto rank = static_cast<std::int64_t>(site.in[0].size());
  return site.in[0][static_cast<std::size_t>(axis < 0 ? axis + rank : axis)];
}

/// State shared by the checks.
class Linter {
 public:
  Linter(const BoundTask& task, const Reference& reference, const Seed& seed)
      : task_(task), spec_(*task.spec), reference_(reference), seed_(seed) {}

  Status prepare() {
    for (const Distribution distribution : all_distributions()) {
      LATHE_TRY(std::optional<Sample> sample, draw_sample(reference_, task_, distribution, seed_));
      if (sample) cases_.push_back(*std::move(sample));
    }
    for (std::uint64_t i = 1; i <= 2; ++i) {
      LATHE_TRY(std::optional<Sample> sample,
                draw_sample(reference_, task_, Distribution::kNormal, seed_.derive("again", i)));
      repeats_.push_back(*std::move(sample));
    }
    return Ok{};
  }

  Result<LintReport> run() {
    check_outputs();
    for (const Mutant& mutant : generic_mutants(spec_)) try_mutant(mutant);
    if (!spec_.nodes.empty()) {
      for (const Mutant& mutant : op_mutants(task_)) try_op_mutant(mutant);
      LATHE_CHECK_OK(check_rounded_runs());
    }
    LATHE_CHECK_OK(check_inputs_matter());
    return std::move(report_);
  }

  /// The checks that one evaluation at another shape allows.
  Result<LintReport> run_outputs_only() {
    LATHE_TRY(std::optional<Sample> sample, draw_sample(reference_, task_, Distribution::kNormal, seed_));
    cases_.push_back(*std::move(sample));
    check_outputs();
    for (const Mutant& mutant : generic_mutants(spec_)) {
      if (mutant.name != "low_precision") try_mutant(mutant);
    }
    report_.skipped.clear();
    return std::move(report_);
  }

 private:
  void fatal(std::string check, std::string text) {
    report_.findings.push_back({true, std::move(check), std::move(text)});
  }
  void warn(std::string check, std::string text) {
    report_.findings.push_back({false, std::move(check), std::move(text)});
  }

  /// Whether some inputs expose the mutant; nullopt if it never applies. `near`, if given, receives
  /// the largest error over tolerance before rounding to the output's dtype.
  std::optional<bool> is_caught(const Mutant& mutant, double* near) const {
    std::optional<bool> result;
    for (const Sample& sample : cases_) {
      if (mutant.ordinary_inputs_only && !ordinary(sample.distribution)) continue;
      const auto values = mutant.run(sample);
      if (!values.has_value()) continue;
      const Expected& expected = sample.expected[mutant.output];
      if (near != nullptr) *near = std::max(*near, distance(expected, *values));
      result = !judge(expected, *values).pass;
      if (*result) break;
    }
    return result;
  }

  void try_mutant(const Mutant& mutant) {
    const std::string& output = spec_.outputs[mutant.output].name;
    const std::optional<bool> result = is_caught(mutant, nullptr);
    if (!result.has_value()) {
      report_.skipped.push_back(fmt::format("{}: does not apply to {}", mutant.name, output));
    } else if (!*result) {
      fatal("mutant:" + mutant.name,
            fmt::format("a kernel that makes the mistake '{}' in {} would pass", mutant.name, output));
    }
  }

  void try_op_mutant(const Mutant& mutant) {
    const std::string& output = spec_.outputs[mutant.output].name;
    double near = 0;
    const std::optional<bool> result = is_caught(mutant, &near);
    if (!result.has_value() || *result || (mutant.may_pass && near == 0)) return;
    if (mutant.may_pass) {
      report_.skipped.push_back(
          fmt::format("{}: within the tolerance of {} on all inputs", mutant.name, output));
    } else if (near <= kEquivalentRatio) {
      report_.skipped.push_back(fmt::format("{}: makes no difference to {}", mutant.name, output));
    } else {
      fatal("mutant:" + mutant.name,
            fmt::format("the tolerance of {} hides the mistake '{}'", output, mutant.name));
    }
  }

  void check_outputs() {
    for (std::size_t i = 0; i < spec_.outputs.size(); ++i) {
      check_finite(i);
      check_not_constant(i);
      check_bound_is_tight(i);
    }
  }

  /// What an index names that is not there; empty if nothing does.
  std::string stray_index(const Sample& sample) const {
    if (spec_.nodes.empty()) return "";
    const auto values = evaluate_graph(task_, sample.inputs, sample.numerics);
    if (!values.ok()) return "";
    for (std::size_t i = 0; i < spec_.nodes.size(); ++i) {
      const NodeDecl& node = spec_.nodes[i];
      const auto places = places_of(node, task_.site(i));
      if (!places) continue;
      const std::string& index = node.in[node.in.size() > 1 ? 1 : 0];
      const auto [least, most] = std::ranges::minmax(values->at(index).data);
      if (least >= 0 && most < static_cast<double>(*places)) continue;
      return fmt::format("'{}' names place {}, and {} makes '{}' of {} places, counted from 0", index,
                         least < 0 ? least : most, node.op_name, node.out, *places);
    }
    return "";
  }

  void check_finite(std::size_t output) {
    for (const Sample& sample : cases_) {
      const Value& value = sample.expected[output].value;
      std::int64_t values = 0;
      std::int64_t bounds = 0;
      for (std::size_t i = 0; i < value.data.size(); ++i) {
        if (!std::isfinite(value.data[i]))
          ++values;
        else if (!std::isfinite(value.error_at(i)))
          ++bounds;
      }
      const std::string& out = spec_.outputs[output].name;
      if (values > 0) {
        const std::string stray = stray_index(sample);
        const std::string remedy =
            stray.empty() ? fmt::format("{}, and fill masked places with a finite number", kKeepFromZero)
                          : stray + ": declare a limit that is the extent";
        const std::string text = fmt::format("{} values of {} are not finite on {} inputs: {}", values, out,
                                             name(sample.distribution), remedy);
        sample.distribution == Distribution::kNormal ? fatal("finite_output", text)
                                                     : warn("finite_output", text);
      }
      if (bounds > 0) {
        const std::string text = fmt::format("{} elements of {} have no finite error bound on {} inputs: {}",
                                             bounds, out, name(sample.distribution), kKeepFromZero);
        const bool rare = static_cast<double>(bounds) < kRareShare * static_cast<double>(value.data.size());
        rare&& sample.distribution != Distribution::kNormal ? warn("finite_bound", text)
                                                            : fatal("finite_bound", text);
      }
    }
  }

  void check_not_constant(std::size_t output) {
    std::vector<double> values;
    std::vector<double> tolerances;
    const auto pool = [&](const Sample& sample) {
      const Value& value = sample.expected[output].value;
      values.insert(values.end(), value.data.begin(), value.data.end());
      for (std::size_t i = 0; i < value.data.size(); ++i) tolerances.push_back(value.error_at(i));
    };
    pool(cases_.front());
    for (const Sample& sample : repeats_) pool(sample);
    if (values.size() < 3) return;
    const double middle = median(values), step = 2 * info(spec_.outputs[output].dtype).unit_roundoff;
    const double reach = std::min(kConstantReach, step > 0 ? kConstantWidth / step : kConstantReach);
    std::size_t near = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      near += std::fabs(values[i] - middle) <= reach * tolerances[i] ? 1 : 0;
    }
    const double share = static_cast<double>(near) / static_cast<double>(values.size());
    if (share < kConstantShare) return;
    fatal("constant_output", fmt::format("{:.1f}% of {} is {:g}, whatever the inputs", 100 * share,
                                         spec_.outputs[output].name, middle));
  }

  void check_bound_is_tight(std::size_t output) {
    const Expected& expected = cases_.front().expected[output];
    if (expected.compare != CompareKind::kBound || expected.value.data.empty()) return;
    double squares = 0;
    for (const double x : expected.value.data) squares += std::isfinite(x) ? x * x : 0;
    const auto count = static_cast<double>(expected.value.data.size());
    const double ratio = std::max(kLooseRatio, kLooseRoundoffs * info(expected.dtype).unit_roundoff);
    const double limit = ratio * std::sqrt(squares / count);
    const auto loose = std::ranges::count_if(expected.value.err, [&](double err) { return err > limit; });
    if (static_cast<double>(loose) <= kLooseShare * count) return;
    fatal("loose_bound", fmt::format("the error bound of {} exceeds {:g} of its RMS on {} of {} elements",
                                     expected.name, ratio, loose, expected.value.data.size()));
  }

  Status check_rounded_runs() {
    Rng rng(seed_.derive("rounded runs"));
    for (const Sample& sample : cases_) {
      LATHE_TRY(const auto values, rounded_run(task_, sample, rng));
      check_whole_numbers(values, sample.distribution);
      for (const Expected& expected : sample.expected) {
        if (expected.compare != CompareKind::kBound && expected.compare != CompareKind::kExact) continue;
        const Comparison result = judge(expected, values.at(expected.name).data);
        if (result.pass) continue;
        fatal("rounded_run",
              fmt::format(
                  "an honestly rounded kernel would fail on {} inputs: {}[{}] is {:.9g} for {:.9g} ({}){}",
                  name(sample.distribution), expected.name, result.first_bad, result.got, result.want,
                  result.reason, looks_up_by_order() ? kTiesDecide : std::string_view{}));
      }
    }
    return Ok{};
  }

  /// Whether a node reads what an argmax or an argsort gave.
  bool looks_up_by_order() const {
    const auto orders = [&](const std::string& value) {
      const NodeDecl* node = spec_.find_node(value);
      return node != nullptr && node->op_name.starts_with("arg");
    };
    return std::ranges::any_of(spec_.nodes,
                               [&](const NodeDecl& node) { return std::ranges::any_of(node.in, orders); });
  }

  /// Beyond its dtype's range a whole number is nothing that kernels agree on, and beyond 2^53 the
  /// reference does not hold it.
  void check_whole_numbers(const std::map<std::string, Value>& values, Distribution distribution) {
    for (const NodeDecl& node : spec_.nodes) {
      const DTypeInfo& type = info(node.type.dtype);
      if (type.is_float) continue;
      const double most = std::min(type.largest, kExactIntegers);
      double largest = 0, lowest = 0;
      for (const double x : values.at(node.out).data) {
        largest = std::max(largest, x);
        lowest = std::min(lowest, x);
      }
      const bool below = lowest < std::max(type.lowest, -most - 1);
      if ((largest <= most && !below) || !out_of_range_.insert(node.out).second) continue;
      fatal("whole_numbers",
            fmt::format("{} reaches {:g} on {} inputs, beyond {}: declare inputs with gen = {{ kind = "
                        "\"uniform\", low = ..., high = ... }} that keep it within{}",
                        node.out, below ? lowest : largest, name(distribution),
                        most < type.largest ? "2^53, up to which the reference is exact"
                                            : "what " + std::string(type.name) + " holds",
                        node.type.dtype == DType::kI32
                            ? ", or let wrapping_add and wrapping_mul drop what leaves it"
                        : type.is_unsigned() ? ", or cast to int32 before"
                                             : ""));
    }
  }

  /// Changing one input's data must change some output beyond its tolerance.
  Status check_inputs_matter() {
    for (std::size_t input = 0; input < spec_.tensors.size(); ++input) {
      bool matters = false;
      for (const Sample& sample : cases_) {
        if (!ordinary(sample.distribution)) continue;
        std::vector<HostTensor> changed = sample.inputs;
        changed[input] = changed_input(input, sample);
        LATHE_TRY(const std::vector<Expected> moved, reference_.evaluate(task_, changed, sample.numerics));
        for (std::size_t i = 0; i < moved.size(); ++i) {
          matters = matters || !judge(sample.expected[i], moved[i].value.data).pass;
        }
        if (matters) break;
      }
      if (matters) continue;
      const std::string& tensor = spec_.tensors[input].name;
      fatal("input_matters:" + tensor, fmt::format("no output depends on {} beyond its tolerance", tensor));
    }
    return Ok{};
  }

  HostTensor changed_input(std::size_t input, const Sample& sample) const {
    if (!spec_.tensors[input].value.has_value()) {
      return generate_inputs(task_, sample.distribution, seed_.derive("changed"))[input];
    }
    std::vector<double> values = sample.inputs[input].decode();
    for (double& x : values) x = 1.5 * x + 0.25;
    return HostTensor::encode(sample.inputs[input].dtype, sample.inputs[input].shape, values);
  }

  const BoundTask& task_;
  const TaskSpec& spec_;
  const Reference& reference_;
  const Seed& seed_;
  std::set<std::string> out_of_range_;  ///< nodes of whole numbers that are reported
  std::vector<Sample> cases_;           ///< one a distribution, kNormal first
  std::vector<Sample> repeats_;         ///< kNormal with other seeds
  LintReport report_;
};

/// Adds findings of the headline shape that the small shape did not have.
void merge(LintReport& report, const LintReport& headline) {
  std::set<std::string> known;
  for (const LintFinding& finding : report.findings) known.insert(finding.check);
  for (const LintFinding& finding : headline.findings) {
    if (!known.contains(finding.check)) report.findings.push_back(finding);
  }
}

}  // namespace

bool LintReport::sound() const {
  return std::ranges::none_of(findings, [](const LintFinding& finding) { return finding.fatal; });
}

Result<LintReport> lint(const TaskSpec& spec, const Seed& seed, const CancelToken& cancel) {
  LATHE_TRY(const std::unique_ptr<Reference> made, make_reference(spec));
  const std::unique_ptr<Reference> reference = make_cancellable(*made, cancel);
  const Dims& headline = spec.shapes.front().dims;
  const Dims small = lint_shape(spec);
  LATHE_TRY(const BoundTask task, lathe::bind(spec, small));
  Linter linter(task, *reference, seed);
  LATHE_CHECK_OK(linter.prepare());
  LATHE_TRY(LintReport report, linter.run());
  if (small == headline) return report;
  LATHE_TRY(const BoundTask large, lathe::bind(spec, headline));
  if (large.flops > kHeadlineFlops || large.value_elements() > kHeadlineElements) return report;
  Linter again(large, *reference, seed);
  LATHE_TRY(const LintReport at_headline, again.run_outputs_only());
  merge(report, at_headline);
  return report;
}

}  // namespace lathe

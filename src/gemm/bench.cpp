#include "gemm/bench.h"

#include <fmt/format.h>

#include <cmath>

#include "base/clock.h"
#include "base/processors.h"
#include "base/statistics.h"
#include "gemm/kernel_builder.h"
#include "gemm/tuner.h"

namespace lathe::gemm {
namespace {

/// The contenders of a size and where each one's time goes.
struct Field {
  std::vector<Contender> ids;
  std::vector<std::string> names;

  void add(Contender id, std::string name) { ids.push_back(id), names.push_back(std::move(name)); }
};

bool is_first_choice(const std::string& name) { return name.starts_with("lt_") && name.ends_with("_0"); }

void lower(double& to, double ns) { to = to == 0 ? ns : std::min(to, ns); }

ContenderTimes times_of(const Field& field, const std::vector<RoundTimes>& times,
                        const std::string& lt_choice) {
  ContenderTimes result;
  for (std::size_t i = 0; i < field.names.size(); ++i) {
    const std::string& name = field.names[i];
    const double ns = median(times[i]);
    if (name == "ours") result.ours = result.dispatched = ns;
    if (name.rfind("cublas", 0) == 0) lower(result.cublas, ns);
    if (is_first_choice(name)) lower(result.lt_heuristic, ns);
    if (name == lt_choice) result.lt_autotuned = ns;
  }
  return result;
}

bool is_lt(const std::string& name) { return name.starts_with("lt_"); }

/// The fastest of cuBLASLt's candidates among these, in a few short rounds.
Result<std::string> fastest_lt(Device& device, const Size& size,
                               const std::vector<VendorContender>& vendors) {
  std::vector<Contender> ids;
  std::vector<std::string> names;
  for (const VendorContender& one : vendors)
    if (is_lt(one.name)) ids.push_back(one.id), names.push_back(one.name);
  LATHE_TRY(const auto times, device.time(size, ids, {.rounds = 3, .block_us = 60}));
  std::string best;
  double least = 0;
  for (std::size_t i = 0; i < times.size(); ++i)
    if (const double ns = median(times[i]); best.empty() || ns < least) best = names[i], least = ns;
  return best;
}

/// The contenders of a size. `lt` is who counts as autotuned: of the journal's choice another where
/// only our layout's are asked for.
Result<Field> field_of(Device& device, const Track& track, Contender ours, const Choice& choice,
                       const BenchOptions& options, std::string& lt) {
  Field field;
  field.add(ours, "ours");
  LATHE_TRY(auto vendors, device.add_vendors(choice.size, track));
  lt = choice.lt;
  if (options.same_layout) {
    const std::string layout = std::string("_") + name_of(track.layout);
    std::erase_if(vendors,
                  [&](const VendorContender& one) { return one.name.find(layout) == one.name.npos; });
    if (lt.find(layout) == lt.npos) {
      LATHE_TRY(lt, fastest_lt(device, choice.size, vendors));
    }
  }
  for (const VendorContender& one : vendors)
    if (one.name == lt ||
        (options.all_vendors && (is_first_choice(one.name) || one.name.rfind("cublas", 0) == 0)))
      field.add(one.id, one.name);
  return field;
}

class Bench {
 public:
  Bench(Device& device, const Compile& compile, const Journal& journal, const BenchOptions& options)
      : device_(device),
        track_(journal.track()),
        options_(options),
        builder_(compile, static_cast<int>(usable_processors().size())) {
    std::vector<Plan> plans;
    for (const Size& size : options.sizes)
      if (const Choice* const choice = journal.choice(size))
        if (Plan plan; plan_of(choice->kernel, plan)) plans.push_back(plan);
    builder_.want(plans, KernelBuilder::Urgency::kLater);
  }

  Result<Row> run(const Choice& choice) {
    LATHE_TRY(const Contender ours, load(choice.kernel));
    Row row{.size = choice.size, .kernel = choice.kernel};
    LATHE_TRY(const Field field, field_of(device_, track_, ours, choice, options_, row.lt_choice));
    LATHE_TRY(const auto warm, device_.time(choice.size, field.ids, {.rounds = options_.rounds}));
    row.warm = times_of(field, warm, row.lt_choice);
    set_interval(row, field, warm);
    LATHE_TRY(row.sm_mhz, device_.clock_mhz());
    if (options_.cold) {
      LATHE_TRY(const auto cold,
                device_.time(choice.size, field.ids, {.cold = true, .rounds = (options_.rounds + 1) / 2}));
      row.cold = times_of(field, cold, row.lt_choice);
    }
    if (options_.wall_calls > 0) LATHE_CHECK_OK(time_calls(row, field));
    if (options_.power_seconds > 0) LATHE_CHECK_OK(read_power(row, field));
    device_.drop_vendors();
    if (options_.verify_repeats > 0)
      LATHE_CHECK_OK(device_.verify(choice.size, ours, options_.verify_repeats));
    return row;
  }

 private:
  Result<Contender> load(const std::string& name) {
    if (const auto found = loaded_.find(name); found != loaded_.end()) return found->second;
    Plan plan;
    if (!plan_of(name, plan)) return invalid("'" + name + "' is no kernel of this version", "tune again");
    if (plan.layout != track_.layout || (plan.half_sums && !track_.half_sums))
      return invalid("'" + name + "' is no kernel for " + name_of(track_), "tune again");
    LATHE_TRY(const Build build, builder_.take(plan));
    if (const Status usable = check_code(build, plan); !usable.ok())
      return invalid(name + ": " + usable.error().message);
    LATHE_TRY(const Contender id, device_.add_kernel(plan, build.cubin));
    return loaded_[name] = id;
  }

  Status time_calls(Row& row, const Field& field) {
    for (const bool server : {false, true}) {
      LATHE_TRY(const auto calls,
                device_.time_calls(row.size, field.ids,
                                   {.calls = options_.wall_calls, .gap_us = server ? options_.gap_us : 0}));
      std::vector<RoundTimes> times;
      for (const CallTimes& one : calls) times.push_back(one.ns);
      (server ? row.server : row.offline) = times_of(field, times, row.lt_choice);
      if (server) break;
      row.host_ours = median(calls[0].host_ns);
      for (std::size_t i = 1; i < calls.size(); ++i)
        if (field.names[i] == row.lt_choice) row.host_lt_autotuned = median(calls[i].host_ns);
    }
    return Ok{};
  }

  Status read_power(Row& row, const Field& field) {
    for (std::size_t i = 0; i < field.names.size(); ++i) {
      if (i > 0 && field.names[i] != row.lt_choice) continue;
      LATHE_TRY(const Draw draw, device_.draw(row.size, field.ids[i], options_.power_seconds));
      (i == 0 ? row.ours_w : row.lt_w) = draw.watts;
      if (row.throttle.empty()) row.throttle = draw.throttle;
    }
    return Ok{};
  }

  static void set_interval(Row& row, const Field& field, const std::vector<RoundTimes>& times) {
    for (std::size_t i = 1; i < field.names.size(); ++i) {
      if (field.names[i] != row.lt_choice) continue;
      std::vector<double> ratios;
      for (std::size_t round = 0; round < times[i].size(); ++round)
        ratios.push_back(std::log(times[i][round] / times[0][round]));
      const Interval interval = signed_rank_interval(ratios, 0.05);
      row.ratio_low = std::isfinite(interval.low) ? std::exp(interval.low) : 0;
      row.ratio_high = std::isfinite(interval.high) ? std::exp(interval.high) : 0;
    }
  }

  Device& device_;
  const Track track_;
  const BenchOptions& options_;
  KernelBuilder builder_;  ///< builds what comes while others are timed
  std::map<std::string, Contender> loaded_;
};

}  // namespace

double ContenderTimes::vendor_best() const {
  double best = 0;
  for (const double ns : {cublas, lt_heuristic, lt_autotuned, torch})
    if (ns > 0) lower(best, ns);
  return best;
}

Result<BenchReport> bench(Device& device, const Compile& compile, const Journal& journal,
                          const BenchOptions& options, EventSink& events, const CancelToken& cancel) {
  const auto begin_ns = steady_clock().now_ns();
  BenchReport report;
  Bench one(device, compile, journal, options);
  for (const Size& size : options.sizes) {
    if (cancel.cancelled()) break;
    const Choice* const choice = journal.choice(size);
    if (!choice) {
      ++report.unknown;
      continue;
    }
    LATHE_TRY(Row row, one.run(*choice));
    events.on_event(
        {Severity::kInfo, "gemm",
         fmt::format("{} ours {:.2f} us, autotuned {:.2f}, vendor's best {:.2f}: {:.3f}x [{:.3f}, {:.3f}]",
                     name_of(size), row.warm.ours / 1e3, row.warm.lt_autotuned / 1e3,
                     row.warm.vendor_best() / 1e3, row.warm.lt_autotuned / row.warm.ours, row.ratio_low,
                     row.ratio_high)});
    report.rows.push_back(std::move(row));
  }
  report.seconds = seconds_since(begin_ns);
  return report;
}

}  // namespace lathe::gemm

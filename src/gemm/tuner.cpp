#include "gemm/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iterator>
#include <optional>

#include "base/clock.h"
#include "base/processors.h"
#include "base/statistics.h"
#include "gemm/catalogue.h"
#include "gemm/kernel_source.h"
#include "gemm/sizes.h"

namespace lathe::gemm {
namespace {

// Fewer calls than a report's where they are long: a product of 16384 cubed takes 12 ms.
constexpr TimeOptions kFirstRun{.cold = false, .rounds = 1, .block_us = 60, .least_calls = 1};
constexpr TimeOptions kScreening{.cold = false, .rounds = 3, .block_us = 60, .least_calls = 2};
constexpr TimeOptions kFinals{.cold = false, .rounds = 9, .block_us = 150, .least_calls = 4};

constexpr const char* kAllWrong = "wrong_result";

/// Sizes whose proposals are built before their turn comes.
constexpr std::size_t kSizesAhead = 12;

/// By the index's bits, the lowest first: each beginning is spread over all.
std::vector<Size> spread_out(const std::vector<Size>& sizes) {
  const int bits = static_cast<int>(std::bit_width(sizes.size()));
  std::vector<std::pair<std::size_t, Size>> keyed;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::size_t reversed = 0;
    for (int bit = 0; bit < bits; ++bit) reversed = reversed << 1 | (i >> bit & 1);
    keyed.emplace_back(reversed, sizes[i]);
  }
  std::ranges::sort(keyed);
  std::vector<Size> ordered;
  for (const auto& [key, size] : keyed) ordered.push_back(size);
  return ordered;
}

template <class Named>
std::vector<Contender> ids_of(const std::vector<Named>& all) {
  std::vector<Contender> ids;
  for (const Named& one : all) ids.push_back(one.id);
  return ids;
}

/// Doublings of the extents that lie between them.
double dissimilarity(const Size& a, const Size& b) {
  const auto doublings = [](std::int64_t x, std::int64_t y) {
    return std::abs(std::log2(static_cast<double>(x) / static_cast<double>(y)));
  };
  return doublings(a.m, b.m) + doublings(a.n, b.n) + doublings(a.k, b.k);
}

double fact(const Build& build, const char* name) {
  const auto found = build.facts.find(name);
  return found == build.facts.end() ? 0 : found->second;
}

}  // namespace

Status check_code(const Build& build, const Plan& plan) {
  const auto refuse = [](const char* why, const char* reason = "wrong_code") {
    return Error{.code = ErrorCode::kInvalid, .message = why, .reason = reason};
  };
  if (fact(build, "spill_bytes") > 0 || fact(build, "stack_bytes") > 0)
    return refuse("registers are spilled");
  if (fact(build, "wgmma_serialised") > 0) return refuse("the products of wgmma wait for one another");
  if (fact(build, "setmaxnreg_ignored") > 0) return refuse("setmaxnreg has no effect");
  if (!build.facts.contains("instructions")) return Ok{};
  if (plan.half_sums) {
    if (fact(build, "hgmma_f16") > 0) return Ok{};
    return refuse("there are no tensor-core products with fp16 sums");
  }
  if (fact(build, "hmma_f16") + fact(build, "hgmma_f16") > 0)
    return refuse("the tensor cores sum in fp16", "tampered");
  const char* const products = plan.skeleton == Skeleton::kWgmma ? "hgmma_f32" : "hmma_f32";
  if (fact(build, products) > 0) return Ok{};
  return refuse("there are no tensor-core products with fp32 sums");
}

int distance(const Plan& a, const Plan& b) {
  if (a.skeleton != b.skeleton || a.layout != b.layout) return 100;
  return (a.rows != b.rows) + (a.columns != b.columns) + (a.depth != b.depth) + (a.stages != b.stages) +
         (a.down != b.down || a.across != b.across) + (a.slices != b.slices) + (a.split != b.split) +
         (a.share_a != b.share_a) + (a.share_b != b.share_b) + (a.band != b.band) +
         (a.persistent != b.persistent) + (a.plain_store != b.plain_store) + (a.blocks != b.blocks) +
         (a.in_turn != b.in_turn) + (a.transposed != b.transposed) + (a.half_sums != b.half_sums) +
         (a.gathers != b.gathers) + 2 * (a.edges != b.edges);
}

Tuner::Tuner(Device& device, Compile compile, Journal& journal, EventSink& events)
    : device_(device),
      compile_(std::move(compile)),
      journal_(journal),
      events_(events),
      builder_(compile_, static_cast<int>(usable_processors().size())) {}

void Tuner::build_ahead(const std::vector<Plan>& plans, KernelBuilder::Urgency urgency) {
  std::vector<Plan> unknown;
  for (const Plan& plan : plans)
    if (const std::string name = name_of(plan); !loaded_.contains(name) && !journal_.is_bad(name))
      unknown.push_back(plan);
  builder_.want(unknown, urgency);
}

Status Tuner::load(const std::vector<Plan>& plans) {
  build_ahead(plans, KernelBuilder::Urgency::kNow);
  for (const Plan& plan : plans) {
    const std::string name = name_of(plan);
    if (loaded_.contains(name) || journal_.is_bad(name)) continue;
    LATHE_TRY(const Build built, wait_for(plan));
    ++report_.kernels_built;
    Status usable = check_code(built, plan);
    if (usable.ok()) {
      const auto loaded = device_.add_kernel(plan, built.cubin);
      if (loaded.ok())
        loaded_[name] = *loaded;
      else
        usable =
            Error{.code = ErrorCode::kInvalid, .message = loaded.error().message, .reason = "wrong_code"};
    }
    if (usable.ok()) continue;
    ++report_.kernels_refused;
    LATHE_CHECK_OK(journal_.add_bad(name, usable.error().reason + ": " + usable.error().message));
  }
  return Ok{};
}

Result<Build> Tuner::wait_for(const Plan& plan) {
  const Stopwatch watch(report_.waited_seconds);
  return builder_.take(plan);
}

Result<std::vector<Tuner::Entrant>> Tuner::screen(const Size& size, const std::vector<Plan>& plans) {
  LATHE_CHECK_OK(load(plans));
  std::vector<Entrant> entrants;
  for (const Plan& plan : plans) {
    const std::string name = name_of(plan);
    const auto found = loaded_.find(name);
    if (found == loaded_.end()) continue;
    // A first run by itself: a kernel that does not start is no reason to stop.
    LATHE_CHECK_OK(journal_.starting(name));
    const auto first = device_.time(size, std::array{found->second}, kFirstRun);
    LATHE_CHECK_OK(journal_.ended());
    if (first.ok()) {
      entrants.push_back({plan, name, found->second, (*first)[0][0]});
      continue;
    }
    LATHE_CHECK_OK(journal_.add_bad(name, first.error().message));
    // After a fault the context is lost, and every other kernel with it.
    if (!device_.clock_mhz().ok())
      return Error{ErrorCode::kUnavailable, fmt::format("{}: {}", name, first.error().message),
                   "run the command again: it goes on without this kernel"};
  }
  if (entrants.empty()) return entrants;
  // Those that are far off already need no rounds.
  std::stable_sort(entrants.begin(), entrants.end(),
                   [](const auto& a, const auto& b) { return a.ns < b.ns; });
  std::size_t close = 1;
  while (close < entrants.size() && entrants[close].ns < 1.5 * entrants[0].ns) ++close;
  for (std::size_t i = close; i < entrants.size(); ++i)
    LATHE_CHECK_OK(journal_.add(Trial{size, entrants[i].name, entrants[i].ns}));
  entrants.resize(close);
  LATHE_TRY(const auto times, device_.time(size, ids_of(entrants), kScreening));
  for (std::size_t i = 0; i < entrants.size(); ++i) {
    entrants[i].ns = median(times[i]);
    LATHE_CHECK_OK(journal_.add(Trial{size, entrants[i].name, entrants[i].ns}));
  }
  std::stable_sort(entrants.begin(), entrants.end(),
                   [](const auto& a, const auto& b) { return a.ns < b.ns; });
  return entrants;
}

std::vector<Plan> Tuner::proposals(const Size& size, const TuneOptions& options) const {
  std::vector<Plan> plans =
      shortlist(problem_of(options.track, size), device_.facts().sm_count, options.screened);
  for (const Plan& plan : winners_near(size, options))
    if (std::find(plans.begin(), plans.end(), plan) == plans.end()) plans.push_back(plan);
  return plans;
}

std::vector<Plan> Tuner::winners_near(const Size& size, const TuneOptions& options) const {
  std::vector<std::pair<double, const Choice*>> near;
  for (const std::vector<Choice>* choices : {&journal_.choices(), &options.learned})
    for (const Choice& choice : *choices) near.emplace_back(dissimilarity(size, choice.size), &choice);
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const std::vector<Plan> serving = ranked_plans(problem_of(options.track, size), device_.facts().sm_count);
  std::vector<Plan> winners;
  for (const auto& [distance, choice] : near) {
    if (winners.size() == options.winners) break;
    Plan plan;
    if (!plan_of(choice->kernel, plan)) continue;
    plan.layout = options.track.layout, plan.half_sums = options.track.half_sums;
    if (std::find(serving.begin(), serving.end(), plan) != serving.end() &&
        std::find(winners.begin(), winners.end(), plan) == winners.end())
      winners.push_back(plan);
  }
  return winners;
}

Result<Tuner::Screened> Tuner::screen_proposals(const Size& size, const TuneOptions& options) {
  const auto begin_ns = steady_clock().now_ns();
  const Problem problem = problem_of(options.track, size);
  std::vector<Plan> first = proposals(size, options);
  for (const Plan& plan : general_plans(problem.layout)) first.push_back(plan);
  Screened screened{.size = size};
  LATHE_TRY(screened.entrants, screen(size, first));
  const std::vector<Entrant>& entrants = screened.entrants;
  if (entrants.empty()) return Error{ErrorCode::kNotFound, "no kernel runs at " + name_of(size)};
  screened.tried = static_cast<int>(entrants.size());

  std::vector<Plan>& near = screened.near;
  near = ranked_plans(problem, device_.facts().sm_count);
  std::erase_if(near,
                [&](const Plan& plan) { return std::find(first.begin(), first.end(), plan) != first.end(); });
  const std::size_t best = std::min<std::size_t>(3, entrants.size());
  const auto nearness = [&](const Plan& plan) {
    int least = 1000;
    for (std::size_t i = 0; i < best; ++i)
      least = std::min(least, distance(plan, entrants[i].plan) * 3 + static_cast<int>(i));
    return least;
  };
  std::stable_sort(near.begin(), near.end(),
                   [&](const Plan& a, const Plan& b) { return nearness(a) < nearness(b); });
  near.resize(std::min(near.size(), options.neighbours));
  build_ahead(near, KernelBuilder::Urgency::kNow);
  for (std::size_t i = 0; i < best; ++i) near.push_back(entrants[i].plan);
  screened.seconds = seconds_since(begin_ns);
  return screened;
}

Result<Choice> Tuner::choose(Screened screened, const TuneOptions& options) {
  const Size size = screened.size;
  Result<Choice> choice = choose_once(std::move(screened), options);
  for (int again = 0; again < 3 && !choice.ok() && choice.error().reason == kAllWrong; ++again) {
    LATHE_TRY(Screened anew, screen_proposals(size, options));
    choice = choose_once(std::move(anew), options);
  }
  return choice;
}

Result<Choice> Tuner::choose_once(Screened screened, const TuneOptions& options) {
  const auto begin_ns = steady_clock().now_ns();
  const Size size = screened.size;
  LATHE_TRY(std::vector<Entrant> entrants, screen(size, screened.near));
  const int tried = screened.tried + static_cast<int>(entrants.size());
  entrants.resize(std::min(entrants.size(), options.finals));
  for (Entrant& one : entrants) one.inspected = inspect(one);

  std::vector<Contender> ids = ids_of(entrants);
  std::vector<VendorContender> vendors;
  if (options.vendors) {
    LATHE_TRY(vendors, screen_vendors(size, options));
    std::ranges::copy(ids_of(vendors), std::back_inserter(ids));
  }
  LATHE_TRY(const auto times, device_.time(size, ids, kFinals));
  if (options.vendors) device_.drop_vendors();
  for (std::size_t i = 0; i < entrants.size(); ++i) entrants[i].ns = median(times[i]);
  std::stable_sort(entrants.begin(), entrants.end(),
                   [](const auto& a, const auto& b) { return a.ns < b.ns; });

  Choice choice{.size = size, .tried = tried};
  for (std::size_t i = 0; i < vendors.size(); ++i)
    if (const double ns = median(times[entrants.size() + i]); choice.lt.empty() || ns < choice.lt_ns)
      choice.lt = vendors[i].name, choice.lt_ns = ns;
  for (Entrant& one : entrants) {
    const Status verified = verify(size, one, options.repeats);
    if (verified.ok()) {
      choice.kernel = one.name, choice.kernel_ns = one.ns;
      choice.seconds = screened.seconds + seconds_since(begin_ns);
      return choice;
    }
    if (verified.error().reason.empty()) return verified.error();
    LATHE_CHECK_OK(journal_.add_bad(one.name, verified.error().message));
    loaded_.erase(one.name);
    events_.on_event({Severity::kWarning, "gemm", verified.error().message});
  }
  return Error{ErrorCode::kNotFound, "no kernel passed the checks at " + name_of(size), {}, {}, kAllWrong};
}

Result<std::vector<VendorContender>> Tuner::screen_vendors(const Size& size, const TuneOptions& options) {
  LATHE_TRY(std::vector<VendorContender> vendors, device_.add_vendors(size, options.track));
  std::erase_if(vendors, [](const VendorContender& one) { return one.name.rfind("lt_", 0) != 0; });
  LATHE_TRY(const auto times, device_.time(size, ids_of(vendors), kScreening));
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t i = 0; i < times.size(); ++i) order.emplace_back(median(times[i]), i);
  std::ranges::sort(order);
  order.resize(std::min(order.size(), options.finals));
  std::vector<VendorContender> best;
  for (const auto& [ns, i] : order) best.push_back(vendors[i]);
  return best;
}

std::future<Result<Build>> Tuner::inspect(const Entrant& one) const {
  return std::async(std::launch::async, [compile = compile_, source = kernel_source(one.plan)] {
    return compile(source, Inspect::kYes);
  });
}

Status Tuner::verify(const Size& size, Entrant& one, int repeats) {
  const Stopwatch watch(report_.verified_seconds);
  LATHE_TRY(const Build inspected, one.inspected.get());
  if (const Status usable = check_code(inspected, one.plan); !usable.ok()) {
    const Error& error = usable.error();
    return refused(error.reason, error.reason + ": " + one.name + ": " + error.message);
  }
  return device_.verify(size, one.id, repeats);
}

Status Tuner::keep(const Result<Choice>& choice) {
  if (!choice.ok()) {
    if (choice.error().reason.empty() && choice.error().code != ErrorCode::kNotFound) return choice.error();
    events_.on_event({Severity::kWarning, "gemm", choice.error().message});
    return Ok{};
  }
  LATHE_CHECK_OK(journal_.add(*choice));
  ++report_.tuned;
  events_.on_event({Severity::kInfo, "gemm",
                    fmt::format("{} {:.2f} us, cuBLASLt {:.2f} us ({}): {}", name_of(choice->size),
                                choice->kernel_ns / 1e3, choice->lt_ns / 1e3, choice->lt, choice->kernel)});
  return Ok{};
}

Result<TuneReport> Tuner::run(const TuneOptions& options, const CancelToken& cancel) {
  const auto begin_ns = steady_clock().now_ns();
  report_ = {};
  LATHE_CHECK_OK(journal_.begin(device_.facts(), options.track));
  std::vector<Size> sizes;
  for (const Size& size : spread_out(options.sizes))
    if (journal_.choice(size))
      ++report_.known;
    else
      sizes.push_back(size);
  const auto goes_on = [&] {
    return !cancel.cancelled() && (options.seconds <= 0 || seconds_since(begin_ns) <= options.seconds);
  };
  std::size_t ahead = 0;
  std::optional<Screened> open;
  // While what lies near a size's best is built, the next size is screened.
  for (std::size_t i = 0; i < sizes.size() && goes_on(); ++i) {
    for (; ahead < std::min(sizes.size(), i + kSizesAhead); ++ahead)
      build_ahead(proposals(sizes[ahead], options), KernelBuilder::Urgency::kLater);
    auto next = screen_proposals(sizes[i], options);
    if (open) LATHE_CHECK_OK(keep(choose(*std::move(open), options)));
    open.reset();
    if (next.ok())
      open = *std::move(next);
    else
      LATHE_CHECK_OK(keep(std::move(next).error()));
  }
  if (open) LATHE_CHECK_OK(keep(choose(*std::move(open), options)));
  report_.seconds = seconds_since(begin_ns);
  return report_;
}

}  // namespace lathe::gemm

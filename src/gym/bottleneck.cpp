#include "gym/bottleneck.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace lathe {
namespace {

constexpr double kNearRoof = 0.6;      // of a unit's peak: hardly a kernel reaches more than 0.9
constexpr double kIdleBetween = 0.35;  // of the time, even the busiest multiprocessor has nothing to do
constexpr double kUneven = 0.15;       // of the busiest's time, the average multiprocessor is idle
constexpr double kFewWarps = 0.4;      // of those that a multiprocessor can hold
constexpr double kGivesItself = 0.9;   // achieved over theoretical occupancy

/// A unit with a peak: its bottleneck, the counters that say how near it is (the first that is
/// known), what it is for people.
struct Roof {
  const char* name;
  std::array<const char*, 2> counters;
  const char* unit;
};
constexpr std::array<Roof, 8> kRoofs{{
    {"dram_bound", {"dram_of_measured_peak", "dram_share"}, "DRAM's bandwidth"},
    {"l2_bound", {"l2_share", nullptr}, "the L2's bandwidth"},
    {"l1_bound", {"l1_share", nullptr}, "the bandwidth of L1 and shared memory"},
    {"tensor_bound", {"tensor_share", nullptr}, "the tensor cores' rate"},
    {"fma_bound", {"fma_share", nullptr}, "the multiply-add units' rate"},
    {"fp64_bound", {"fp64_share", nullptr}, "the double precision units' rate"},
    {"special_bound", {"special_share", nullptr}, "the rate of special functions and conversions"},
    {"issue_bound", {"issue_share", nullptr}, "the rate at which instructions are issued"},
}};

struct Stall {
  std::string_view name;
  const char* meaning;
};
constexpr std::array<Stall, 14> kStalls{{
    {"long_scoreboard", "wait for data from L1, L2 or DRAM"},
    {"short_scoreboard", "wait for shared memory or special functions"},
    {"barrier", "wait for other warps of their block"},
    {"membar", "wait for a memory fence"},
    {"wait", "wait for a fixed latency: a chain of dependent instructions"},
    {"math_pipe_throttle", "wait for an arithmetic unit"},
    {"mio_throttle", "wait for the queue to shared memory and special functions"},
    {"lg_throttle", "wait for the queue to global memory"},
    {"tex_throttle", "wait for the queue to texture memory"},
    {"gmma", "wait for warpgroup products"},
    {"no_instruction", "wait for instructions to be fetched"},
    {"branch_resolving", "wait for branches"},
    {"drain", "wait for their last writes"},
    {"sleeping", "sleep"},
}};

class Diagnosis {
 public:
  explicit Diagnosis(const std::map<std::string, double>& counters) : counters_(counters) {}

  std::vector<Bottleneck> run() {
    add_roofs();
    const bool near_a_roof = !found_.empty();
    add_launches();
    add_tail();
    if (!near_a_roof) add_latency();
    if (!near_a_roof) add_occupancy();
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Bottleneck& a, const Bottleneck& b) { return a.share > b.share; });
    return std::move(found_);
  }

 private:
  std::optional<double> value(const char* name) const {
    const auto found = name ? counters_.find(name) : counters_.end();
    return found == counters_.end() ? std::nullopt : std::optional(found->second);
  }

  std::optional<double> reached(const Roof& roof) const {
    for (const char* counter : roof.counters)
      if (const auto share = value(counter)) return share;
    return std::nullopt;
  }

  void add_roofs() {
    for (const Roof& roof : kRoofs) {
      const auto share = reached(roof);
      if (share && *share >= kNearRoof)
        found_.push_back({roof.name, *share, fmt::format("{:.0f}% of {}", 100 * *share, roof.unit)});
    }
  }

  void add_launches() {
    const auto busiest = value("busiest_sm");
    if (!busiest || 1 - *busiest < kIdleBetween) return;
    found_.push_back({"launch_bound", 1 - *busiest,
                      fmt::format("for {:.0f}% of a call's {:.3g} us no multiprocessor works: launches cost "
                                  "more than the work; do more in one",
                                  100 * (1 - *busiest), value("call_ns").value_or(0) * 1e-3)});
  }

  void add_tail() {
    const auto balance = value("sm_balance");
    if (!balance || 1 - *balance < kUneven) return;
    std::string why;
    if (const auto waves = value("waves"), blocks = value("blocks"); waves && blocks)
      why = fmt::format("; {:.0f} blocks are {:.2f} waves", *blocks, *waves);
    found_.push_back({"tail_effect", 1 - *balance,
                      fmt::format("the average multiprocessor is idle for {:.0f}% of the busiest's time{}",
                                  100 * (1 - *balance), why)});
  }

  void add_latency() {
    const Stall* worst = nullptr;
    double worst_share = 0;
    for (const Stall& stall : kStalls) {
      const auto share = value(("stall." + std::string(stall.name)).c_str());
      if (share && *share > worst_share) worst = &stall, worst_share = *share;
    }
    if (!worst) return;
    const Roof* nearest = nullptr;
    double nearest_share = 0;
    for (const Roof& roof : kRoofs)
      if (const auto share = reached(roof); share && *share > nearest_share)
        nearest = &roof, nearest_share = *share;
    const std::string far =
        nearest ? fmt::format("; the nearest roof is {:.0f}% of {}", 100 * nearest_share, nearest->unit) : "";
    found_.push_back({"latency_bound", worst_share,
                      fmt::format("for {:.0f}% of their time warps {} ({}){}", 100 * worst_share,
                                  worst->meaning, worst->name, far)});
  }

  void add_occupancy() {
    const auto occupancy = value("occupancy");
    if (!occupancy || *occupancy >= kFewWarps) return;
    found_.push_back({"low_occupancy", 1 - *occupancy,
                      fmt::format("{:.0f}% of the warps that fit are there: {}", 100 * *occupancy,
                                  why_few_warps(*occupancy))});
  }

  /// What a multiprocessor runs out of first.
  std::string why_few_warps(double occupancy) const {
    const auto blocks = value("blocks_per_sm"), theoretical = value("theoretical_occupancy"),
               waves = value("waves");
    if (!blocks || !theoretical) return "the reason is not known";
    if (waves && *waves < 1 && occupancy < kGivesItself * *theoretical)
      return fmt::format("the grid has only {:.0f} blocks", value("blocks").value_or(0));
    if (occupancy < kGivesItself * *theoretical && *theoretical >= kFewWarps)
      return fmt::format("{:.0f}% would fit, so blocks end unevenly or begin late", 100 * *theoretical);
    struct Limit {
      const char* counter;
      const char* resource;
    };
    const Limit limits[] = {{"limit_registers", "registers"},
                            {"limit_shared", "shared memory"},
                            {"limit_threads", "threads"},
                            {"limit_blocks", "blocks"}};
    const Limit* tightest = nullptr;
    for (const Limit& limit : limits)
      if (const auto most = value(limit.counter); most && (!tightest || *most < *value(tightest->counter)))
        tightest = &limit;
    return fmt::format("a multiprocessor holds {:.0f} block{} of {:.0f} threads, limited by {}", *blocks,
                       *blocks == 1 ? "" : "s", value("threads").value_or(0),
                       tightest ? tightest->resource : "something else");
  }

  const std::map<std::string, double>& counters_;
  std::vector<Bottleneck> found_;
};

}  // namespace

std::vector<Bottleneck> find_bottlenecks(const std::map<std::string, double>& counters) {
  return Diagnosis(counters).run();
}

}  // namespace lathe

#include "backend/cuda/runner/counters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

namespace lathe::cuda {
namespace {

constexpr double kSectorBytes = 32;
constexpr double kWarp = 32, kRegisterUnit = 256, kPartitions = 4;

constexpr const char* kTime = "gpu__time_duration.sum";
constexpr const char* kCycles = "sm__cycles_elapsed.max";
constexpr const char* kActive = "sm__cycles_active.avg";
constexpr const char* kBusiest = "sm__cycles_active.max";

/// Percent of a unit's peak over the time that was counted.
constexpr std::array<std::pair<const char*, const char*>, 10> kShares{{
    {"dram_share", "dram__bytes.sum.pct_of_peak_sustained_elapsed"},
    {"l2_share", "lts__t_sectors.sum.pct_of_peak_sustained_elapsed"},
    {"l1_share", "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"},
    {"tensor_share", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"},
    {"fma_share", "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_elapsed"},
    {"alu_share", "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_elapsed"},
    {"fp64_share", "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_elapsed"},
    {"special_share", "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_elapsed"},
    {"load_store_share", "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_elapsed"},
    {"issue_share", "smsp__issue_active.avg.pct_of_peak_sustained_elapsed"},
}};

/// Sums over the block, in the unit of the second factor.
struct Total {
  const char* name;
  const char* metric;
  double unit;
};
constexpr std::array<Total, 4> kTotals{{{"dram_read_bytes", "dram__bytes_read.sum", 1},
                                        {"dram_write_bytes", "dram__bytes_write.sum", 1},
                                        {"l2_bytes", "lts__t_sectors.sum", kSectorBytes},
                                        {"instructions", "sm__inst_executed.sum", 1}}};

constexpr std::array<std::array<const char*, 3>, 2> kHitRates{
    {{"l2_hit_rate", "lts__t_sectors_lookup_hit.sum", "lts__t_sectors_lookup_miss.sum"},
     {"l1_hit_rate", "l1tex__t_sectors_lookup_hit.sum", "l1tex__t_sectors_lookup_miss.sum"}}};

constexpr const char* kOccupancy = "sm__warps_active.avg.pct_of_peak_sustained_active";

constexpr std::array kStalls = {"barrier",
                                "branch_resolving",
                                "dispatch_stall",
                                "drain",
                                "gmma",
                                "imc_miss",
                                "lg_throttle",
                                "long_scoreboard",
                                "math_pipe_throttle",
                                "membar",
                                "mio_throttle",
                                "misc",
                                "no_instruction",
                                "not_selected",
                                "selected",
                                "short_scoreboard",
                                "sleeping",
                                "tex_throttle",
                                "wait"};

std::string stall_metric(const char* stall) {
  return std::string("smsp__warps_issue_stalled_") + stall + ".sum";
}

using Values = std::map<std::string, double>;

/// 0 where it is missing.
double value_of(const Values& values, const char* name) {
  const auto found = values.find(name);
  return found == values.end() ? 0 : found->second;
}

void add_shares(const Values& metrics, double stretch, Values& counters) {
  for (const auto& [name, metric] : kShares)
    if (metrics.contains(metric)) counters[name] = metrics.at(metric) / 100 * stretch;
  const double cycles = value_of(metrics, kCycles), busiest = value_of(metrics, kBusiest);
  if (cycles <= 0 || busiest <= 0) return;
  counters["sm_busy"] = std::min(1.0, value_of(metrics, kActive) / cycles * stretch);
  counters["busiest_sm"] = std::min(1.0, busiest / cycles * stretch);
  counters["sm_balance"] = value_of(metrics, kActive) / busiest;
  counters["counted_clock_mhz"] = 1e3 * cycles / value_of(metrics, kTime);
}

/// Shares of the time that warps were resident.
void add_stalls(const Values& metrics, Values& counters) {
  double total = 0;
  for (const char* stall : kStalls) total += value_of(metrics, stall_metric(stall).c_str());
  if (total <= 0) return;
  for (const char* stall : kStalls)
    if (const double time = value_of(metrics, stall_metric(stall).c_str()); time > 0)
      counters[std::string("stall.") + stall] = time / total;
}

}  // namespace

std::vector<std::string> hardware_metrics() {
  std::vector<std::string> metrics = {kTime, kCycles, kActive, kBusiest, kOccupancy};
  for (const auto& share : kShares) metrics.emplace_back(share.second);
  for (const Total& total : kTotals) metrics.emplace_back(total.metric);
  for (const auto& rate : kHitRates) metrics.insert(metrics.end(), {rate[1], rate[2]});
  for (const char* stall : kStalls) metrics.push_back(stall_metric(stall));
  std::sort(metrics.begin(), metrics.end());
  metrics.erase(std::unique(metrics.begin(), metrics.end()), metrics.end());
  return metrics;
}

Values name_counters(const Values& metrics, const CountedBlock& block) {
  Values counters;
  counters["calls"] = block.calls;
  counters["call_ns"] = block.device_ns / block.calls;
  for (const Total& total : kTotals)
    if (metrics.contains(total.metric))
      counters[total.name] = metrics.at(total.metric) * total.unit / block.calls;
  for (const auto& [name, hit, miss] : kHitRates)
    if (const double all = value_of(metrics, hit) + value_of(metrics, miss); all > 0)
      counters[name] = value_of(metrics, hit) / all;
  if (metrics.contains(kOccupancy)) counters["occupancy"] = metrics.at(kOccupancy) / 100;
  add_stalls(metrics, counters);
  const double counted_ns = value_of(metrics, kTime);
  if (counted_ns > 0 && block.device_ns > 0) add_shares(metrics, counted_ns / block.device_ns, counters);
  return counters;
}

Values kernel_facts(const KernelUse& use, const SmLimits& limits) {
  const double warps = std::ceil(use.threads / kWarp);
  Values facts = {{"blocks", use.blocks},
                  {"threads", use.threads},
                  {"registers", use.registers},
                  {"shared_bytes", use.shared_bytes},
                  {"local_bytes", use.local_bytes}};
  facts["limit_blocks"] = limits.blocks;
  facts["limit_threads"] = std::floor(limits.threads / (warps * kWarp));
  if (use.registers > 0) {
    const double of_warp = std::ceil(use.registers * kWarp / kRegisterUnit) * kRegisterUnit;
    const double resident = std::floor(limits.registers / kPartitions / of_warp) * kPartitions;
    facts["limit_registers"] = std::floor(resident / warps);
  }
  if (use.shared_bytes > 0) facts["limit_shared"] = std::floor(limits.shared_bytes / use.shared_bytes);
  if (use.blocks_per_sm <= 0) return facts;
  facts["blocks_per_sm"] = use.blocks_per_sm;
  facts["theoretical_occupancy"] = use.blocks_per_sm * warps * kWarp / limits.threads;
  facts["waves"] = use.blocks / (use.blocks_per_sm * limits.multiprocessors);
  return facts;
}

}  // namespace lathe::cuda

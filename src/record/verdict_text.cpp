#include "record/verdict_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace lathe {
namespace {

constexpr std::size_t kShownStalls = 4;
constexpr std::array<std::pair<const char*, const char*>, 10> kRoofs{{{"dram_share", "DRAM"},
                                                                      {"l2_share", "L2"},
                                                                      {"l1_share", "L1 and shared"},
                                                                      {"tensor_share", "tensor"},
                                                                      {"fma_share", "multiply-add"},
                                                                      {"alu_share", "integer"},
                                                                      {"special_share", "special"},
                                                                      {"load_store_share", "load/store"},
                                                                      {"issue_share", "issue"},
                                                                      {"sm_busy", "SM busy"}}};

using Counters = std::map<std::string, double>;

/// Collects phrases for the available counters.
class Phrases {
 public:
  explicit Phrases(const Counters& counters) : counters_(counters) {}

  void add(const char* counter, const char* format, double factor = 1) {
    if (const auto found = counters_.find(counter); found != counters_.end())
      phrases_.push_back(fmt::format(fmt::runtime(format), found->second * factor));
  }
  std::string line(const char* title) const {
    return phrases_.empty() ? "" : fmt::format("      {:<9}{}\n", title, fmt::join(phrases_, ", "));
  }

 private:
  const Counters& counters_;
  std::vector<std::string> phrases_;
};

std::string stalls_line(const Counters& counters) {
  std::vector<std::pair<double, std::string>> stalls;
  for (const auto& [name, share] : counters)
    if (name.starts_with("stall.")) stalls.emplace_back(share, name.substr(6));
  std::sort(stalls.rbegin(), stalls.rend());
  stalls.resize(std::min(stalls.size(), kShownStalls));
  std::vector<std::string> shown;
  for (const auto& [share, name] : stalls) shown.push_back(fmt::format("{} {:.0f}%", name, 100 * share));
  return shown.empty() ? "" : fmt::format("      stalls   {}\n", fmt::join(shown, ", "));
}

std::string roofs_line(const Counters& counters) {
  std::vector<std::string> shown;
  for (const auto& [counter, title] : kRoofs)
    if (const auto found = counters.find(counter); found != counters.end())
      shown.push_back(fmt::format("{} {:.0f}%", title, 100 * found->second));
  return shown.empty() ? "" : fmt::format("      reached  {}\n", fmt::join(shown, ", "));
}

}  // namespace

std::string profile_text(const ShapeProfile& profile) {
  const Counters& counters = profile.counters;
  std::string text = fmt::format("    {}\n", profile.shape);
  for (const Bottleneck& bottleneck : profile.bottlenecks)
    text += fmt::format("      {:<14} {:>3.0f}%  {}\n", bottleneck.name, 100 * bottleneck.share,
                        bottleneck.detail);
  text += roofs_line(counters);
  Phrases memory(counters);
  memory.add("dram_read_bytes", "{:.4g} MB read", 1e-6);
  memory.add("dram_write_bytes", "{:.4g} MB written a call", 1e-6);
  memory.add("dram_of_measured_peak", "{:.0f}% of what a copy moves", 100);
  memory.add("l1_hit_rate", "L1 hits {:.0f}%", 100);
  memory.add("l2_hit_rate", "L2 hits {:.0f}%", 100);
  text += memory.line("memory");
  Phrases warps(counters);
  warps.add("occupancy", "occupancy {:.0f}%", 100);
  warps.add("theoretical_occupancy", "{:.0f}% possible", 100);
  warps.add("blocks", "{:.0f} blocks");
  warps.add("threads", "{:.0f} threads");
  warps.add("waves", "{:.2f} waves");
  warps.add("registers", "{:.0f} registers");
  warps.add("shared_bytes", "{:.0f} B shared a block");
  text += warps.line("warps") + stalls_line(counters);
  Phrases kernels(counters);
  kernels.add("kernels", "{:.4g} a call");
  kernels.add("own_kernels", "{:.4g} of its own");
  kernels.add("own_kernel_share", "which take {:.0f}% of the time", 100);
  text += kernels.line("kernels");
  Phrases energy(counters);
  energy.add("joules", "{:.4g} mJ a call", 1e3);
  energy.add("loop_power_w", "{:.0f} W");
  energy.add("loop_clock_mhz", "{:.0f} MHz");
  text += energy.line("energy");
  for (const std::string& note : profile.notes) text += fmt::format("      note: {}\n", note);
  return text;
}

std::string device_state_text(const Verdict& verdict) {
  std::vector<std::string> parts;
  const auto add = [&](const char* name, const char* unit) {
    if (const auto found = verdict.profile.find(name); found != verdict.profile.end())
      parts.push_back(fmt::format("{:.0f} {}", found->second, unit));
  };
  add("clock_mhz", "MHz");
  add("power_w", "W");
  add("celsius", "C");
  for (const auto& [name, share] : verdict.profile)
    if (name.starts_with("throttled."))
      parts.push_back(fmt::format("held back by {} in {:.0f}% of blocks", name.substr(10), 100 * share));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace lathe

// A million scripted evaluations on a fake device on which much goes wrong at random
// (fault_storm.h): prints what was answered to what, and fails if one answer is forged, doubled or
// lost.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/clock.h"
#include "bench/gym/fault_storm.h"

int main(int argc, char** argv) {
  CLI::App app{"Evaluates scripted candidates while the machine fails at random"};
  lathe::StormOptions options;
  app.add_option("--evaluations", options.evaluations, "How many")->capture_default_str();
  app.add_option("--seed", options.seed, "Draws scripts and faults")->capture_default_str();
  app.add_option("--lanes", options.lanes, "Evaluations at once")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const auto begin_ns = lathe::steady_clock().now_ns();
  const auto report = lathe::run_storm(options);
  if (!report.ok()) {
    fmt::print(stderr, "{}\n", report.error().to_string());
    return 1;
  }
  const double seconds = lathe::seconds_since(begin_ns);
  fmt::print("| what was scripted | answers |\n|---|---|\n");
  for (const auto& [kind, answers] : report->answers) {
    std::string counts;
    for (const auto& [answer, count] : answers)
      counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", answer, count);
    fmt::print("| {} | {} |\n", kind, counts);
  }
  fmt::print("\n{} submitted, {} answered, {} answers that no script admits; {:.0f} s, {:.0f} a second\n",
             report->submitted, report->answered, report->fault_count, seconds,
             static_cast<double>(report->answered) / seconds);
  for (const std::string& fault : report->faults) fmt::print("FAULT {}\n", fault);
  return report->fault_count == 0 && report->submitted == report->answered ? 0 : 1;
}

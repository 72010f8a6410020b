#include "gemm/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "base/statistics.h"
#include "gemm/catalogue.h"
#include "gemm/sizes.h"

namespace lathe::gemm {
namespace {

struct Winner {
  Size size;
  Plan plan;
  double ns;
};

/// A knob as text, for tables.
struct Knob {
  const char* name;
  std::function<double(const Plan&)> of;
};

const std::vector<Knob>& knobs() {
  static const std::vector<Knob> all = {
      {"rows of the tile", [](const Plan& p) { return 1.0 * p.rows; }},
      {"columns of the tile", [](const Plan& p) { return 1.0 * p.columns; }},
      {"depth of a step", [](const Plan& p) { return 1.0 * p.depth; }},
      {"stages", [](const Plan& p) { return 1.0 * p.stages; }},
      {"slices of K in a block", [](const Plan& p) { return 1.0 * p.slices; }},
      {"blocks that share K", [](const Plan& p) { return 1.0 * p.split; }},
      {"threads", [](const Plan& p) { return static_cast<double>(threads_of(p)); }}};
  return all;
}

const char* skeleton_name(const Plan& plan) {
  constexpr const char* kNames[] = {"direct", "mma", "wgmma"};
  return kNames[static_cast<int>(plan.skeleton)];
}

double correlation(const std::vector<double>& x, const std::vector<double>& y) {
  const double sx = stddev(x), sy = stddev(y), mx = mean(x), my = mean(y);
  if (x.size() < 3 || sx == 0 || sy == 0) return 0;
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += (x[i] - mx) * (y[i] - my);
  return sum / (static_cast<double>(x.size() - 1) * sx * sy);
}

std::vector<Winner> winners_of(const Journal& journal) {
  std::vector<Winner> winners;
  for (const Choice& choice : journal.choices())
    if (Plan plan; plan_of(choice.kernel, plan)) winners.push_back({choice.size, plan, choice.kernel_ns});
  return winners;
}

std::string by_family(const std::vector<Winner>& winners, int sm_count) {
  std::map<char, std::map<std::string, int>> counts;
  std::map<char, std::map<int, int>> splits;
  for (const Winner& one : winners) {
    const char family = static_cast<char>(family_of(one.size, sm_count));
    ++counts[family][skeleton_name(one.plan)];
    ++splits[family][one.plan.split];
  }
  std::string text =
      "| family | direct | mma | wgmma | blocks that share K: winners |\n|---|---|---|---|---|\n";
  for (auto& [family, of] : counts) {
    std::string shares;
    for (const auto& [split, count] : splits[family])
      shares += fmt::format("{}{}: {}", shares.empty() ? "" : ", ", split, count);
    text += fmt::format("| {} | {} | {} | {} | {} |\n", family, of["direct"], of["mma"], of["wgmma"], shares);
  }
  return text;
}

std::string correlations(const std::vector<Winner>& winners) {
  std::string text = "| log2 of | M | N | K | FLOP |\n|---|---|---|---|---|\n";
  for (const Knob& knob : knobs()) {
    std::vector<double> x, m, n, k, work;
    for (const Winner& one : winners) {
      x.push_back(std::log2(knob.of(one.plan)));
      m.push_back(std::log2(static_cast<double>(one.size.m))),
          n.push_back(std::log2(static_cast<double>(one.size.n)));
      k.push_back(std::log2(static_cast<double>(one.size.k))), work.push_back(std::log2(flop_of(one.size)));
    }
    text += fmt::format("| {} | {:+.2f} | {:+.2f} | {:+.2f} | {:+.2f} |\n", knob.name, correlation(x, m),
                        correlation(x, n), correlation(x, k), correlation(x, work));
  }
  return text;
}

/// How much slower the best of the trials is that has another value of the knob than the winner.
std::string costs(const Journal& journal, const std::vector<Winner>& winners) {
  std::map<Size, const Winner*> winner_of;
  for (const Winner& one : winners) winner_of[one.size] = &one;
  std::map<Size, std::vector<std::pair<Plan, double>>> tried;
  for (const Trial& trial : journal.trials())
    if (Plan plan; winner_of.contains(trial.size) && plan_of(trial.kernel, plan))
      tried[trial.size].emplace_back(plan, trial.ns);
  std::string text = "| with another | sizes | median cost | worst |\n|---|---|---|---|\n";
  const auto line = [&](const char* name, const std::function<double(const Plan&)>& of) {
    std::vector<double> ratios;
    for (const auto& [size, plans] : tried) {
      double best = 0, other = 0;
      const double own = of(winner_of[size]->plan);
      for (const auto& [plan, ns] : plans) {
        double& least = of(plan) == own ? best : other;
        least = least == 0 ? ns : std::min(least, ns);
      }
      if (best > 0 && other > 0) ratios.push_back(other / best);
    }
    if (ratios.empty()) return;
    text += fmt::format("| {} | {} | {:.3f}x | {:.2f}x |\n", name, ratios.size(), median(ratios),
                        quantile(ratios, 1));
  };
  line("skeleton", [](const Plan& p) { return static_cast<double>(p.skeleton); });
  for (const Knob& knob : knobs()) line(knob.name, knob.of);
  return text;
}

std::string model_errors(const Journal& journal, int sm_count) {
  std::map<std::string, std::vector<double>> errors;
  for (const Trial& trial : journal.trials())
    if (Plan plan; plan_of(trial.kernel, plan))
      errors[skeleton_name(plan)].push_back(std::log(
          model_ns(plan, {plan.layout, trial.size.m, trial.size.n, trial.size.k}, sm_count) / trial.ns));
  std::string text = "| skeleton | trials | model over measured: median | 10% to 90% |\n|---|---|---|---|\n";
  for (const auto& [skeleton, logs] : errors)
    text += fmt::format("| {} | {} | {:.2f} | {:.2f} to {:.2f} |\n", skeleton, logs.size(),
                        std::exp(median(logs)), std::exp(quantile(logs, 0.1)), std::exp(quantile(logs, 0.9)));
  return text;
}

}  // namespace

std::string ranking(const Journal& journal, int sm_count, std::size_t count) {
  std::string text = "m,n,k,list,rank,kernel\n";
  for (const Choice& choice : journal.choices()) {
    const Problem problem = problem_of(journal.track(), choice.size);
    const auto add = [&](const char* list, const std::vector<Plan>& plans) {
      for (std::size_t i = 0; i < std::min(count, plans.size()); ++i)
        text += fmt::format("{},{},{},{},{},{}\n", choice.size.m, choice.size.n, choice.size.k, list, i + 1,
                            name_of(plans[i]));
    };
    add("ranked", ranked_plans(problem, sm_count));
    add("shortlist", shortlist(problem, sm_count, count));
  }
  return text;
}

std::string explain(const Journal& journal, int sm_count) {
  const std::vector<Winner> winners = winners_of(journal);
  if (winners.empty()) return "The journal has no choices yet.\n";
  int tried = 0;
  double seconds = 0;
  for (const Choice& choice : journal.choices()) tried += choice.tried, seconds += choice.seconds;
  return fmt::format("{} sizes, {} kernels timed in {:.0f} s.\n\n## Which skeletons won\n\n", winners.size(),
                     tried, seconds) +
         by_family(winners, sm_count) + "\n## How the winners' knobs go with the extents (correlation)\n\n" +
         correlations(winners) + "\n## What another value of a knob costs\n\n" + costs(journal, winners) +
         "\n## The model\n\n" + model_errors(journal, sm_count);
}

}  // namespace lathe::gemm

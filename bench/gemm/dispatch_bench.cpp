// What choosing a kernel costs a call of the exported library, on the processor alone:
//   dispatch_bench JOURNAL...
// for sizes that were tuned, and for others, where it is the first call of a size that pays.

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/statistics.h"
#include "gemm/catalogue.h"
#include "gemm/journal.h"
#include "gemm/runtime/library.h"

namespace lathe::gemm {
namespace {

constexpr int kSmCount = 132;
constexpr unsigned char kCode[1] = {};  // never loaded

struct Table {
  std::vector<Image> images;
  std::vector<Entry> entries;

  std::uint32_t add(const Plan& plan) {
    const auto found =
        std::find_if(images.begin(), images.end(), [&](const Image& image) { return image.plan == plan; });
    if (found != images.end()) return static_cast<std::uint32_t>(found - images.begin());
    images.push_back({plan, kCode, nullptr});
    return static_cast<std::uint32_t>(images.size() - 1);
  }
};
Table g_table;

/// Nanoseconds of one call: the median over `rounds` of all problems in a random order.
double ns_of(std::vector<Problem> problems, int rounds) {
  Rng rng(Seed::from_number(1));
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    rng.shuffle(problems);
    const auto begin_ns = steady_clock().now_ns();
    for (const Problem& problem : problems)
      if (!choose(library(), problem, kSmCount, true)) return 0;
    times.push_back(static_cast<double>(steady_clock().now_ns() - begin_ns) /
                    static_cast<double>(problems.size()));
  }
  return median(times);
}

int run(int count, char** paths) {
  std::vector<Problem> tuned, others;
  for (int i = 0; i < count; ++i) {
    const auto journal = Journal::open(paths[i]);
    if (!journal.ok()) {
      fmt::print(stderr, "{}\n", journal.error().to_string());
      return 1;
    }
    for (const Choice& choice : journal->choices()) {
      Plan plan;
      if (!plan_of(choice.kernel, plan)) continue;
      const auto [m, n, k] = choice.size;
      g_table.entries.push_back({journal->track(), m, n, k, g_table.add(plan)});
      Problem problem{journal->track().layout, m, n, k};
      problem.half_sums = journal->track().half_sums;
      problem.workspace = true;
      tuned.push_back(problem);
      problem.m += 8;
      others.push_back(problem);
    }
  }
  std::sort(g_table.entries.begin(), g_table.entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.track, a.m, a.n, a.k) < std::tie(b.track, b.m, b.n, b.k);
  });
  for (const Layout layout : {Layout::kNN, Layout::kTN, Layout::kNT, Layout::kTT})
    for (const auto& plans : {general_plans(layout), broad_plans(layout)})
      for (const Plan& plan : plans) g_table.add(plan);
  fmt::print("{} kernels, {} tuned sizes\n", g_table.images.size(), g_table.entries.size());
  fmt::print("a tuned size: {:.0f} ns\n", ns_of(tuned, 200));
  fmt::print("the first call of another size: {:.0f} ns\n", ns_of(others, 5));
  return 0;
}

}  // namespace

const Library& library() {
  static const Library made{g_table.images.data(), g_table.images.size(), g_table.entries.data(),
                            g_table.entries.size()};
  return made;
}

}  // namespace lathe::gemm

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: dispatch_bench JOURNAL...\n");
    return 2;
  }
  return lathe::gemm::run(argc - 1, argv + 1);
}

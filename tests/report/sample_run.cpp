#include "tests/report/sample_run.h"

#include <cmath>

#include "base/random.h"

namespace lathe {
namespace {

const std::vector<std::string> kShapes = {"rows=4096,cols=1024", "rows=257,cols=8191"};
constexpr double kNaiveNs[] = {5.6e6, 2.9e6};

struct Peer {
  const char* name;
  double speedup;  ///< over naive
};
constexpr Peer kPeers[] = {{"naive", 1}, {"onednn", 3.1}, {"openblas", 1.4}};

constexpr const char* kKernel = R"text(/*lathe
[[launch]]
kernel = "softmax_rows"
items  = "cdiv(rows, $ROWS)"
args   = ["x", "y", "rows", "cols"]
*/
#include <lathe/cpu.h>

extern "C" void softmax_rows(const float* x, float* y, int64_t rows, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t block = begin; block < end; ++block) {
    const int64_t first = block * $ROWS;
    const int64_t last = lathe::min(first + $ROWS, rows);
    for (int64_t row = first; row < last; ++row) {
$PASS
#pragma GCC unroll $UNROLL
      for (int64_t i = 0; i < cols; i += lathe::kWidth) {
        lathe::store(y + row * cols + i, lathe::exp(lathe::load(x + row * cols + i) - top) / sum);
      }
    }
  }
}
)text";
constexpr const char* kOnePass = "      const auto [top, sum] = lathe::online_max_sum(x + row * cols, cols);";
constexpr const char* kTwoPasses =
    "      const float top = lathe::max_of(x + row * cols, cols);\n"
    "      const float sum = lathe::sum_of_exp(x + row * cols, cols, top);";

std::string kernel_text(int rows_at_once, int unroll, bool online) {
  std::string text = kKernel;
  const auto put = [&](const std::string& mark, const std::string& value) {
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark))
      text.replace(at, mark.size(), value);
  };
  put("$ROWS", std::to_string(rows_at_once));
  put("$UNROLL", std::to_string(unroll));
  put("$PASS", online ? kOnePass : kTwoPasses);
  return text;
}

void add_timing(Verdict& verdict, double over_naive, double noise) {
  for (std::size_t s = 0; s < kShapes.size(); ++s) {
    const double ratio = over_naive * (s == 0 ? 1 : 0.82);
    verdict.timings.push_back({.shape = kShapes[s],
                               .median_ns = kNaiveNs[s] / ratio,
                               .spread = noise,
                               .pairs = 24,
                               .processes = 3});
    for (const Peer& peer : kPeers) {
      const double mid = ratio / peer.speedup;
      verdict.speedups.push_back({.baseline = peer.name,
                                  .shape = kShapes[s],
                                  .ratio = {mid * (1 - noise), mid, mid * (1 + 1.3 * noise)}});
    }
  }
}

void add_evidence(Verdict& verdict, Rng& rng) {
  for (const std::string& shape :
       {kShapes[0], kShapes[1], std::string("rows=31,cols=509"), std::string("rows=1,cols=97")}) {
    for (const char* distribution : {"normal", "spikes", "large"}) {
      verdict.evidence.cases.push_back({.shape = shape,
                                        .distribution = distribution,
                                        .hidden = shape.size() < 18,
                                        .worst_ratio = 0.05 + 0.5 * rng.uniform(),
                                        .rms_error = 1e-8 * (1 + rng.uniform())});
    }
  }
}

void fail(Verdict& verdict, Rng& rng) {
  constexpr std::pair<Outcome, const char*> kFailures[] = {{Outcome::kBuildFailed, "compile_error"},
                                                           {Outcome::kBuildFailed, "compile_error"},
                                                           {Outcome::kWrong, "bound"},
                                                           {Outcome::kCrash, "sigsegv"},
                                                           {Outcome::kTampered, "input_written"}};
  const auto& [outcome, reason] = kFailures[rng.below(std::size(kFailures))];
  verdict.outcome = outcome;
  verdict.reason = reason;
}

ReportExtras make_extras() {
  ReportExtras extras;
  extras.device = "AMD EPYC 9R14, 1 thread";
  extras.seconds = 93.4;
  extras.best_baseline = "onednn";
  extras.left_out = {"eigen: rms"};
  for (const Peer& peer : kPeers) {
    BaselineTime baseline{.name = peer.name,
                          .median_ns = std::sqrt(kNaiveNs[0] * kNaiveNs[1]) / peer.speedup};
    for (std::size_t s = 0; s < kShapes.size(); ++s)
      baseline.timings.push_back({.shape = kShapes[s], .median_ns = kNaiveNs[s] / peer.speedup, .pairs = 24});
    extras.baselines.push_back(baseline);
  }
  extras.work = {{.shape = kShapes[0], .flops = 2.1e7, .bytes = 3.36e7, .floor_ns = 0.98e6},
                 {.shape = kShapes[1], .flops = 1.05e7, .bytes = 1.68e7, .floor_ns = 0.35e6}};
  extras.peaks.flops_per_second = 1.15e11;
  extras.peaks.levels = {{.name = "L1", .capacity_bytes = 32768, .bytes_per_second = 4.2e11},
                         {.name = "L2", .capacity_bytes = 1 << 20, .bytes_per_second = 1.9e11},
                         {.name = "L3", .capacity_bytes = 3.2e7, .bytes_per_second = 9.5e10},
                         {.name = "memory", .capacity_bytes = 2.4e10, .bytes_per_second = 3.4e10}};
  return extras;
}

}  // namespace

SampleRun make_sample_run() {
  Rng rng(Seed::from_number(11));
  SampleRun sample;
  sample.extras = make_extras();
  sample.run = {.id = "20261121-101502-softmax_rows-3f2a",
                .task_name = "softmax_rows",
                .task_text = "name = \"softmax_rows\"\ndims = [\"rows\", \"cols\"]\n",
                .task = digest_of("softmax_rows"),
                .config = R"({"policy":"catalog","search":"evolve","seed":7})",
                .status = "done",
                .created_unix = 1'795'256'102,
                .experiences = 120};
  std::vector<std::size_t> elite;
  double best = 0.4;
  for (int i = 0; i < 120; ++i) {
    Experience e;
    e.run = sample.run.id;
    e.sequence = i;
    e.task_name = sample.run.task_name;
    e.task = sample.run.task;
    e.candidate_text = kernel_text(1 + i % 4, 1 + i % 9, i > 20) + "// variant " + std::to_string(i) + "\n";
    e.candidate = digest_of(e.candidate_text);
    e.lineage = {.policy = "catalog", .operation = "random", .description = "row-reduce, two passes"};
    if (!elite.empty() && i > 8) {
      e.lineage.operation = rng.chance(0.3) && elite.size() > 1 ? "crossover" : "mutate";
      e.lineage.description =
          "unroll " + std::to_string(1 + i % 9) + ", rows at once " + std::to_string(1 + i % 4);
      e.lineage.parents = {sample.experiences[elite.back()].candidate};
      if (e.lineage.operation == "crossover")
        e.lineage.parents.push_back(sample.experiences[elite[elite.size() - 2]].candidate);
    }
    e.verdict = {.outcome = Outcome::kPass,
                 .reason = "ok",
                 .depth = Depth::kScreen,
                 .candidate = e.candidate,
                 .task = e.task};
    if (rng.chance(0.33)) {
      fail(e.verdict, rng);
    } else {
      const double speedup =
          rng.chance(0.25) ? best * (1 + 0.3 * rng.uniform()) : best * (0.4 + 0.6 * rng.uniform());
      add_timing(e.verdict, speedup, 0.03);
      add_evidence(e.verdict, rng);
      if (speedup > best) best = speedup, elite.push_back(static_cast<std::size_t>(i));
    }
    sample.experiences.push_back(std::move(e));
  }
  sample.experiences[elite.back()].verdict.depth = Depth::kFinal;
  sample.experiences[elite.back()].verdict.stage_seconds = {{"build", 0.41}, {"verify", 0.22}, {"time", 3.1}};
  return sample;
}

}  // namespace lathe

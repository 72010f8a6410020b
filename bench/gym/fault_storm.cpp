#include "bench/gym/fault_storm.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <unordered_map>

#include "backend/fake/fake_backend.h"
#include "gym/gym.h"

namespace lathe {
namespace {

constexpr const char* kTask = R"toml(
name = "twice"
dims = { n = [1, 64] }
tensor = [{ name = "x", shape = ["n"] }]
graph = "y = add(x, x)"
baselines = ["naive"]
shape = [{ name = "small", n = 16 }]
)toml";
constexpr std::int64_t kBatch = 500;  // requests between two looks at whether the machine fails
constexpr double kOutage = 0.05;      // share of batches in which no block runs
constexpr double kNaiveNs = 8000;
constexpr std::size_t kFaultsListed = 40;
constexpr double kPatience = 120;  // seconds for an answer: far more than any takes

using Answers = std::set<std::string>;

BlockOutcome fault(BlockStatus status, std::string reason) { return {status, std::move(reason)}; }

const std::vector<std::string>& machine_reasons() {
  static const std::vector<std::string> reasons = {"runner_lost", "keeper", "not_ready", "library_error"};
  return reasons;
}

/// A kind of candidate, and what may be said of it while the machine works. While it does not,
/// INFRA may be said of all.
struct Kind {
  const char* name;
  double weight;
  Answers answers;
  void (*script)(FakeKernel&, Rng&);
};

const std::vector<Kind>& kinds() {
  using Status = BlockStatus;
  static const std::vector<Kind> all = {
      {"right", 30, {"PASS"}, [](FakeKernel&, Rng&) {}},
      {"right, once a lost block",
       10,
       {"PASS"},
       [](FakeKernel& kernel, Rng& rng) {
         kernel.good_blocks = static_cast<int>(rng.below(12));
         kernel.bad_blocks = 1;
         kernel.fault = fault(Status::kInfra, machine_reasons()[rng.below(machine_reasons().size())]);
       }},
      {"right, on a machine that cannot build it",
       4,
       {"INFRA"},
       [](FakeKernel& kernel, Rng&) { kernel.build_infra = true; }},
      {"wrong", 12, {"WRONG"}, [](FakeKernel& kernel, Rng&) { kernel.wrong = "tolerance"; }},
      {"wrong by its RMS error", 5, {"WRONG"}, [](FakeKernel& kernel, Rng&) { kernel.wrong_rms = "rms"; }},
      {"wrong at the scored shape",
       4,
       {"WRONG"},
       [](FakeKernel& kernel, Rng&) { kernel.wrong = "tolerance", kernel.wrong_rows = 16; }},
      {"wrong, and loses a block",
       5,
       {"WRONG"},
       [](FakeKernel& kernel, Rng&) {
         kernel.wrong = "tolerance";
         kernel.good_blocks = 0;
         kernel.bad_blocks = 1;
         kernel.fault = fault(Status::kInfra, "runner_lost");
       }},
      {"takes its process down, again and again",
       5,
       {"CRASH"},
       [](FakeKernel& kernel, Rng& rng) {
         kernel.good_blocks = static_cast<int>(rng.below(4));
         kernel.fault = fault(Status::kInfra, machine_reasons()[rng.below(machine_reasons().size())]);
       }},
      {"crashes",
       8,
       {"CRASH"},
       [](FakeKernel& kernel, Rng& rng) {
         kernel.good_blocks = static_cast<int>(rng.below(8));
         kernel.fault = fault(Status::kCrash, "segfault");
       }},
      {"hangs",
       5,
       {"TIMEOUT"},
       [](FakeKernel& kernel, Rng& rng) {
         kernel.good_blocks = static_cast<int>(rng.below(8));
         kernel.fault = fault(Status::kTimeout, "timeout");
       }},
      {"tampers",
       4,
       {"TAMPERED"},
       [](FakeKernel& kernel, Rng& rng) {
         kernel.good_blocks = static_cast<int>(rng.below(8));
         kernel.fault = fault(Status::kTampered, "late_write");
       }},
      {"does not build",
       3,
       {"BUILD_FAILED"},
       [](FakeKernel& kernel, Rng&) { kernel.build_fault = "compile_error"; }},
      {"cannot be opened",
       2,
       {"BUILD_FAILED"},
       [](FakeKernel& kernel, Rng&) { kernel.open_fault = "bad_plan"; }},
      {"lets no process start", 2, {"CRASH"}, [](FakeKernel& kernel, Rng&) { kernel.open_infra = true; }},
      {"unreadable", 1, {"BUILD_FAILED"}, [](FakeKernel&, Rng&) {}},
  };
  return all;
}

const Kind& draw_kind(Rng& rng) {
  double total = 0;
  for (const Kind& kind : kinds()) total += kind.weight;
  double left = rng.uniform() * total;
  for (const Kind& kind : kinds())
    if ((left -= kind.weight) < 0) return kind;
  return kinds().front();
}

/// How fast right kernels are, how much their blocks vary and how often the machine disturbs them.
FakeKernel draw_kernel(const Kind& kind, Rng& rng) {
  FakeKernel kernel;
  kernel.call_ns = kNaiveNs / (0.5 + 8 * rng.uniform());
  if (rng.chance(0.1)) kernel.call_ns = kNaiveNs * 50 * rng.uniform() + kNaiveNs;  // slow, hopeless too
  kernel.block_noise = 0.003 * rng.uniform();
  kernel.spike_chance = 0.02;
  kind.script(kernel, rng);
  return kernel;
}

std::string text_of(const std::string& name) {
  return "/*lathe\n[[launch]]\nkernel = \"f\"\nitems = \"n\"\nargs = [\"x\", \"y\", \"n\"]\n*/\n// " + name +
         "\nextern \"C\" void f();\n";
}

std::string answer_of(const Result<Verdict>& verdict) {
  if (verdict.ok()) return std::string(name(verdict->outcome));
  if (verdict.error().code == ErrorCode::kCancelled) return "cancelled";
  return verdict.error().code == ErrorCode::kTimeout ? "late" : verdict.error().to_string();
}

struct Asked {
  const Kind* kind = nullptr;
  std::string name;
  Answers answers;
  CancelToken cancel;
};

class Storm {
 public:
  Storm(const StormOptions& options, TaskSpec task)
      : options_(options),
        task_(std::make_shared<const TaskSpec>(std::move(task))),
        backend_(Seed::from_number(options.seed).derive("device")),
        rng_(Seed::from_number(options.seed).derive("storm")) {
    backend_.script("naive", naive());
  }

  Result<StormReport> run() {
    GymOptions gym_options;
    gym_options.secret = Seed::from_number(options_.seed).derive("gym");
    gym_options.lanes = options_.lanes;
    gym_options.build_workers = 2;
    gym_ = Gym::start(backend_, gym_options, null_sink());
    client_ = gym_->connect();
    LATHE_TRY(const TaskBaselines baselines, client_->baselines(task_, {}));
    while (report_.submitted < options_.evaluations) LATHE_CHECK_OK(run_batch());
    if (client_->in_flight() != 0) add_fault(fmt::format("{} requests are left", client_->in_flight()));
    return std::move(report_);
  }

 private:
  FakeKernel naive() const {
    FakeKernel kernel;
    kernel.call_ns = kNaiveNs;
    kernel.block_noise = 0.002;
    if (!outage_) return kernel;
    kernel.good_blocks = 0;
    kernel.fault = fault(BlockStatus::kInfra, "runner_lost");
    return kernel;
  }

  /// The machine fails or works for whole batches: one that fails for the moment of two attempts
  /// and works in between looks like a candidate's fault, by design.
  Status run_batch() {
    outage_ = rng_.chance(kOutage);
    backend_.script("naive", naive());
    for (std::int64_t i = 0; i < kBatch && report_.submitted < options_.evaluations; ++i) {
      LATHE_CHECK_OK(submit_one());
      if (rng_.chance(0.3)) cancel_some();
      if (rng_.chance(0.5)) take_one(0);
    }
    if (rng_.chance(0.02)) visit_and_leave();
    while (!asked_.empty())
      if (!take_one(kPatience)) return lost();
    return Ok{};
  }

  Status submit_one() {
    Asked asked;
    asked.kind = &draw_kind(rng_);
    asked.name = fmt::format("{} {}", asked.kind->name, report_.submitted);
    asked.answers = asked.kind->answers;
    FakeKernel kernel = draw_kernel(*asked.kind, rng_);
    if (outage_) {
      kernel.good_blocks = 0;
      kernel.bad_blocks = 1 << 30;
      kernel.fault = fault(BlockStatus::kInfra, "runner_lost");
      // What is known before a block runs is known all the same.
      if (asked.answers != Answers{"BUILD_FAILED"}) asked.answers = {"INFRA"};
    }
    EvaluationRequest request{.task = task_, .text = text_of(asked.name), .name = asked.name};
    if (std::string_view(asked.kind->name) == "unreadable") request.text = "no plan at all";
    if (rng_.chance(0.02)) request.depth = Depth::kFinal;
    request.priority = static_cast<int>(rng_.below(3));
    request.cancel = asked.cancel;
    if (rng_.chance(0.03)) {
      request.deadline_seconds = 1e-3 + 0.1 * rng_.uniform();
      asked.answers.insert("late");
    }
    backend_.script(asked.name, kernel);
    LATHE_TRY(const Ticket ticket, client_->submit(std::move(request)));
    ++report_.submitted;
    if (!asked_.emplace(ticket, std::move(asked)).second)
      add_fault(fmt::format("ticket {} was given twice", ticket));
    return Ok{};
  }

  void cancel_some() {
    if (asked_.empty()) return;
    Asked& chosen =
        std::next(asked_.begin(),
                  static_cast<std::ptrdiff_t>(rng_.below(std::min<std::size_t>(asked_.size(), 4))))
            ->second;
    chosen.cancel.cancel();
    chosen.answers.insert("cancelled");
  }

  bool take_one(double seconds) {
    const auto evaluated = client_->poll(seconds);
    if (!evaluated) return false;
    ++report_.answered;
    const std::string answer = answer_of(evaluated->verdict);
    const auto found = asked_.find(evaluated->ticket);
    if (found == asked_.end()) {
      add_fault(
          fmt::format("ticket {} is answered twice, or was never given: {}", evaluated->ticket, answer));
      return true;
    }
    const Asked& asked = found->second;
    ++report_.answers[asked.kind->name][answer];
    if (!asked.answers.contains(answer))
      add_fault(fmt::format("{}: {} {}{}", asked.name, answer,
                            evaluated->verdict.ok() ? evaluated->verdict->reason : "",
                            outage_ ? ", while no block ran" : ""));
    backend_.forget(asked.name);
    asked_.erase(found);
    return true;
  }

  /// A client that takes none of its answers.
  void visit_and_leave() {
    const auto visitor = gym_->connect();
    for (int i = 0; i < 5; ++i) {
      const std::string guest = fmt::format("visitor {}", i);
      (void)visitor->submit({.task = task_, .text = text_of(guest), .name = guest});
    }
  }

  Status lost() {
    for (const auto& [ticket, asked] : asked_) add_fault(asked.name + " is never answered");
    return Error{ErrorCode::kInternal, fmt::format("{} requests are lost", asked_.size()),
                 report_.faults.empty() ? "" : report_.faults.front()};
  }

  void add_fault(std::string text) {
    ++report_.fault_count;
    if (report_.faults.size() < kFaultsListed) report_.faults.push_back(std::move(text));
  }

  const StormOptions options_;
  const std::shared_ptr<const TaskSpec> task_;
  FakeBackend backend_;
  Rng rng_;
  bool outage_ = false;
  std::unique_ptr<Gym> gym_;
  std::unique_ptr<Evaluator> client_;
  std::map<Ticket, Asked> asked_;
  StormReport report_;
};

}  // namespace

Result<StormReport> run_storm(const StormOptions& options) {
  LATHE_TRY(TaskSpec task, parse_task(kTask, "twice.toml"));
  return Storm(options, std::move(task)).run();
}

}  // namespace lathe

#include "data/factory.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/clock.h"
#include "base/parallel.h"
#include "data/fault.h"
#include "record/json.h"
#include "search/search.h"

namespace lathe {
namespace {

using nlohmann::json;

constexpr int kFormatVersion = 2;
constexpr int kReshapeEvery = 8;

Result<TaskSpec> generated(const DataOptions& options, int index) {
  LATHE_TRY(const std::string text,
            generate_task(options.seed + static_cast<std::uint64_t>(index), options.generate));
  return parse_task(text, "generated");
}

/// One data set on its way.
class Factory {
 public:
  Factory(const DataContext& context, const DataOptions& options) : context_(context), options_(options) {}

  Result<DataSummary> run() {
    const std::int64_t begin_ns = steady_clock().now_ns();
    std::optional<Work> work;
    LATHE_TRY(work, next());
    while (work && !context_.stop.cancelled()) {
      std::optional<Work> following;
      LATHE_TRY(following, next());
      LATHE_CHECK_OK(make(*work));
      work = std::move(following);
      if (options_.max_seconds > 0 && seconds_since(begin_ns) > options_.max_seconds) break;
    }
    summary_.interrupted = context_.stop.cancelled();
    return summary_;
  }

 private:
  struct Work {
    int index = 0;
    std::shared_ptr<const TaskSpec> task;
    Split split = Split::kTrain;
    bool begun = false;  ///< in an earlier sitting
  };

  /// The next task that is not done, which begins to be prepared; nullopt: none is left.
  Result<std::optional<Work>> next() {
    while (next_index_ < options_.tasks) {
      const int index = next_index_++;
      Work work{.index = index};
      auto earlier = context_.store.run(data_run_id(options_.seed, index));
      if (earlier.ok()) {
        if (earlier->status != "running") {
          ++summary_.known;
          continue;
        }
        work.begun = true;
      } else if (earlier.error().code != ErrorCode::kNotFound) {
        return earlier.error();
      }
      LATHE_CHECK_OK(define(work));
      if (work.begun) LATHE_CHECK_OK(check_same(*earlier, *work.task));
      context_.evaluator.prepare(work.task);
      return std::optional(std::move(work));
    }
    return std::optional<Work>();
  }

  /// What an earlier sitting measured stands beside nothing that is of another device or task.
  Status check_same(const RunRecord& earlier, const TaskSpec& task) const {
    LATHE_TRY(const json config, parse_json(earlier.config, "the settings of " + earlier.id));
    LATHE_TRY(const DeviceRecord begun,
              device_record_from_json(config.is_object() ? config.value("device", json()) : json()));
    const DeviceInfo &then = begun.device, &now = context_.device;
    if (earlier.task == task.digest && then.kind == now.kind && then.name == now.name &&
        then.threads == now.threads)
      return Ok{};
    return invalid(fmt::format("run {} was begun on {} with {} threads, or by a Lathe with another generator",
                               earlier.id, then.name, then.threads),
                   "go on there, or make a data set with another --seed");
  }

  /// A task of the generator; every eighth is the one before it with other extents, if training has
  /// that one.
  Status define(Work& work) const {
    if (work.index % kReshapeEvery == kReshapeEvery - 1) {
      LATHE_TRY(const TaskSpec trained, generated(options_, work.index - 1));
      Rng rng(
          Seed::from_number(options_.seed).derive("data.reshape", static_cast<std::uint64_t>(work.index)));
      const bool is_trained_on = !is_held_out(composition_of(trained));
      if (const auto text = is_trained_on ? reshape(trained, rng, trained.name + "_reshaped")
                                          : Result<std::string>(Error{});
          text.ok()) {
        LATHE_TRY(TaskSpec task, parse_task(*text, "reshaped"));
        work.task = std::make_shared<const TaskSpec>(std::move(task));
        work.split = Split::kShapes;
        return Ok{};
      }
    }
    LATHE_TRY(TaskSpec task, generated(options_, work.index));
    work.split = is_held_out(composition_of(task)) ? Split::kCompositions : Split::kTrain;
    work.task = std::make_shared<const TaskSpec>(std::move(task));
    return Ok{};
  }

  Status make(const Work& work) {
    const std::string run = data_run_id(options_.seed, work.index);
    if (!work.begun) LATHE_CHECK_OK(begin(run, work));
    const std::int64_t begin_ns = steady_clock().now_ns();
    const auto baselines = context_.evaluator.baselines(work.task, context_.stop);
    const double prepare_seconds = seconds_since(begin_ns);
    if (!baselines.ok()) {
      if (context_.stop.cancelled()) return Ok{};
      ++summary_.unprepared;
      context_.events.on_event(
          {Severity::kWarning, "data.unprepared", work.task->name + ": " + baselines.error().message});
      // A failure of the machine or of the service says nothing of the task: the next sitting tries
      // again.
      const ErrorCode code = baselines.error().code;
      if (code != ErrorCode::kInvalid && code != ErrorCode::kInternal) return Ok{};
      return context_.store.update_run(run, "failed", json_text({{"error", baselines.error().message}}));
    }
    LATHE_TRY(auto strategy, make_strategy(options_.strategy));
    const SearchContext search{{work.task, context_.device, context_.peaks},
                               context_.policy,
                               *strategy,
                               context_.evaluator,
                               context_.store,
                               context_.events,
                               context_.stop};
    const SearchOptions budget{
        .max_evaluations = options_.evaluations + (work.begun ? verified_so_far(run) : 0),
        .seed = options_.seed + static_cast<std::uint64_t>(work.index),
        .in_flight = std::max(4, 2 * context_.device.lanes),
        .confirmations = 0};
    LATHE_TRY(const SearchSummary searched, run_search(search, run, budget));
    if (searched.interrupted) return Ok{};
    LATHE_CHECK_OK(verify_others(work, run, baselines->best));
    if (context_.stop.cancelled()) return Ok{};
    const double evaluate_seconds = seconds_since(begin_ns) - prepare_seconds;
    summary_.prepare_seconds += prepare_seconds;
    summary_.evaluate_seconds += evaluate_seconds;
    ++summary_.made;
    return finish(work, run, baselines->best, prepare_seconds, evaluate_seconds);
  }

  Status begin(const std::string& run, const Work& work) {
    RunRecord record;
    record.id = run;
    record.task_name = work.task->name;
    record.task_text = work.task->text;
    record.task = work.task->digest;
    record.config = json_text({{"data_seed", options_.seed},
                               {"index", work.index},
                               {"device", to_json(DeviceRecord{context_.device, context_.peaks})}});
    record.status = "running";
    record.created_unix = unix_seconds();
    return context_.store.create_run(record);
  }

  int verified_so_far(const std::string& run) {
    const auto experiences = context_.store.experiences(run);
    if (!experiences.ok()) return 0;
    return static_cast<int>(
        std::ranges::count(*experiences, Depth::kVerify, [](const auto& e) { return e.verdict.depth; }));
  }

  /// What is not timed: faulty forms of the fastest kernels, and kernels that the policy draws.
  /// Those of earlier sittings are left out.
  Status verify_others(const Work& work, const std::string& run, const std::string& peer) {
    LATHE_TRY(const std::vector<Experience> known, context_.store.experiences(run));
    std::vector<Experience> others = faulty_forms(work, known, peer);
    LATHE_CHECK_OK(add_drawn(work, others));
    std::set<Digest> tried;
    for (const Experience& experience : known) tried.insert(experience.candidate);
    for (Experience& other : others) other.candidate = digest_of(other.candidate_text);
    std::erase_if(others, [&](const Experience& other) { return !tried.insert(other.candidate).second; });
    std::int64_t sequence = 0;
    for (const Experience& experience : known) sequence = std::max(sequence, experience.sequence + 1);
    for (Experience& other : others) {
      other.run = run;
      other.sequence = sequence++;
      other.task_name = work.task->name;
      other.task = work.task->digest;
    }
    return verify(work.task, std::move(others));
  }

  std::vector<Experience> faulty_forms(const Work& work, const std::vector<Experience>& known,
                                       const std::string& peer) const {
    std::vector<const Experience*> passed;
    for (const Experience& experience : known)
      if (experience.verdict.passed() && experience.verdict.depth != Depth::kVerify)
        passed.push_back(&experience);
    const auto low = [&](const Experience* experience) {
      const auto speedup = experience->verdict.speedup(peer);
      return speedup ? -speedup->low : 0.0;
    };
    std::ranges::stable_sort(passed, {}, low);
    Rng rng(Seed::from_number(options_.seed).derive("data.faults", static_cast<std::uint64_t>(work.index)));
    std::vector<Experience> forms;
    for (std::size_t i = 0; i < passed.size() && std::ssize(forms) < options_.faults; ++i) {
      // Half of them in the fastest, then half of the rest.
      const int share = (options_.faults - static_cast<int>(forms.size()) + 1) / 2;
      for (FaultyKernel& faulty : inject_faults(passed[i]->candidate_text, share, rng)) {
        Experience& form = forms.emplace_back();
        form.candidate_text = std::move(faulty.text);
        form.lineage = {{passed[i]->candidate},
                        std::string(kFaultPolicy),
                        std::move(faulty.fault),
                        std::move(faulty.repair)};
      }
    }
    return forms;
  }

  Status add_drawn(const Work& work, std::vector<Experience>& others) const {
    if (options_.verified == 0) return Ok{};
    LATHE_TRY(auto proposals,
              propose_now(context_.policy,
                          {.context = {work.task, context_.device, context_.peaks},
                           .count = options_.verified,
                           .independent = true,
                           .seed = Seed::from_number(options_.seed)
                                       .derive("data.drawn", static_cast<std::uint64_t>(work.index)),
                           .cancel = context_.stop}));
    for (Proposal& proposal : proposals) {
      Experience& drawn = others.emplace_back();
      drawn.candidate_text = std::move(proposal.text);
      drawn.lineage = std::move(proposal.lineage);
    }
    return Ok{};
  }

  struct Flight {
    Experience experience;
    std::int64_t submitted_ns = 0;
  };

  Status verify(const std::shared_ptr<const TaskSpec>& task, std::vector<Experience> experiences) {
    std::map<Ticket, Flight> flights;
    for (auto next = experiences.begin(); next != experiences.end();) {
      const auto ticket = context_.evaluator.submit({.task = task,
                                                     .text = next->candidate_text,
                                                     .name = next->candidate.short_hex(),
                                                     .depth = Depth::kVerify,
                                                     .cancel = context_.stop});
      if (ticket.ok())
        flights.emplace(*ticket, Flight{std::move(*next++), steady_clock().now_ns()});
      else if (ticket.error().code == ErrorCode::kBusy)
        LATHE_CHECK_OK(keep_next(flights));
      else
        return ticket.error();
    }
    while (context_.evaluator.in_flight() > 0) LATHE_CHECK_OK(keep_next(flights));
    return Ok{};
  }

  Status keep_next(std::map<Ticket, Flight>& flights) {
    auto evaluated = context_.evaluator.poll(1);
    if (!evaluated) return Ok{};
    auto flight = flights.extract(evaluated->ticket);
    if (flight.empty() || !evaluated->verdict.ok() || evaluated->verdict->outcome == Outcome::kInfra)
      return Ok{};  // it says nothing of the kernel
    Experience experience = std::move(flight.mapped().experience);
    experience.verdict = *std::move(evaluated->verdict);
    experience.cost_seconds = seconds_since(flight.mapped().submitted_ns);
    experience.created_unix = unix_seconds();
    LATHE_CHECK_OK(context_.store.append(experience));
    return Ok{};
  }

  Status finish(const Work& work, const std::string& run, const std::string& peer, double prepare_seconds,
                double evaluate_seconds) {
    return context_.store.update_run(run, "done",
                                     json_text({{"data_version", kFormatVersion},
                                                {"split", name(work.split)},
                                                {"composition", composition_of(*work.task)},
                                                {"best_peer", peer},
                                                {"prepare_seconds", prepare_seconds},
                                                {"evaluate_seconds", evaluate_seconds}}));
  }

  const DataContext& context_;
  const DataOptions& options_;
  DataSummary summary_;
  int next_index_ = 0;
};

}  // namespace

Result<std::vector<HeldOutTask>> held_out_tasks(const DataOptions& options, const CancelToken& stop) {
  std::vector<std::optional<HeldOutTask>> all(static_cast<std::size_t>(options.tasks));
  LATHE_CHECK_OK(for_each_index(options.tasks, [&](int index) -> Status {
    if (stop.cancelled()) return Ok{};
    std::optional<HeldOutTask>& held = all[static_cast<std::size_t>(index)];
    LATHE_TRY(TaskSpec task, generated(options, index));
    if (is_held_out(composition_of(task))) {
      held = HeldOutTask{std::make_shared<const TaskSpec>(std::move(task)), Split::kCompositions};
      return Ok{};
    }
    const auto text = reshape_for_exam(task, options.seed, index);
    if (!text.ok()) return Ok{};  // too small for other extents
    LATHE_TRY(TaskSpec reshaped, parse_task(*text, "reshaped"));
    held = HeldOutTask{std::make_shared<const TaskSpec>(std::move(reshaped)), Split::kShapes};
    return Ok{};
  }));
  std::vector<HeldOutTask> tasks;
  for (std::optional<HeldOutTask>& held : all)
    if (held) tasks.push_back(*std::move(held));
  return tasks;
}

std::string data_run_id(std::uint64_t seed, int index) { return fmt::format("data-{}-{}", seed, index); }

Result<DataSummary> make_data(const DataContext& context, const DataOptions& options) {
  return Factory(context, options).run();
}

}  // namespace lathe

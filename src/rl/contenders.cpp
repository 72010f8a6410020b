#include "rl/contenders.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/output.h"
#include "contest/standing.h"
#include "record/json.h"
#include "reward/reward.h"

namespace lathe::rl {
namespace {

constexpr std::size_t kParents = 4;  // the best so far, of which one is changed
constexpr int kMostTries = 32;       // for a row that was not measured yet

/// What one entrant's evaluations of one task gave.
class Candidacy {
 public:
  Candidacy(const TableExam& exam, std::size_t task, std::string entrant, bool ordered)
      : exam_(exam), task_(task), entrant_(std::move(entrant)), ordered_(ordered), gym_(exam.table) {}

  Status evaluate(const std::string& text, std::int64_t number) {
    const TableRow* const row = task().find(text);
    if (row == nullptr) return invalid(entrant_ + " answered with what was not measured: " + text);
    const Gym::Question question{task_, text};
    const Seed seed = exam_.seed.derive(entrant_ + " " + std::string(gym_.task_name(task_)),
                                        static_cast<std::uint64_t>(number));
    LATHE_TRY(const auto verdicts, gym_.judge(std::span(&question, 1), seed));
    const Verdict& verdict = verdicts.front();
    const std::string peer(gym_.peer(task_));
    ContestSample sample{.entrant = entrant_,
                         .ordered = ordered_,
                         .device = exam_.table.device,
                         .language = "schedule",
                         .threads = 1,
                         .group = "table",
                         .task_name = std::string(gym_.task_name(task_)),
                         .task = verdict.task,
                         .number = number,
                         .candidate = verdict.candidate,
                         .outcome = verdict.outcome,
                         .reason = verdict.reason,
                         .peer = peer};
    if (verdict.passed()) {
      sample.speedup_low = speedup_low(verdict, peer);
      sample.speedup = verdict.speedup(peer)->mid;
    }
    if (number > 0) scores_.emplace_back(sample.speedup_low, row->text());
    samples_.push_back(std::move(sample));
    return Ok{};
  }

  const TableTask& task() const { return exam_.table.tasks[task_]; }
  bool knows(const std::string& text) const {
    const TableRow* const row = task().find(text);
    return row != nullptr && std::ranges::find(scores_, row->text(), &Score::second) != scores_.end();
  }
  /// One of the best so far.
  const TableRow& parent(Rng& rng) {
    const std::size_t count = std::min(kParents, scores_.size());
    std::ranges::partial_sort(scores_, scores_.begin() + static_cast<std::ptrdiff_t>(count), std::greater());
    return *task().find(scores_[rng.below(count)].second);
  }
  std::vector<ContestSample> take() { return std::move(samples_); }

 private:
  using Score = std::pair<double, std::string>;

  const TableExam& exam_;
  std::size_t task_;
  std::string entrant_;
  bool ordered_;
  TableGym gym_;
  std::vector<Score> scores_;
  std::vector<ContestSample> samples_;
};

const TableRow& draw_row(const TableTask& task, Rng& rng, const TableRow* parent = nullptr,
                         std::size_t changed = 0) {
  if (task.nodes().empty()) return task.rows().front();
  const TableTask::Node* node = &task.nodes().front();
  for (std::size_t depth = 0;; ++depth) {
    auto next = node->next.end();
    if (parent != nullptr && depth < parent->choices.size() && depth != changed &&
        parent->choices[depth].site == node->site)
      next = node->next.find(parent->choices[depth].value);
    if (next == node->next.end())
      next = std::next(node->next.begin(), static_cast<std::ptrdiff_t>(rng.below(node->next.size())));
    if (node->last) return task.rows()[next->second];
    node = &task.nodes()[next->second];
  }
}

/// A change of one decision of a good kernel that was not measured yet, if one is found soon.
const TableRow& mutated(Candidacy& candidacy, Rng& rng) {
  const TableRow* row = nullptr;
  for (int tries = 0; tries < kMostTries; ++tries) {
    const TableRow& parent = candidacy.parent(rng);
    if (parent.choices.empty()) return parent;
    row = &draw_row(candidacy.task(), rng, &parent, rng.below(parent.choices.size()));
    if (!candidacy.knows(row->text())) break;
  }
  return *row;
}

/// An actor's independent answers to a task, many drawn together: a language model writes them side
/// by side.
class Proposals {
 public:
  Proposals(const TableExam& exam, Actor& actor, const std::string& name, std::int64_t at_once)
      : actor_(actor),
        seed_(exam.seed.derive(name + " proposes")),
        at_once_(static_cast<std::size_t>(std::max<std::int64_t>(1, at_once))) {}

  Result<std::string> next(std::size_t task) {
    if (task_ != task || given_ == answers_.size()) {
      draws_ = task_ == task ? draws_ + 1 : 0;
      task_ = task, given_ = 0;
      const std::vector<Prompt> prompts(at_once_, {.task = task});
      LATHE_TRY(answers_, actor_.sample(prompts, seed_.derive("task", task).derive("draw", draws_)));
    }
    return answers_[given_++].text;
  }

 private:
  Actor& actor_;
  Seed seed_;
  std::size_t at_once_;
  std::optional<std::size_t> task_;
  std::uint64_t draws_ = 0;
  std::vector<Answer> answers_;
  std::size_t given_ = 0;
};

/// All tasks' evaluations by `propose(candidacy, number, rng)`, which names the row to measure.
template <class Propose>
Result<std::vector<ContestSample>> all_tasks(const TableExam& exam, const std::string& entrant, bool ordered,
                                             std::int64_t count, Propose propose) {
  std::vector<ContestSample> all;
  for (const std::size_t task : exam.tasks) {
    Candidacy candidacy(exam, task, entrant, ordered);
    Rng rng(exam.seed.derive(entrant, task));
    for (std::int64_t number = 1; number <= count; ++number) {
      LATHE_TRY(const std::string text, propose(candidacy, task, number, rng));
      LATHE_CHECK_OK(candidacy.evaluate(text, number));
    }
    for (ContestSample& sample : candidacy.take()) all.push_back(std::move(sample));
  }
  return all;
}

}  // namespace

std::vector<ContestSample> contend_controls(const TableExam& exam) {
  std::vector<ContestSample> all;
  const auto add = [&](Result<std::vector<ContestSample>> samples) {
    for (ContestSample& sample : *samples) all.push_back(std::move(sample));
  };
  add(all_tasks(exam, "default", true, 1,
                [](Candidacy& candidacy, std::size_t, std::int64_t, Rng&) -> Result<std::string> {
                  return candidacy.task().usual().text();
                }));
  add(all_tasks(exam, "random", false, exam.samples,
                [](Candidacy& candidacy, std::size_t, std::int64_t, Rng& rng) -> Result<std::string> {
                  return draw_row(candidacy.task(), rng).text();
                }));
  add(all_tasks(exam, "evolve", true, exam.samples,
                [](Candidacy& candidacy, std::size_t, std::int64_t number, Rng& rng) -> Result<std::string> {
                  return number == 1 ? candidacy.task().usual().text() : mutated(candidacy, rng).text();
                }));
  return all;
}

Result<std::vector<ContestSample>> contend(const TableExam& exam, Actor& actor, const std::string& name) {
  Proposals proposals(exam, actor, name, exam.samples);
  LATHE_TRY(std::vector<ContestSample> all,
            all_tasks(exam, name, false, exam.samples, [&](Candidacy&, std::size_t task, std::int64_t, Rng&) {
              return proposals.next(task);
            }));
  for (const std::size_t task : exam.tasks) {
    Candidacy candidacy(exam, task, name, false);
    LATHE_TRY(const Answer answer, actor.greedy({.task = task}));
    LATHE_CHECK_OK(candidacy.evaluate(answer.text, 0));
    for (ContestSample& sample : candidacy.take()) all.push_back(std::move(sample));
  }
  return all;
}

Result<std::vector<ContestSample>> contend_without_repeats(const TableExam& exam, Actor& actor,
                                                           const std::string& name) {
  Proposals proposals(exam, actor, name, exam.samples);
  return all_tasks(
      exam, name, true, exam.samples,
      [&](Candidacy& candidacy, std::size_t task, std::int64_t number, Rng&) -> Result<std::string> {
        if (number == 1) {
          LATHE_TRY(Answer answer, actor.greedy({.task = task}));
          return std::move(answer.text);
        }
        std::string text;
        for (int tries = 0; tries < kMostTries; ++tries) {
          LATHE_TRY(text, proposals.next(task));
          if (!candidacy.knows(text)) break;
        }
        return text;
      });
}

Result<std::vector<ContestSample>> contend_in_order(const TableExam& exam, ChoiceActor& actor,
                                                    const std::string& name) {
  std::vector<ContestSample> all;
  for (const std::size_t task : exam.tasks) {
    Candidacy candidacy(exam, task, name, true);
    const std::vector<std::string> ranked = actor.ranked({.task = task});
    for (std::int64_t number = 1; number <= exam.samples; ++number)
      LATHE_CHECK_OK(
          candidacy.evaluate(ranked[static_cast<std::size_t>(number - 1) % ranked.size()], number));
    for (ContestSample& sample : candidacy.take()) all.push_back(std::move(sample));
  }
  return all;
}

Result<std::vector<ContestSample>> contend_in_evolution(const TableExam& exam, Actor& actor,
                                                        const std::string& name) {
  Proposals proposals(exam, actor, name, exam.samples / 2);
  return all_tasks(
      exam, name, true, exam.samples,
      [&](Candidacy& candidacy, std::size_t task, std::int64_t number, Rng& rng) -> Result<std::string> {
        if (number % 2 == 0) return mutated(candidacy, rng).text();
        if (number > 1) return proposals.next(task);
        LATHE_TRY(Answer answer, actor.greedy({.task = task}));
        return std::move(answer.text);
      });
}

Result<std::string> write_standing(std::span<const ContestSample> samples, const std::string& subject,
                                   const std::string& folder) {
  std::string lines;
  for (const ContestSample& sample : samples) lines += json_text(to_json(sample)) + "\n";
  LATHE_CHECK_OK(write_output(folder + "/exam.jsonl", lines));
  LATHE_TRY(std::string table, Standing({samples.begin(), samples.end()}).table(subject));
  LATHE_CHECK_OK(write_output(folder + "/table.md", table));
  return table;
}

std::vector<std::size_t> held_out_tasks(const ScheduleTable& table, double share, std::int64_t part) {
  std::vector<std::pair<Digest, std::size_t>> order;
  for (std::size_t i = 0; i < table.tasks.size(); ++i)
    order.emplace_back(digest_of("held out " + table.tasks[i].id().composition), i);
  std::ranges::sort(order);
  const auto border = [&](std::int64_t parts) {
    const double place =
        std::min(1.0, share * static_cast<double>(parts)) * static_cast<double>(order.size());
    auto at = order.begin() + static_cast<std::ptrdiff_t>(place);
    while (at != order.begin() && at != order.end() && at->first == std::prev(at)->first) --at;
    return at;
  };
  std::vector<std::size_t> tasks;
  const auto end = border(part + 1);
  for (auto at = border(part); at != end; ++at) tasks.push_back(at->second);
  std::ranges::sort(tasks);
  return tasks;
}

}  // namespace lathe::rl

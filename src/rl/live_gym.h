#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "data/split.h"
#include "gym/evaluator.h"
#include "rl/actor.h"

namespace lathe::rl {

/// A gym that builds, verifies and times candidates at depth `screen`: of this process, or of a
/// service (serve/client). All of a step's are under way at once; equal texts of a task are judged
/// once. What an evaluation could not say of its candidate, because a deadline passed or the task
/// cannot be prepared, is INFRA. One thread.
class LiveGym final : public Gym {
 public:
  /// Once `cancel` is raised, judge() ends with kCancelled. `evaluator` must outlive it and have no
  /// other user.
  LiveGym(std::vector<std::shared_ptr<const TaskSpec>> tasks, Evaluator& evaluator, CancelToken cancel);

  std::size_t tasks() const override { return tasks_.size(); }
  std::string_view task_name(std::size_t task) const override { return tasks_[task]->name; }
  std::string composition(std::size_t task) const override { return composition_of(*tasks_[task]); }
  std::string_view peer(std::size_t task) const override { return peers_[task]; }
  /// Has their peers timed meanwhile.
  void expect(std::span<const std::size_t> tasks) override;
  void begin(const Question& question) override;
  /// The seed is not used: a real gym draws its inputs in secret. Errors: kUnavailable where nobody
  /// judges any of them.
  Result<std::vector<Verdict>> judge(std::span<const Question> questions, const Seed& seed) override;

 private:
  /// A text of a task, and what became of it.
  struct Case {
    std::size_t task = 0;
    std::string text;
    std::optional<Error> unreadable;
    Result<Verdict> verdict = Error{};
  };
  /// The number of its case, which is new where nobody has asked for that text of that task.
  std::size_t case_of(const Question& question);
  /// Verdicts of the cases of these numbers, once all that are known have one.
  Result<std::vector<Verdict>> judge_cases(std::span<const std::size_t> asked);
  /// Puts cases under way, as many as the gym takes.
  void submit();
  void take(double patience_seconds);
  void withdraw();
  Status find_peers();
  void ask_for_peer(std::size_t task);
  /// An answer has passed, and the task's peer is not known.
  bool lacks_peer(const Case& one) const {
    return one.verdict.ok() && one.verdict->passed() && peers_[one.task].empty();
  }

  std::vector<std::shared_ptr<const TaskSpec>> tasks_;
  Evaluator& evaluator_;
  CancelToken cancel_;
  std::vector<std::string> peers_;  ///< [task]; empty: not known yet
  std::set<std::size_t> asked_;     ///< tasks whose peers are being timed
  std::vector<Case> cases_;         ///< up to the next judge()'s end
  std::map<std::tuple<std::size_t, std::string, bool>, std::size_t> known_;  ///< in `cases_`
  std::size_t submitted_ = 0;                                                ///< of `cases_`
  std::vector<std::pair<Ticket, std::size_t>> under_way_;
};

}  // namespace lathe::rl

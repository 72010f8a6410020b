#pragma once

#include <span>
#include <vector>

#include "contest/sample.h"
#include "rl/choice_actor.h"
#include "rl/table.h"

namespace lathe::rl {

/// How an exam on a table is sat: by whom is said in `contend`.
struct TableExam {
  const ScheduleTable& table;
  std::vector<std::size_t> tasks;
  std::int64_t samples = 64;  ///< evaluations of each entrant at each task
  Seed seed = {};
};

/// The control entrants: "default", what the catalogue writes first, or the row that is nearest to
/// it (TableTask::has_default()); "random", a value of each
/// decision drawn evenly; "evolve", the default and then changes of one decision of the best
/// kernels so far.
std::vector<ContestSample> contend_controls(const TableExam& exam);

/// Independent samples of a learned actor and its greedy answer, as entrant `name`.
Result<std::vector<ContestSample>> contend(const TableExam& exam, Actor& actor, const std::string& name);

/// The actor's likeliest row, then draws from it, each new as far as one is found soon: what a
/// search with the policy asks for.
Result<std::vector<ContestSample>> contend_without_repeats(const TableExam& exam, Actor& actor,
                                                           const std::string& name);

/// The actor's rows from the likeliest on; from the beginning again where there are no more.
Result<std::vector<ContestSample>> contend_in_order(const TableExam& exam, ChoiceActor& actor,
                                                    const std::string& name);

/// The actor proposes inside evolution: half of the evaluations, in turn with changes of the best
/// so far.
Result<std::vector<ContestSample>> contend_in_evolution(const TableExam& exam, Actor& actor,
                                                        const std::string& name);

/// Leaves `folder`/exam.jsonl, a line for each evaluation, and `folder`/table.md: where `subject`
/// stands among all entrants. Returns the table.
Result<std::string> write_standing(std::span<const ContestSample> samples, const std::string& subject,
                                   const std::string& folder);

/// Which tasks are held out: a share of all at most, by whole compositions, chosen by their names,
/// so that it is the same for all seeds. Parts 0, 1 and so on have no task in common; together
/// they are all.
std::vector<std::size_t> held_out_tasks(const ScheduleTable& table, double share, std::int64_t part = 0);

}  // namespace lathe::rl

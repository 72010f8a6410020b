#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/statistics.h"
#include "policy/choice_space.h"
#include "record/experience.h"
#include "reward/reward.h"
#include "rl/actor.h"

namespace lathe::rl {

/// A schedule that was measured: the choices that lead to it and what it was worth.
struct TableRow {
  struct Choice {
    std::size_t site = 0;   ///< of the task's
    std::size_t value = 0;  ///< of the site's allowed ones

    bool operator==(const Choice&) const = default;
  };
  std::vector<Choice> choices;
  Outcome outcome = Outcome::kInfra;
  std::string reason = {};
  Interval speedup = {};  ///< over the task's fastest peer, over all scored shapes; 0 for what did not pass
  std::string schedule = {};  ///< as a language model writes it; empty: the table does not say

  std::string text() const;  ///< "0:2 1:0 4:3": names the row in its task
};

/// What a table says of a task apart from its schedules.
struct TableTaskId {
  std::string name;
  std::string composition;  ///< its operations: tasks of one composition are held out together
  Digest task;
  std::string peer;  ///< the fastest, which speedups are over
  /// What a language model is asked, where the rows have their schedules' texts: the system's
  /// message and the user's.
  std::string system = {}, prompt = {};
};

/// All measured schedules of a task, and the tree of decisions that they span.
class TableTask {
 public:
  /// Errors: kInvalid for rows that decide different things after the same choices, that are the
  /// same, or that name sites or values which do not exist; for a prompt without all rows'
  /// schedules, or schedules without a prompt.
  static Result<TableTask> make(TableTaskId id, std::vector<ChoiceSite> sites, std::vector<TableRow> rows);

  struct Node {
    std::size_t site = 0;
    std::map<std::size_t, std::size_t> next;  ///< by value: a node, or at the end a row
    bool last = false;                        ///< `next` are rows
  };

  const TableTaskId& id() const { return id_; }
  const std::string& name() const { return id_.name; }
  const std::vector<ChoiceSite>& sites() const { return sites_; }
  const std::vector<TableRow>& rows() const { return rows_; }
  const std::vector<Node>& nodes() const {
    return nodes_;
  }  ///< the first is the root; none: one row, no choice
  /// By a row's text() or its schedule.
  const TableRow* find(std::string_view text) const;
  /// Whether a language model can be asked.
  bool is_written() const { return !id_.prompt.empty(); }
  /// The row that usual values lead to, as far as they were measured.
  const TableRow& usual() const;
  bool has_default() const;  ///< usual() is what the catalogue writes first

 private:
  TableTaskId id_;
  std::vector<ChoiceSite> sites_;
  std::vector<TableRow> rows_;
  std::vector<Node> nodes_;
  std::map<std::string, std::size_t, std::less<>> by_text_;
};

/// Errors: kInvalid for a reward that needs what no table tells of its rows.
Status check_told_by_table(const Reward& reward);

/// Measured schedules of many tasks on one device.
struct ScheduleTable {
  std::string device;
  std::vector<TableTask> tasks;
};

/// The rows that these experiences of one task give: what the catalogue wrote, each schedule once,
/// failures of the machine left out. Experiences of other policies are passed over. `schedule_of`
/// gives rows' schedules where the id has a prompt.
Result<TableTask> tabulate(TableTaskId id, const ChoiceSpace& space, std::span<const Experience> experiences,
                           const std::function<Result<std::string>(const Experience&)>& schedule_of = {});

/// JSON Lines: the device, then a task a line.
std::string to_text(const ScheduleTable& table);
/// Errors: kInvalid with the line. Untrusted text.
Result<ScheduleTable> parse_table(std::string_view text);

/// A gym that replays a table: an evaluation takes a microsecond, and none is lost. Each verdict's
/// interval is moved by a draw from its own width, as if the kernel were measured again, so that
/// luck has no memory. `table` must outlive it.
class TableGym final : public Gym {
 public:
  explicit TableGym(const ScheduleTable& table) : table_(table) {}

  std::size_t tasks() const override { return table_.tasks.size(); }
  std::string_view task_name(std::size_t task) const override { return table_.tasks[task].name(); }
  std::string composition(std::size_t task) const override { return table_.tasks[task].id().composition; }
  std::string_view peer(std::size_t task) const override { return table_.tasks[task].id().peer; }
  /// Errors: kInvalid for a text that names no row.
  Result<std::vector<Verdict>> judge(std::span<const Question> questions, const Seed& seed) override;

 private:
  const ScheduleTable& table_;
};

}  // namespace lathe::rl

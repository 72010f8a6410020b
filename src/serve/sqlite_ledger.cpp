#include "serve/sqlite_ledger.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "record/json.h"
#include "serve/serve_database.h"

namespace lathe::serve {
namespace {

#define LATHE_REPORT_FIELDS                                                                    \
  "r.evaluation, e.task, e.candidate, e.depth, e.device_kind, e.gym_version, r.state, r.tag, " \
  "r.priority, r.submitted_unix_ms, r.finished_unix_ms, r.sequence, e.verdict, e.error "
#define LATHE_REPORT_COLUMNS \
  "SELECT " LATHE_REPORT_FIELDS "FROM requests r JOIN evaluations e ON e.id = r.evaluation "

std::int64_t number(State state) { return static_cast<std::int64_t>(state); }

Result<State> state_from(std::int64_t number, const std::string& path) {
  if (number < 0 || number > static_cast<std::int64_t>(State::kExpired))
    return Error{ErrorCode::kCorrupt, "'" + path + "' has a request in state " + std::to_string(number)};
  return static_cast<State>(number);
}

/// Columns id, task, candidate, depth, device_kind, gym_version from the first.
Result<EvaluationKey> key_from(const Statement& row) {
  EvaluationKey key;
  LATHE_TRY(key.task, Digest::from_hex(row.text(1)));
  LATHE_TRY(key.candidate, Digest::from_hex(row.text(2)));
  LATHE_TRY(key.depth, parse_depth(row.text(3)));
  key.device_kind = row.text(4);
  key.gym_version = row.text(5);
  return key;
}

class SqliteLedger final : public Ledger {
 public:
  SqliteLedger(Database database, UniqueFd lock)
      : lock_(std::move(lock)), database_(std::move(database)), statements_(database_) {}

  Status count_unfinished() {
    LATHE_TRY(auto select,
              statements_.use("SELECT client, count(*) FROM requests WHERE state = 0 GROUP BY client"));
    for (;;) {
      LATHE_TRY(const bool row, select->step());
      if (!row) return Ok{};
      unfinished_[select->text(0)] = select->integer(1);
      all_unfinished_ += select->integer(1);
    }
  }

  Result<LedgerOutcome> write(const LedgerChanges& changes) override {
    const auto before = unfinished_;
    const std::int64_t all_before = all_unfinished_;
    auto outcome = write_all(changes);
    if (!outcome.ok()) {
      unfinished_ = before;
      all_unfinished_ = all_before;
    }
    return outcome;
  }

  Result<std::vector<std::optional<Report>>> find(std::span<const Name> names) override {
    std::vector<std::optional<Report>> reports;
    for (const auto& [client, id] : names) {
      LATHE_TRY(auto select, statements_.use(LATHE_REPORT_COLUMNS "WHERE r.client = ? AND r.evaluation = ?"));
      LATHE_TRY(const bool row, select->bind(client).bind(id.hex()).step());
      reports.emplace_back();
      if (!row) continue;
      LATHE_TRY(reports.back(), report_from(*select));
    }
    return reports;
  }

  Result<std::vector<std::optional<NamedReport>>> find_named(std::span<const NameQuery> queries) override {
    std::vector<std::optional<NamedReport>> all;
    for (const NameQuery& query : queries) {
      LATHE_TRY(all.emplace_back(), named(query));
    }
    return all;
  }

  Result<std::vector<std::vector<Report>>> finished(std::span<const FinishedQuery> queries) override {
    std::vector<std::vector<Report>> all;
    for (const FinishedQuery& query : queries) {
      LATHE_TRY(all.emplace_back(), finished_after(query));
    }
    return all;
  }

  Result<std::vector<Pending>> pending() override {
    LATHE_TRY(
        auto select,
        statements_.use("SELECT r.evaluation, e.task, e.candidate, e.depth, e.device_kind, e.gym_version, "
                        "r.client, r.tag, r.trace, r.priority, r.deadline_unix_ms, r.submitted_unix_ms, "
                        "e.lost_workers FROM requests r JOIN evaluations e ON e.id = r.evaluation "
                        "WHERE r.state = 0 ORDER BY r.submitted_unix_ms, r.evaluation"));
    std::vector<Pending> all;
    for (;;) {
      LATHE_TRY(const bool row, select->step());
      if (!row) return all;
      Pending pending;
      Submission& submission = pending.submission;
      LATHE_TRY(submission.key, key_from(*select));
      submission.client = select->text(6);
      submission.tag = select->text(7);
      submission.trace = select->text(8);
      submission.priority = static_cast<int>(select->integer(9));
      submission.deadline_unix_ms = select->integer(10);
      submission.submitted_unix_ms = select->integer(11);
      pending.lost_workers = static_cast<int>(select->integer(12));
      all.push_back(std::move(pending));
    }
  }

  Result<std::vector<Wanted>> wanted(std::span<const Digest> ids) override {
    LATHE_TRY(const auto all, pending());
    std::map<Digest, Wanted> found;
    for (const Pending& one : all) {
      const Digest id = one.submission.key.id();
      if (std::find(ids.begin(), ids.end(), id) == ids.end()) continue;
      const auto [wanted, is_new] = found.try_emplace(id);
      if (is_new) {
        wanted->second.submission = one.submission;
        wanted->second.lost_workers = one.lost_workers;
        LATHE_TRY(wanted->second.submission.candidate, candidate(id));
      }
      wanted->second.deadlines_unix_ms.emplace_back(one.submission.client, one.submission.deadline_unix_ms);
    }
    std::vector<Wanted> result;
    for (auto& [id, wanted] : found) result.push_back(std::move(wanted));
    return result;
  }

  Result<std::vector<Name>> overdue(std::int64_t grace_ms) override {
    LATHE_TRY(
        auto select,
        statements_.use("SELECT client, evaluation FROM requests WHERE state = 0 AND "
                        "deadline_unix_ms > 0 AND deadline_unix_ms < unixepoch() * 1000 - ? LIMIT 1000"));
    select->bind(grace_ms);
    std::vector<Name> names;
    for (;;) {
      LATHE_TRY(const bool row, select->step());
      if (!row) return names;
      LATHE_TRY(const Digest id, Digest::from_hex(select->text(1)));
      names.emplace_back(select->text(0), id);
    }
  }

  Result<std::int64_t> forget(std::int64_t ended_before_unix_ms, int most) override {
    LATHE_TRY(Transaction transaction, Transaction::begin(database_));
    std::vector<std::pair<std::string, std::string>> gone;  // clients and evaluations
    {
      LATHE_TRY(
          auto remove,
          statements_.use(
              "DELETE FROM requests WHERE (client, evaluation) IN (SELECT client, evaluation FROM requests "
              "WHERE state <> 0 AND finished_unix_ms < ? LIMIT ?) RETURNING client, evaluation"));
      remove->bind(ended_before_unix_ms).bind(std::int64_t{most});
      for (;;) {
        LATHE_TRY(const bool row, remove->step());
        if (!row) break;
        gone.emplace_back(remove->text(0), remove->text(1));
      }
    }
    for (const auto& [client, id] : gone) {
      LATHE_TRY(auto names, statements_.use("DELETE FROM names WHERE client = ? AND evaluation = ?"));
      LATHE_CHECK_OK(names->bind(client).bind(id).run());
      LATHE_TRY(auto verdict,
                statements_.use("DELETE FROM evaluations WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM "
                                "requests WHERE evaluation = ?1)"));
      LATHE_CHECK_OK(verdict->bind(id).run());
    }
    LATHE_CHECK_OK(transaction.commit());
    return static_cast<std::int64_t>(gone.size());
  }

  Result<std::vector<std::string>> candidates(std::span<const Digest> ids) override {
    std::vector<std::string> texts;
    for (const Digest& id : ids) {
      LATHE_TRY(texts.emplace_back(), candidate(id));
    }
    return texts;
  }

  Result<std::int64_t> unfinished() override { return all_unfinished_; }

  Result<std::optional<StoredTask>> task(const Digest& digest) override {
    LATHE_TRY(auto select, statements_.use("SELECT name, text FROM tasks WHERE digest = ?"));
    LATHE_TRY(const bool row, select->bind(digest.hex()).step());
    if (!row) return std::optional<StoredTask>();
    return std::optional(StoredTask{digest, select->text(0), select->text(1)});
  }

  Result<std::vector<StoredTask>> tasks() override {
    LATHE_TRY(auto select, statements_.use("SELECT digest, name FROM tasks ORDER BY name, digest"));
    std::vector<StoredTask> all;
    for (;;) {
      LATHE_TRY(const bool row, select->step());
      if (!row) return all;
      LATHE_TRY(const Digest digest, Digest::from_hex(select->text(0)));
      all.push_back({digest, select->text(1), {}});
    }
  }

 private:
  Result<LedgerOutcome> write_all(const LedgerChanges& changes) {
    LATHE_TRY(Transaction transaction, Transaction::begin(database_));
    LedgerOutcome outcome;
    if (changes.probe)
      LATHE_CHECK_OK(
          database_.execute("CREATE TABLE IF NOT EXISTS probe (bytes BLOB NOT NULL); "
                            "INSERT INTO probe VALUES (randomblob(65536))"));
    for (const Digest& id : changes.lost_workers) {
      LATHE_TRY(outcome.lost_workers.emplace_back(), count_lost_worker(id));
    }
    for (const LedgerChanges::End& end : changes.ends) {
      LATHE_TRY(outcome.ends.emplace_back(), conclude(end, changes.unix_ms));
    }
    for (const LedgerChanges::Withdraw& one : changes.withdrawals) {
      LATHE_TRY(outcome.withdrawals.emplace_back(), withdraw(one, changes.unix_ms));
    }
    for (const LedgerChanges::Entry& entry : changes.submissions) {
      std::int64_t& deadline = outcome.deadlines_unix_ms.emplace_back(entry.submission.deadline_unix_ms);
      LATHE_TRY(outcome.submissions.emplace_back(), admit(entry, changes.max_all, deadline));
      if (!is_refused(outcome.submissions.back())) LATHE_CHECK_OK(put_name(entry.submission));
    }
    for (const StoredTask& task : tasks_to_keep(changes, outcome.submissions)) LATHE_CHECK_OK(add_task(task));
    LATHE_CHECK_OK(transaction.commit());
    if (changes.probe) (void)database_.execute("DROP TABLE probe");
    if (!changes.looks.empty())
      if (auto reports = find(changes.looks); reports.ok()) outcome.looks = *std::move(reports);
    return outcome;
  }

  Result<std::vector<Report>> finished_after(const FinishedQuery& query) {
    LATHE_TRY(auto select,
              statements_.use(LATHE_REPORT_COLUMNS "WHERE r.client = ? AND r.sequence > ? AND r.sequence > 0 "
                                                   "ORDER BY r.sequence LIMIT ?"));
    select->bind(query.client).bind(query.sequence).bind(static_cast<std::int64_t>(query.limit));
    std::vector<Report> reports;
    for (;;) {
      LATHE_TRY(const bool row, select->step());
      if (!row) return reports;
      LATHE_TRY(Report report, report_from(*select));
      reports.push_back(std::move(report));
    }
  }

  Result<std::optional<NamedReport>> named(const NameQuery& query) {
    LATHE_TRY(auto select,
              statements_.use("SELECT " LATHE_REPORT_FIELDS
                              ", n.details, n.submitted_unix_ms, n.deadline_unix_ms, n.cancelled_unix_ms "
                              "FROM names n JOIN requests r ON r.client = n.client AND "
                              "r.evaluation = n.evaluation JOIN evaluations e ON e.id = n.evaluation "
                              "WHERE n.client = ?1 AND n.name = ?2 AND ?3 IN ('', n.evaluation) "
                              "ORDER BY n.number DESC LIMIT 1"));
    LATHE_TRY(
        const bool row,
        select->bind(query.client).bind(query.name).bind(query.id ? query.id->hex() : std::string()).step());
    if (!row) return std::optional<NamedReport>();
    NamedReport named;
    LATHE_TRY(named.report, report_from(*select));
    named.details = select->text(14);
    named.submitted_unix_ms = select->integer(15);
    named.deadline_unix_ms = select->integer(16);
    named.cancelled_unix_ms = select->integer(17);
    return std::optional(std::move(named));
  }

  Result<std::string> candidate(const Digest& id) {
    LATHE_TRY(auto select, statements_.use("SELECT text FROM evaluations WHERE id = ?"));
    LATHE_TRY(const bool row, select->bind(id.hex()).step());
    if (!row) return Error{ErrorCode::kNotFound, "there is no evaluation " + id.hex()};
    return select->text(0);
  }

  Status add_task(const StoredTask& task) {
    LATHE_TRY(auto insert,
              statements_.use("INSERT OR IGNORE INTO tasks (digest, name, text) VALUES (?, ?, ?)"));
    return insert->bind(task.digest.hex()).bind(task.name).bind(task.text).run();
  }

  void count(const std::string& client, std::int64_t more) {
    all_unfinished_ += more;
    const auto own = unfinished_.try_emplace(client).first;
    own->second += more;
    if (own->second == 0) unfinished_.erase(own);
  }

  Result<Admission> admit(const LedgerChanges::Entry& entry, std::int64_t max_all,
                          std::int64_t& deadline_unix_ms) {
    const Submission& submission = entry.submission;
    const std::string id = submission.key.id().hex();
    LATHE_TRY(const auto own, own_request(submission.client, id));
    if (own == State::kQueued) {
      LATHE_TRY(deadline_unix_ms, put_off(submission, id));
      return Admission::kJoined;
    }
    LATHE_TRY(const auto evaluation, state_of(id));
    if (evaluation.exists && evaluation.lasting) {
      if (own == State::kDone) return Admission::kKnown;
      LATHE_TRY(const auto next, next_number());
      LATHE_CHECK_OK(put_request(submission, id, State::kDone, next));
      return Admission::kKnown;
    }
    LATHE_TRY(const bool wanted, is_wanted(id));
    const auto mine = unfinished_.find(submission.client);
    if (!wanted && (mine == unfinished_.end() ? 0 : mine->second) >= entry.max_own)
      return Admission::kRefusedOwn;
    if (!wanted && all_unfinished_ >= max_all) return Admission::kRefused;
    if (!evaluation.exists) LATHE_CHECK_OK(add_evaluation(submission, id));
    if (evaluation.exists && !wanted) LATHE_CHECK_OK(reopen(id));
    LATHE_CHECK_OK(put_request(submission, id, State::kQueued, 0));
    count(submission.client, 1);
    return wanted ? Admission::kJoined : Admission::kNew;
  }

  Result<std::int64_t> deadline_of(const std::string& client, const std::string& id) {
    LATHE_TRY(auto select,
              statements_.use("SELECT deadline_unix_ms FROM requests WHERE client = ? AND evaluation = ?"));
    LATHE_TRY(const bool row, select->bind(client).bind(id).step());
    return row ? select->integer(0) : 0;
  }

  Result<std::int64_t> put_off(const Submission& submission, const std::string& id) {
    LATHE_TRY(const std::int64_t before, deadline_of(submission.client, id));
    const std::int64_t later = later_deadline(before, submission.deadline_unix_ms);
    if (later != before) LATHE_CHECK_OK(set_deadline(submission.client, id, later));
    return later;
  }

  Status set_deadline(const std::string& client, const std::string& id, std::int64_t unix_ms) {
    LATHE_TRY(auto update, statements_.use("UPDATE requests SET deadline_unix_ms = ? WHERE client = ? AND "
                                           "evaluation = ?"));
    return update->bind(unix_ms).bind(client).bind(id).run();
  }

  Result<int> count_lost_worker(const Digest& id) {
    LATHE_TRY(auto update, statements_.use("UPDATE evaluations SET lost_workers = lost_workers + 1 "
                                           "WHERE id = ? RETURNING lost_workers"));
    LATHE_TRY(const bool row, update->bind(id.hex()).step());
    return row ? static_cast<int>(update->integer(0)) : 0;
  }

  Result<LedgerOutcome::Ended> conclude(const LedgerChanges::End& end, std::int64_t unix_ms) {
    const Conclusion& conclusion = end.conclusion;
    const bool done = conclusion.state == State::kDone;
    {
      LATHE_TRY(auto update, statements_.use("UPDATE evaluations SET state = ?, lasting = ?, verdict = ?, "
                                             "error = ? WHERE id = ? AND state = 0"));
      LATHE_CHECK_OK(update->bind(number(conclusion.state))
                         .bind(std::int64_t{conclusion.lasting()})
                         .bind(done ? json_text(to_json(conclusion.verdict)) : std::string())
                         .bind(conclusion.error)
                         .bind(end.id.hex())
                         .run());
      if (database_.changes() == 0) return LedgerOutcome::Ended{};
    }
    LATHE_TRY(const auto next, next_number());
    LATHE_TRY(auto finish,
              statements_.use("UPDATE requests SET state = ?, finished_unix_ms = ?, sequence = ? "
                              "WHERE evaluation = ? AND state = 0 RETURNING client"));
    finish->bind(number(conclusion.state)).bind(unix_ms).bind(next).bind(end.id.hex());
    LedgerOutcome::Ended ended{true, {}};
    for (;;) {
      LATHE_TRY(const bool row, finish->step());
      if (!row) return ended;
      ended.clients.push_back(finish->text(0));
      count(ended.clients.back(), -1);
    }
  }

  Result<Withdrawal> withdraw(const LedgerChanges::Withdraw& one, std::int64_t unix_ms) {
    LATHE_TRY(const auto own, own_request(one.client, one.id.hex()));
    if (own != State::kQueued) return Withdrawal{};
    if (!one.name.empty()) {
      LATHE_TRY(const bool cancelled, cancel_name(one, unix_ms));
      if (!cancelled) return Withdrawal{};
      LATHE_TRY(const auto deadline, deadline_of_names(one, unix_ms));
      if (deadline) {
        LATHE_CHECK_OK(set_deadline(one.client, one.id.hex(), *deadline));
        return Withdrawal{.withdrawn = true, .deadline_unix_ms = *deadline};
      }
    }
    if (one.deadline_unix_ms > 0) {
      LATHE_TRY(const auto now, deadline_of(one.client, one.id.hex()));
      if (later_deadline(now, one.deadline_unix_ms) != one.deadline_unix_ms) return Withdrawal{};
    }
    LATHE_TRY(const auto next, next_number());
    {
      LATHE_TRY(auto end, statements_.use("UPDATE requests SET state = ?, finished_unix_ms = ?, sequence = ? "
                                          "WHERE client = ? AND evaluation = ?"));
      LATHE_CHECK_OK(
          end->bind(number(one.state)).bind(unix_ms).bind(next).bind(one.client).bind(one.id.hex()).run());
    }
    count(one.client, -1);
    LATHE_TRY(const bool wanted, is_wanted(one.id.hex()));
    return Withdrawal{.withdrawn = true, .ended = true, .unwanted = !wanted};
  }

  Status put_name(const Submission& submission) {
    if (submission.naming.name.empty()) return Ok{};
    const std::string id = submission.key.id().hex();
    std::int64_t deadline = submission.deadline_unix_ms;
    {
      LATHE_TRY(auto select, statements_.use("SELECT deadline_unix_ms FROM names WHERE client = ? AND "
                                             "evaluation = ? AND name = ? AND cancelled_unix_ms = 0"));
      LATHE_TRY(const bool row, select->bind(submission.client).bind(id).bind(submission.naming.name).step());
      if (row) deadline = later_deadline(select->integer(0), deadline);
    }
    LATHE_TRY(auto insert, statements_.use("INSERT OR REPLACE INTO names (client, evaluation, name, details, "
                                           "submitted_unix_ms, deadline_unix_ms, cancelled_unix_ms) "
                                           "VALUES (?, ?, ?, ?, ?, ?, 0)"));
    return insert->bind(submission.client)
        .bind(id)
        .bind(submission.naming.name)
        .bind(submission.naming.details)
        .bind(submission.submitted_unix_ms)
        .bind(deadline)
        .run();
  }

  /// False: the request has no such name, or not any more.
  Result<bool> cancel_name(const LedgerChanges::Withdraw& one, std::int64_t unix_ms) {
    LATHE_TRY(auto update,
              statements_.use("UPDATE names SET cancelled_unix_ms = ? WHERE client = ? AND evaluation = ? "
                              "AND name = ? AND cancelled_unix_ms = 0"));
    LATHE_CHECK_OK(update->bind(unix_ms).bind(one.client).bind(one.id.hex()).bind(one.name).run());
    return database_.changes() > 0;
  }

  /// The latest of the names that keep the request; nullopt: none does.
  Result<std::optional<std::int64_t>> deadline_of_names(const LedgerChanges::Withdraw& one,
                                                        std::int64_t unix_ms) {
    LATHE_TRY(auto select,
              statements_.use("SELECT count(*), min(deadline_unix_ms), max(deadline_unix_ms) FROM names "
                              "WHERE client = ? AND evaluation = ? AND cancelled_unix_ms = 0 AND "
                              "(deadline_unix_ms = 0 OR deadline_unix_ms > ?)"));
    LATHE_TRY(const bool row, select->bind(one.client).bind(one.id.hex()).bind(unix_ms).step());
    if (!row || select->integer(0) == 0) return std::optional<std::int64_t>();
    return std::optional(later_deadline(select->integer(1), select->integer(2)));
  }

  struct EvaluationState {
    bool exists = false;
    bool lasting = false;
  };
  Result<EvaluationState> state_of(const std::string& id) {
    LATHE_TRY(auto select, statements_.use("SELECT state, lasting FROM evaluations WHERE id = ?"));
    LATHE_TRY(const bool row, select->bind(id).step());
    if (!row) return EvaluationState{};
    return EvaluationState{true, select->integer(0) != 0 && select->integer(1) != 0};
  }

  Result<std::optional<State>> own_request(const std::string& client, const std::string& id) {
    LATHE_TRY(auto select, statements_.use("SELECT state FROM requests WHERE client = ? AND evaluation = ?"));
    LATHE_TRY(const bool row, select->bind(client).bind(id).step());
    if (!row) return std::optional<State>();
    LATHE_TRY(const State state, state_from(select->integer(0), database_.path()));
    return std::optional(state);
  }

  Result<bool> is_wanted(const std::string& id) {
    LATHE_TRY(auto select,
              statements_.use("SELECT 1 FROM requests WHERE evaluation = ? AND state = 0 LIMIT 1"));
    return select->bind(id).step();
  }

  Status add_evaluation(const Submission& submission, const std::string& id) {
    LATHE_TRY(auto insert,
              statements_.use("INSERT INTO evaluations (id, task, candidate, depth, device_kind, "
                              "gym_version, text) VALUES (?, ?, ?, ?, ?, ?, ?)"));
    const EvaluationKey& key = submission.key;
    return insert->bind(id)
        .bind(key.task.hex())
        .bind(key.candidate.hex())
        .bind(lathe::name(key.depth))
        .bind(key.device_kind)
        .bind(key.gym_version)
        .bind(submission.candidate)
        .run();
  }

  /// An answer forgets the workers that were lost; who only withdraws and asks again is no answer.
  Status reopen(const std::string& id) {
    LATHE_TRY(auto update,
              statements_.use("UPDATE evaluations SET state = 0, lasting = 0, lost_workers = CASE "
                              "WHEN state = 0 THEN lost_workers ELSE 0 END WHERE id = ?"));
    return update->bind(id).run();
  }

  Status put_request(const Submission& submission, const std::string& id, State state,
                     std::int64_t sequence) {
    LATHE_TRY(auto insert,
              statements_.use("INSERT OR REPLACE INTO requests VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
    return insert->bind(submission.client)
        .bind(id)
        .bind(submission.tag)
        .bind(submission.trace)
        .bind(static_cast<std::int64_t>(submission.priority))
        .bind(submission.deadline_unix_ms)
        .bind(submission.submitted_unix_ms)
        .bind(number(state))
        .bind(is_final(state) ? submission.submitted_unix_ms : std::int64_t{0})
        .bind(sequence)
        .run();
  }

  Result<std::int64_t> next_number() {
    LATHE_TRY(auto update, statements_.use("UPDATE sequence SET last = last + 1 RETURNING last"));
    LATHE_TRY(const bool row, update->step());
    if (!row) return Error{ErrorCode::kCorrupt, "'" + database_.path() + "' has lost its sequence"};
    return update->integer(0);
  }

  Result<Report> report_from(const Statement& row) const {
    Report report;
    LATHE_TRY(report.id, Digest::from_hex(row.text(0)));
    LATHE_TRY(report.key, key_from(row));
    LATHE_TRY(report.state, state_from(row.integer(6), database_.path()));
    report.tag = row.text(7);
    report.priority = static_cast<int>(row.integer(8));
    report.submitted_unix_ms = row.integer(9);
    report.finished_unix_ms = row.integer(10);
    report.sequence = row.integer(11);
    if (report.state == State::kDone) report.verdict = row.text(12);
    if (report.state == State::kFailed) report.error = row.text(13);
    return report;
  }

  UniqueFd lock_;
  Database database_;
  StatementCache statements_;
  std::map<std::string, std::int64_t> unfinished_;  // requests by client, as in the tables
  std::int64_t all_unfinished_ = 0;
};

#undef LATHE_REPORT_COLUMNS
#undef LATHE_REPORT_FIELDS

}  // namespace

Result<std::unique_ptr<Ledger>> open_sqlite_ledger(const std::string& folder) {
  LATHE_CHECK_OK(make_directories(folder));
  const std::string path = folder + "/serve.lock";
  UniqueFd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid())
    return errno_error("cannot open '" + path + "'", "use a store in a folder that you may write to");
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return Error{ErrorCode::kBusy, "another lathe serve has the store '" + folder + "'",
                 "end it, or give this one another --store"};
  LATHE_TRY(Database database, open_serve_database(folder));
  auto ledger = std::make_unique<SqliteLedger>(std::move(database), std::move(lock));
  LATHE_CHECK_OK(ledger->count_unfinished());
  return std::unique_ptr<Ledger>(std::move(ledger));
}

}  // namespace lathe::serve

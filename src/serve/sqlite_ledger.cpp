#include "serve/sqlite_ledger.h"

#include <fcntl.h>
#include <sys/file.h>

#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "record/json.h"
#include "serve/serve_database.h"

namespace lathe::serve {
namespace {

#define LATHE_REPORT_COLUMNS                                                                             \
  "SELECT r.evaluation, e.task, e.candidate, e.depth, e.device_kind, e.gym_version, r.state, r.tag, "    \
  "r.priority, r.submitted_unix_ms, r.finished_unix_ms, r.sequence, e.verdict, e.error FROM requests r " \
  "JOIN evaluations e ON e.id = r.evaluation "

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

class SqliteLedger final : public Ledger, private LedgerWriter {
 public:
  SqliteLedger(Database database, UniqueFd lock)
      : lock_(std::move(lock)), database_(std::move(database)), statements_(database_) {}

  Status write(const std::function<Status(LedgerWriter&)>& change) override {
    LATHE_TRY(Transaction transaction, Transaction::begin(database_));
    LATHE_CHECK_OK(change(*this));
    return transaction.commit();
  }

  Result<std::optional<Report>> find(const std::string& client, const Digest& id) override {
    LATHE_TRY(auto select, statements_.use(LATHE_REPORT_COLUMNS "WHERE r.client = ? AND r.evaluation = ?"));
    LATHE_TRY(const bool row, select->bind(client).bind(id.hex()).step());
    if (!row) return std::optional<Report>();
    LATHE_TRY(Report report, report_from(*select));
    return std::optional(std::move(report));
  }

  Result<std::vector<Report>> finished_after(const std::string& client, std::int64_t sequence,
                                             int limit) override {
    LATHE_TRY(auto select,
              statements_.use(LATHE_REPORT_COLUMNS "WHERE r.client = ? AND r.sequence > ? AND r.sequence > 0 "
                                                   "ORDER BY r.sequence LIMIT ?"));
    select->bind(client).bind(sequence).bind(static_cast<std::int64_t>(limit));
    std::vector<Report> reports;
    for (;;) {
      LATHE_TRY(const bool row, select->step());
      if (!row) return reports;
      LATHE_TRY(Report report, report_from(*select));
      reports.push_back(std::move(report));
    }
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

  Result<std::string> candidate(const Digest& id) override {
    LATHE_TRY(auto select, statements_.use("SELECT text FROM evaluations WHERE id = ?"));
    LATHE_TRY(const bool row, select->bind(id.hex()).step());
    if (!row) return Error{ErrorCode::kNotFound, "there is no evaluation " + id.hex()};
    return select->text(0);
  }

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
  Status add_task(const StoredTask& task) override {
    LATHE_TRY(auto insert,
              statements_.use("INSERT OR IGNORE INTO tasks (digest, name, text) VALUES (?, ?, ?)"));
    return insert->bind(task.digest.hex()).bind(task.name).bind(task.text).run();
  }

  Result<Admission> admit(const Submission& submission, bool may_add) override {
    const std::string id = submission.key.id().hex();
    LATHE_TRY(const auto own, own_request(submission.client, id));
    if (own == State::kQueued) return Admission::kJoined;
    LATHE_TRY(const auto evaluation, state_of(id));
    if (evaluation.exists && evaluation.lasting) {
      if (own == State::kDone) return Admission::kKnown;
      LATHE_TRY(const auto next, next_number());
      LATHE_CHECK_OK(put_request(submission, id, State::kDone, next));
      return Admission::kKnown;
    }
    LATHE_TRY(const bool wanted, is_wanted(id));
    if (!wanted && !may_add) return Admission::kRefused;
    if (!evaluation.exists) LATHE_CHECK_OK(add_evaluation(submission, id));
    if (evaluation.exists && !wanted) LATHE_CHECK_OK(reopen(id));
    LATHE_CHECK_OK(put_request(submission, id, State::kQueued, 0));
    return wanted ? Admission::kJoined : Admission::kNew;
  }

  Result<int> count_lost_worker(const Digest& id) override {
    LATHE_TRY(auto update, statements_.use("UPDATE evaluations SET lost_workers = lost_workers + 1 "
                                           "WHERE id = ? RETURNING lost_workers"));
    LATHE_TRY(const bool row, update->bind(id.hex()).step());
    return row ? static_cast<int>(update->integer(0)) : 0;
  }

  Result<bool> conclude(const Digest& id, const Conclusion& conclusion, std::int64_t unix_ms) override {
    const bool done = conclusion.state == State::kDone;
    {
      LATHE_TRY(auto update, statements_.use("UPDATE evaluations SET state = ?, lasting = ?, verdict = ?, "
                                             "error = ? WHERE id = ? AND state = 0"));
      LATHE_CHECK_OK(update->bind(number(conclusion.state))
                         .bind(std::int64_t{conclusion.lasting()})
                         .bind(done ? json_text(to_json(conclusion.verdict)) : std::string())
                         .bind(conclusion.error)
                         .bind(id.hex())
                         .run());
      if (database_.changes() == 0) return false;
    }
    LATHE_TRY(const auto next, next_number());
    LATHE_TRY(auto finish,
              statements_.use("UPDATE requests SET state = ?, finished_unix_ms = ?, sequence = ? "
                              "WHERE evaluation = ? AND state = 0"));
    LATHE_CHECK_OK(finish->bind(number(conclusion.state)).bind(unix_ms).bind(next).bind(id.hex()).run());
    return true;
  }

  Result<Withdrawal> withdraw(const std::string& client, const Digest& id, State state,
                              std::int64_t unix_ms) override {
    LATHE_TRY(const auto own, own_request(client, id.hex()));
    if (own != State::kQueued) return Withdrawal{};
    LATHE_TRY(const auto next, next_number());
    {
      LATHE_TRY(auto end, statements_.use("UPDATE requests SET state = ?, finished_unix_ms = ?, sequence = ? "
                                          "WHERE client = ? AND evaluation = ?"));
      LATHE_CHECK_OK(end->bind(number(state)).bind(unix_ms).bind(next).bind(client).bind(id.hex()).run());
    }
    LATHE_TRY(const bool wanted, is_wanted(id.hex()));
    return Withdrawal{true, !wanted};
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

  Status reopen(const std::string& id) {
    LATHE_TRY(
        auto update,
        statements_.use("UPDATE evaluations SET state = 0, lasting = 0, lost_workers = 0 WHERE id = ?"));
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
};

#undef LATHE_REPORT_COLUMNS

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
  return std::unique_ptr<Ledger>(std::make_unique<SqliteLedger>(std::move(database), std::move(lock)));
}

}  // namespace lathe::serve

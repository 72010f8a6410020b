#include "serve/postgres_ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/clock.h"
#include "record/json.h"
#include "serve/postgres_connection.h"

namespace lathe::serve {
namespace {

constexpr double kReconnectSeconds = 0.5;
constexpr std::int64_t kTablesVersion = 1;

// Texts of clients may have NULs, which `text` has not.
constexpr const char* kPostgresTables = R"sql(
BEGIN;
SELECT pg_advisory_xact_lock(7805318);
CREATE SCHEMA IF NOT EXISTS lathe;
SET search_path = lathe;
CREATE TABLE IF NOT EXISTS version (number bigint NOT NULL);
INSERT INTO version SELECT 1 WHERE NOT EXISTS (SELECT FROM version);
CREATE TABLE IF NOT EXISTS tasks (digest bytea PRIMARY KEY, name text NOT NULL, text bytea NOT NULL);
CREATE TABLE IF NOT EXISTS evaluations (
  id bytea PRIMARY KEY,
  task bytea NOT NULL,
  candidate bytea NOT NULL,
  depth text NOT NULL,
  device_kind text NOT NULL,
  gym_version text NOT NULL,
  text bytea NOT NULL,
  state bigint NOT NULL DEFAULT 0,
  lasting bigint NOT NULL DEFAULT 0,
  lost_workers bigint NOT NULL DEFAULT 0,
  verdict text NOT NULL DEFAULT '',
  error bytea NOT NULL DEFAULT ''
) WITH (fillfactor = 70);
CREATE TABLE IF NOT EXISTS requests (
  client text NOT NULL,
  evaluation bytea NOT NULL,
  tag bytea NOT NULL,
  trace bytea NOT NULL,
  priority bigint NOT NULL,
  deadline_unix_ms bigint NOT NULL,
  submitted_unix_ms bigint NOT NULL,
  state bigint NOT NULL,
  finished_unix_ms bigint NOT NULL,
  sequence bigint NOT NULL,
  PRIMARY KEY (client, evaluation)
) WITH (fillfactor = 70);
CREATE INDEX IF NOT EXISTS open_requests ON requests (evaluation) WHERE state = 0;
CREATE INDEX IF NOT EXISTS due_requests ON requests (deadline_unix_ms) WHERE state = 0 AND deadline_unix_ms > 0;
CREATE INDEX IF NOT EXISTS old_requests ON requests (finished_unix_ms) WHERE state <> 0;
CREATE UNIQUE INDEX IF NOT EXISTS finished_requests ON requests (client, sequence) WHERE sequence > 0;
CREATE TABLE IF NOT EXISTS names (
  client text NOT NULL,
  evaluation bytea NOT NULL,
  name bytea NOT NULL,
  details bytea NOT NULL,
  submitted_unix_ms bigint NOT NULL,
  deadline_unix_ms bigint NOT NULL,
  cancelled_unix_ms bigint NOT NULL,
  number bigserial NOT NULL,
  PRIMARY KEY (client, evaluation, name)
) WITH (fillfactor = 70);
CREATE INDEX IF NOT EXISTS latest_names ON names (client, name, number);
CREATE TABLE IF NOT EXISTS unfinished (client text PRIMARY KEY, requests bigint NOT NULL) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS sequence (last bigint NOT NULL) WITH (fillfactor = 50);
INSERT INTO sequence SELECT 0 WHERE NOT EXISTS (SELECT FROM sequence);
CREATE TABLE IF NOT EXISTS tokens (
  id text PRIMARY KEY,
  name text NOT NULL UNIQUE,
  role text NOT NULL,
  hash text NOT NULL,
  max_unfinished bigint NOT NULL,
  created_unix bigint NOT NULL
);
COMMIT;
)sql";

// An OFFSET 0 or LIMIT 1 below has its rows looked up one by one. PostgreSQL, which plans while the
// tables are empty, would read all that waits instead.
constexpr const char* kBegin = "BEGIN";
constexpr const char* kCommit = "COMMIT";
constexpr const char* kRollback = "ROLLBACK";
// Writers take turns: what one has read is so until it commits, and numbers are visible in their
// order.
constexpr const char* kTurn = "SELECT pg_advisory_xact_lock(7805319)";

constexpr const char* kBeginProbe = "SAVEPOINT probe";
constexpr const char* kProbe =
    "INSERT INTO tasks SELECT ''::bytea, '', decode(string_agg(md5(random()::text), ''), 'hex') "
    "FROM generate_series(1, 4096)";
constexpr const char* kEndProbe = "ROLLBACK TO SAVEPOINT probe";
constexpr const char* kTouch = "UPDATE sequence SET last = last";  // else there is nothing to commit

constexpr const char* kAddTasks =
    "INSERT INTO tasks SELECT * FROM unnest($1::bytea[], $2::text[], $3::bytea[]) ON CONFLICT DO NOTHING";

constexpr const char* kCountLost =
    "UPDATE evaluations e SET lost_workers = e.lost_workers + c.lost FROM "
    "(SELECT id, count(*) AS lost FROM unnest($1::bytea[]) AS t (id) GROUP BY id) c WHERE e.id = c.id "
    "RETURNING e.id, e.lost_workers";

constexpr const char* kEnd = R"sql(
WITH input AS (
  SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::text[], $5::bytea[])
    WITH ORDINALITY AS t (id, state, lasting, verdict, error, place)),
ended AS (
  UPDATE evaluations e SET state = i.state, lasting = i.lasting, verdict = i.verdict, error = i.error
    FROM input i WHERE e.id = i.id AND e.state = 0 RETURNING e.id, i.state, i.place),
numbered AS (SELECT id, state, place, row_number() OVER (ORDER BY place) AS number FROM ended),
base AS (
  UPDATE sequence SET last = last + (SELECT count(*) FROM ended)
    RETURNING last - (SELECT count(*) FROM ended) AS first),
finished AS (
  UPDATE requests r SET state = n.state, finished_unix_ms = $6, sequence = b.first + n.number
    FROM base b, numbered n,
    LATERAL (SELECT ctid AS row FROM requests WHERE evaluation = n.id AND state = 0 OFFSET 0) o
    WHERE r.ctid = o.row RETURNING n.place, r.client),
counted AS (
  UPDATE unfinished u SET requests = u.requests - c.finished
    FROM (SELECT client, count(*) AS finished FROM finished GROUP BY client) c WHERE u.client = c.client)
SELECT place, NULL FROM numbered UNION ALL SELECT place, client FROM finished)sql";

constexpr const char* kCancelNames =
    "UPDATE names n SET cancelled_unix_ms = $4::bigint "
    "FROM unnest($1::text[], $2::bytea[], $3::bytea[]) WITH ORDINALITY AS i (client, id, name, place) "
    "WHERE n.client = i.client AND n.evaluation = i.id AND n.name = i.name AND n.cancelled_unix_ms = 0 AND "
    "(SELECT 1 FROM requests WHERE client = i.client AND evaluation = i.id AND state = 0 LIMIT 1) = 1 "
    "RETURNING i.place";

// A name that was cancelled in this transaction, and those that keep the request.
#define LATHE_JUST_CANCELLED                                                           \
  "EXISTS (SELECT FROM names n WHERE n.client = i.client AND n.evaluation = i.id AND " \
  "n.cancelled_unix_ms = $4::bigint) "
#define LATHE_KEEPING_NAMES                                                                         \
  "FROM names n WHERE n.client = i.client AND n.evaluation = i.id AND n.cancelled_unix_ms = 0 AND " \
  "(n.deadline_unix_ms = 0 OR n.deadline_unix_ms > $4::bigint) "

constexpr const char* kDeadlinesOfNames =
    "WITH kept AS (SELECT i.client, i.id, i.place, (SELECT CASE WHEN min(n.deadline_unix_ms) = 0 THEN 0 "
    "ELSE max(n.deadline_unix_ms) END " LATHE_KEEPING_NAMES
    ") AS deadline FROM unnest($1::text[], $2::bytea[], $3::bytea[]) "
    "WITH ORDINALITY AS i (client, id, name, place) WHERE i.name <> ''::bytea AND " LATHE_JUST_CANCELLED
    "), set_back AS (UPDATE requests r SET deadline_unix_ms = k.deadline FROM "
    "(SELECT DISTINCT client, id, deadline FROM kept WHERE deadline IS NOT NULL) k "
    "WHERE r.client = k.client AND r.evaluation = k.id AND r.state = 0) "
    "SELECT place, deadline FROM kept WHERE deadline IS NOT NULL";

/// $6: only requests without a name that keeps them.
constexpr const char* kWithdraw =
    "WITH numbered AS ("
    "SELECT i.*, r.row, row_number() OVER (ORDER BY i.place) AS number "
    "FROM unnest($1::text[], $2::bytea[], $3::bigint[], $5::bigint[]) "
    "WITH ORDINALITY AS i (client, id, state, deadline, place), "
    "LATERAL (SELECT ctid AS row FROM requests WHERE client = i.client AND evaluation = i.id AND state = 0 "
    "AND (i.deadline = 0 OR deadline_unix_ms BETWEEN 1 AND i.deadline) OFFSET 0) r "
    "WHERE $6::bigint = 0 OR (" LATHE_JUST_CANCELLED "AND NOT EXISTS (SELECT " LATHE_KEEPING_NAMES
    "))), "
    "base AS ("
    "UPDATE sequence SET last = last + (SELECT count(*) FROM numbered) "
    "RETURNING last - (SELECT count(*) FROM numbered) AS first), "
    "ended AS ("
    "UPDATE requests r SET state = n.state, finished_unix_ms = $4, sequence = b.first + n.number "
    "FROM base b, numbered n WHERE r.ctid = n.row RETURNING n.place, r.client), "
    "counted AS ("
    "UPDATE unfinished u SET requests = u.requests - c.ended "
    "FROM (SELECT client, count(*) AS ended FROM ended GROUP BY client) c WHERE u.client = c.client) "
    "SELECT place FROM ended";
#undef LATHE_JUST_CANCELLED
#undef LATHE_KEEPING_NAMES

constexpr const char* kStillWanted =
    "SELECT t.place FROM unnest($1::bytea[]) WITH ORDINALITY AS t (id, place) WHERE "
    "(SELECT 1 FROM requests r WHERE r.evaluation = t.id AND r.state = 0 LIMIT 1) = 1";

constexpr const char* kStates =
    "SELECT t.place, e.state, e.lasting, r.state, "
    "(SELECT 1::bigint FROM requests q WHERE q.evaluation = t.id AND q.state = 0 LIMIT 1), "
    "r.deadline_unix_ms "
    "FROM unnest($1::text[], $2::bytea[]) WITH ORDINALITY AS t (client, id, place) "
    "LEFT JOIN evaluations e ON e.id = t.id "
    "LEFT JOIN requests r ON r.client = t.client AND r.evaluation = t.id";

constexpr const char* kUnfinished = "SELECT client, requests FROM unfinished WHERE requests > 0";

constexpr const char* kAddEvaluations =
    "INSERT INTO evaluations (id, task, candidate, depth, device_kind, gym_version, text) SELECT * FROM "
    "unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::text[], $5::text[], $6::text[], $7::bytea[])";

// An answer forgets the workers that were lost; who only withdraws and asks again is no answer.
constexpr const char* kReopen =
    "UPDATE evaluations e SET state = 0, lasting = 0, lost_workers = CASE WHEN e.state = 0 THEN "
    "e.lost_workers ELSE 0 END FROM unnest($1::bytea[]) AS t (id) WHERE e.id = t.id";

/// `known` numbers the requests that are answered already, from 1; 0 for the others.
constexpr const char* kPutRequests = R"sql(
WITH base AS (UPDATE sequence SET last = last + $8 RETURNING last - $8 AS first)
INSERT INTO requests
SELECT i.client, i.id, i.tag, i.trace, i.priority, i.deadline, i.submitted,
  CASE WHEN i.known > 0 THEN 2 ELSE 0 END, CASE WHEN i.known > 0 THEN i.submitted ELSE 0 END,
  CASE WHEN i.known > 0 THEN base.first + i.known ELSE 0 END
FROM base, unnest($1::text[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bigint[],
  $9::bigint[]) AS i (client, id, tag, trace, priority, deadline, submitted, known)
ON CONFLICT (client, evaluation) DO UPDATE SET tag = excluded.tag, trace = excluded.trace,
  priority = excluded.priority, deadline_unix_ms = excluded.deadline_unix_ms,
  submitted_unix_ms = excluded.submitted_unix_ms, state = excluded.state,
  finished_unix_ms = excluded.finished_unix_ms, sequence = excluded.sequence)sql";
static_assert(static_cast<int>(State::kDone) == 2 && static_cast<int>(State::kQueued) == 0);

constexpr const char* kPutNames = R"sql(
INSERT INTO names (client, evaluation, name, details, submitted_unix_ms, deadline_unix_ms, cancelled_unix_ms)
SELECT i.client, i.id, i.name, i.details, i.submitted, i.deadline, 0
FROM unnest($1::text[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bigint[], $6::bigint[])
  WITH ORDINALITY AS i (client, id, name, details, submitted, deadline, place) ORDER BY i.place
ON CONFLICT (client, evaluation, name) DO UPDATE SET details = excluded.details,
  submitted_unix_ms = excluded.submitted_unix_ms, cancelled_unix_ms = 0, number = excluded.number,
  deadline_unix_ms = CASE WHEN names.cancelled_unix_ms > 0 THEN excluded.deadline_unix_ms
    WHEN names.deadline_unix_ms = 0 OR excluded.deadline_unix_ms = 0 THEN 0
    ELSE greatest(names.deadline_unix_ms, excluded.deadline_unix_ms) END)sql";

constexpr const char* kPutOff =
    "UPDATE requests r SET deadline_unix_ms = i.deadline "
    "FROM unnest($1::text[], $2::bytea[], $3::bigint[]) AS i (client, id, deadline), "
    "LATERAL (SELECT ctid AS row FROM requests WHERE client = i.client AND evaluation = i.id AND state = 0 "
    "OFFSET 0) o WHERE r.ctid = o.row";

constexpr const char* kCount =
    "INSERT INTO unfinished SELECT * FROM unnest($1::text[], $2::bigint[]) ON CONFLICT (client) DO UPDATE "
    "SET "
    "requests = unfinished.requests + excluded.requests";

#define LATHE_POSTGRES_REPORT                                                                          \
  "e.id, e.task, e.candidate, e.depth, e.device_kind, e.gym_version, r.state, r.tag, r.priority, "     \
  "r.submitted_unix_ms, r.finished_unix_ms, r.sequence, CASE WHEN r.state = 2 THEN e.verdict ELSE '' " \
  "END, CASE WHEN r.state = 3 THEN e.error ELSE ''::bytea END"
static_assert(static_cast<int>(State::kFailed) == 3);
constexpr int kReportColumns = 14;

constexpr const char* kFind =
    "SELECT " LATHE_POSTGRES_REPORT
    ", t.place FROM unnest($1::text[], $2::bytea[]) WITH ORDINALITY AS t (client, id, place) "
    "JOIN requests r ON r.client = t.client AND r.evaluation = t.id JOIN evaluations e ON e.id = t.id";

constexpr const char* kFindNamed =
    "SELECT " LATHE_POSTGRES_REPORT
    ", t.place, n.details, n.submitted_unix_ms, n.deadline_unix_ms, n.cancelled_unix_ms "
    "FROM unnest($1::text[], $2::bytea[], $3::bytea[]) WITH ORDINALITY AS t (client, name, id, place) "
    "CROSS JOIN LATERAL (SELECT * FROM names WHERE client = t.client AND name = t.name AND "
    "(t.id = ''::bytea OR evaluation = t.id) ORDER BY number DESC LIMIT 1) n "
    "JOIN requests r ON r.client = n.client AND r.evaluation = n.evaluation "
    "JOIN evaluations e ON e.id = n.evaluation";

constexpr const char* kFinished = "SELECT " LATHE_POSTGRES_REPORT
                                  " FROM (SELECT * FROM requests WHERE client = ANY ($1::text[]) AND "
                                  "sequence > $2::bigint AND sequence > 0 "
                                  "ORDER BY client, sequence LIMIT $3::bigint) r JOIN evaluations e ON e.id "
                                  "= r.evaluation ORDER BY r.sequence";

#define LATHE_POSTGRES_PENDING                                                                   \
  "e.id, e.task, e.candidate, e.depth, e.device_kind, e.gym_version, r.client, r.tag, r.trace, " \
  "r.priority, r.deadline_unix_ms, r.submitted_unix_ms, e.lost_workers"

constexpr const char* kPending =
    "SELECT " LATHE_POSTGRES_PENDING
    " FROM requests r JOIN evaluations e ON e.id = r.evaluation WHERE r.state = 0 "
    "ORDER BY r.submitted_unix_ms, r.evaluation";

constexpr const char* kWanted =
    "SELECT " LATHE_POSTGRES_PENDING
    ", e.text FROM unnest($1::bytea[]) AS t (id) JOIN evaluations e ON e.id = t.id JOIN LATERAL "
    "(SELECT * FROM requests WHERE evaluation = t.id AND state = 0 OFFSET 0) r ON true WHERE e.state = 0 "
    "ORDER BY e.id, r.submitted_unix_ms";

constexpr const char* kOverdue =
    "SELECT client, evaluation FROM requests WHERE state = 0 AND deadline_unix_ms > 0 AND deadline_unix_ms < "
    "(extract(epoch FROM now()) * 1000)::bigint - $1::bigint LIMIT 1000";

constexpr const char* kTexts =
    "SELECT t.place, e.text FROM unnest($1::bytea[]) WITH ORDINALITY AS t (id, place) JOIN evaluations e ON "
    "e.id = t.id";

constexpr const char* kTask = "SELECT name, text FROM tasks WHERE digest = ANY ($1::bytea[])";
constexpr const char* kTasks = "SELECT digest, name FROM tasks ORDER BY name, digest";
constexpr const char* kAllUnfinished = "SELECT coalesce(sum(requests), 0)::bigint FROM unfinished";

constexpr const char* kListTokens =
    "SELECT id, name, role, hash, max_unfinished, created_unix FROM tokens ORDER BY name";
constexpr const char* kAddToken =
    "INSERT INTO tokens SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], "
    "$6::bigint[])";
constexpr const char* kForgetRequests = R"sql(
DELETE FROM requests WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM requests WHERE state <> 0 AND finished_unix_ms < $1 LIMIT $2)) RETURNING client, evaluation)sql";
constexpr const char* kForgetNames =
    "DELETE FROM names n USING unnest($1::text[], $2::bytea[]) AS gone (client, id) "
    "WHERE n.client = gone.client AND n.evaluation = gone.id";
constexpr const char* kForgetEvaluations = R"sql(
DELETE FROM evaluations e USING unnest($1::bytea[]) gone WHERE e.id = gone
  AND NOT EXISTS (SELECT FROM requests r WHERE r.evaluation = e.id))sql";
constexpr const char* kRemoveToken = "DELETE FROM tokens WHERE name = ANY ($1::text[]) RETURNING name";

std::string raw(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size()};
}

Result<Digest> digest_from(std::string_view bytes, const std::string& place) {
  Digest digest;
  if (bytes.size() != digest.bytes.size())
    return Error{ErrorCode::kCorrupt, "PostgreSQL at " + place + " has a digest of another length"};
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(digest.bytes.data()));
  return digest;
}

/// The connection of one user of it, opened again where it was lost.
class PostgresSession {
 public:
  explicit PostgresSession(std::string url) : url_(std::move(url)) {}

  Result<std::vector<PostgresRows>> run(std::span<const PostgresConnection::Query> queries) {
    LATHE_TRY(PostgresConnection* const connection, connected());
    auto rows = connection->run(queries);
    if (!connection->is_alive()) connection_.reset();
    return rows;
  }
  Result<PostgresRows> run(const char* sql, PostgresParameters parameters = {}) {
    const PostgresConnection::Query queries[] = {{sql, std::move(parameters)}};
    LATHE_TRY(auto rows, run(queries));
    return std::move(rows[0]);
  }
  /// After an error within a transaction.
  void roll_back() {
    if (connection_) (void)run(kRollback);
  }

  Result<PostgresConnection*> connected() {
    if (connection_) return connection_.get();
    const std::int64_t now = steady_clock().now_ns();
    if (now < next_try_ns_) return last_error_;
    auto opened = PostgresConnection::open(url_);
    if (opened.ok()) {
      const Status made = (*opened)->execute(kPostgresTables);
      if (!made.ok()) opened = made.error();
    }
    if (!opened.ok()) {
      last_error_ = opened.error();
      next_try_ns_ = steady_clock().now_ns() + static_cast<std::int64_t>(kReconnectSeconds * 1e9);
      return last_error_;
    }
    connection_ = *std::move(opened);
    place_ = connection_->place();
    return connection_.get();
  }
  const std::string& place() const { return place_; }

 private:
  const std::string url_;
  std::unique_ptr<PostgresConnection> connection_;
  std::string place_;
  std::int64_t next_try_ns_ = 0;
  Error last_error_;
};

Status check_version(PostgresSession& session) {
  LATHE_TRY(const PostgresRows rows, session.run("SELECT number FROM version"));
  const std::int64_t version = rows.size() == 1 ? rows.integer(0, 0) : 0;
  if (version != kTablesVersion)
    return Error{ErrorCode::kUnavailable,
                 fmt::format("PostgreSQL at {} has tables of version {}; this Lathe knows version {}",
                             session.place(), version, kTablesVersion),
                 "update Lathe, or use another database"};
  return Ok{};
}

class PostgresLedger final : public Ledger {
 public:
  explicit PostgresLedger(std::string url) : session_(std::move(url)) {}
  Status open() { return check_version(session_); }

  Result<LedgerOutcome> write(const LedgerChanges& changes) override {
    auto outcome = write_all(changes);
    if (!outcome.ok()) session_.roll_back();
    return outcome;
  }

  Result<std::vector<std::optional<Report>>> find(std::span<const Name> names) override {
    const Query queries[] = {find_query(names)};
    LATHE_TRY(const auto rows, session_.run(queries));
    return reports_from(rows[0], names.size());
  }

  Result<std::vector<std::optional<NamedReport>>> find_named(std::span<const NameQuery> queries) override {
    std::vector<std::string> clients, names, ids;
    for (const NameQuery& query : queries) {
      clients.push_back(query.client);
      names.push_back(query.name);
      ids.push_back(query.id ? raw(*query.id) : std::string());
    }
    LATHE_TRY(
        const PostgresRows rows,
        session_.run(kFindNamed, PostgresParameters().add_texts(clients).add_bytes(names).add_bytes(ids)));
    std::vector<std::optional<NamedReport>> all(queries.size());
    for (int row = 0; row < rows.size(); ++row) {
      LATHE_TRY(auto* const found, slot(all, rows.integer(row, kReportColumns)));
      NamedReport& named = found->emplace();
      LATHE_TRY(named.report, report_from(rows, row));
      named.details = rows.text(row, kReportColumns + 1);
      named.submitted_unix_ms = rows.integer(row, kReportColumns + 2);
      named.deadline_unix_ms = rows.integer(row, kReportColumns + 3);
      named.cancelled_unix_ms = rows.integer(row, kReportColumns + 4);
    }
    return all;
  }

  Result<std::vector<std::vector<Report>>> finished(std::span<const FinishedQuery> queries) override {
    std::vector<PostgresConnection::Query> statements;
    for (const FinishedQuery& query : queries)
      statements.push_back(
          {kFinished,
           PostgresParameters().add_texts(std::vector{query.client}).add(query.sequence).add(query.limit)});
    LATHE_TRY(const auto all_rows, session_.run(statements));
    std::vector<std::vector<Report>> all;
    for (const PostgresRows& rows : all_rows) {
      std::vector<Report>& reports = all.emplace_back();
      for (int row = 0; row < rows.size(); ++row) {
        LATHE_TRY(reports.emplace_back(), report_from(rows, row));
      }
    }
    return all;
  }

  Result<std::vector<Pending>> pending() override {
    LATHE_TRY(const PostgresRows rows, session_.run(kPending));
    std::vector<Pending> all;
    for (int row = 0; row < rows.size(); ++row) {
      LATHE_TRY(all.emplace_back(), pending_from(rows, row));
    }
    return all;
  }

  Result<std::vector<Wanted>> wanted(std::span<const Digest> ids) override {
    LATHE_TRY(const PostgresRows rows, session_.run(kWanted, PostgresParameters().add_bytes(raw_of(ids))));
    std::vector<Wanted> all;
    std::string_view last;
    for (int row = 0; row < rows.size(); ++row) {
      LATHE_TRY(Pending pending, pending_from(rows, row));
      if (all.empty() || rows.bytes(row, 0) != last) {
        last = rows.bytes(row, 0);
        pending.submission.candidate = rows.text(row, 13);
        all.push_back({pending.submission, pending.lost_workers, {}});
      }
      all.back().deadlines_unix_ms.emplace_back(pending.submission.client,
                                                pending.submission.deadline_unix_ms);
    }
    return all;
  }

  Result<std::vector<Name>> overdue(std::int64_t grace_ms) override {
    LATHE_TRY(const PostgresRows rows, session_.run(kOverdue, PostgresParameters().add(grace_ms)));
    std::vector<Name> names;
    for (int row = 0; row < rows.size(); ++row) {
      LATHE_TRY(const Digest id, digest_from(rows.bytes(row, 1), session_.place()));
      names.emplace_back(rows.text(row, 0), id);
    }
    return names;
  }

  Result<std::int64_t> forget(std::int64_t ended_before_unix_ms, int most) override {
    auto forgotten = forget_in_turn(ended_before_unix_ms, most);
    if (!forgotten.ok()) session_.roll_back();
    return forgotten;
  }

  Result<std::vector<std::string>> candidates(std::span<const Digest> ids) override {
    LATHE_TRY(const PostgresRows rows, session_.run(kTexts, PostgresParameters().add_bytes(raw_of(ids))));
    if (rows.size() != static_cast<int>(ids.size()))
      return Error{ErrorCode::kNotFound, "there is no evaluation of that name"};
    std::vector<std::string> texts(ids.size());
    for (int row = 0; row < rows.size(); ++row) {
      LATHE_TRY(auto* const text, slot(texts, rows.integer(row, 0)));
      *text = rows.text(row, 1);
    }
    return texts;
  }

  Result<std::optional<StoredTask>> task(const Digest& digest) override {
    LATHE_TRY(const PostgresRows rows,
              session_.run(kTask, PostgresParameters().add_bytes(std::vector{raw(digest)})));
    if (rows.size() == 0) return std::optional<StoredTask>();
    return std::optional(StoredTask{digest, rows.text(0, 0), rows.text(0, 1)});
  }

  Result<std::vector<StoredTask>> tasks() override {
    LATHE_TRY(const PostgresRows rows, session_.run(kTasks));
    std::vector<StoredTask> all;
    for (int row = 0; row < rows.size(); ++row) {
      LATHE_TRY(const Digest digest, digest_from(rows.bytes(row, 0), session_.place()));
      all.push_back({digest, rows.text(row, 1), {}});
    }
    return all;
  }

  Result<std::int64_t> unfinished() override {
    LATHE_TRY(const PostgresRows rows, session_.run(kAllUnfinished));
    return rows.size() == 1 ? rows.integer(0, 0) : std::int64_t{0};
  }

 private:
  Result<std::int64_t> forget_in_turn(std::int64_t ended_before_unix_ms, int most) {
    const Query removal[] = {
        {kBegin}, {kTurn}, {kForgetRequests, PostgresParameters().add(ended_before_unix_ms).add(most)}};
    LATHE_TRY(const auto rows, session_.run(removal));
    std::vector<std::string> clients, evaluations;
    for (int row = 0; row < rows[2].size(); ++row) {
      clients.push_back(rows[2].text(row, 0));
      evaluations.push_back(rows[2].text(row, 1));
    }
    const Query rest[] = {{kForgetNames, PostgresParameters().add_texts(clients).add_bytes(evaluations)},
                          {kForgetEvaluations, PostgresParameters().add_bytes(evaluations)},
                          {kCommit}};
    LATHE_TRY(const auto done, session_.run(rest));
    return static_cast<std::int64_t>(evaluations.size());
  }

  using Query = PostgresConnection::Query;

  /// The element that a row with a place from 1 is about.
  template <class All>
  Result<decltype(std::declval<All&>().data())> slot(All& all, std::int64_t place) const {
    if (place < 1 || place > static_cast<std::int64_t>(all.size()))
      return Error{ErrorCode::kCorrupt, "PostgreSQL at " + session_.place() + " answers something else"};
    return &all[static_cast<std::size_t>(place - 1)];
  }

  static std::vector<std::string> raw_of(std::span<const Digest> ids) {
    std::vector<std::string> bytes;
    for (const Digest& id : ids) bytes.push_back(raw(id));
    return bytes;
  }

  Result<EvaluationKey> key_from(const PostgresRows& rows, int row) const {
    EvaluationKey key;
    LATHE_TRY(key.task, digest_from(rows.bytes(row, 1), session_.place()));
    LATHE_TRY(key.candidate, digest_from(rows.bytes(row, 2), session_.place()));
    LATHE_TRY(key.depth, parse_depth(rows.text(row, 3)));
    key.device_kind = rows.text(row, 4);
    key.gym_version = rows.text(row, 5);
    return key;
  }

  Result<Report> report_from(const PostgresRows& rows, int row) const {
    Report report;
    LATHE_TRY(report.id, digest_from(rows.bytes(row, 0), session_.place()));
    LATHE_TRY(report.key, key_from(rows, row));
    const std::int64_t state = rows.integer(row, 6);
    if (state < 0 || state > static_cast<std::int64_t>(State::kExpired))
      return Error{ErrorCode::kCorrupt,
                   fmt::format("PostgreSQL at {} has a request in state {}", session_.place(), state)};
    report.state = static_cast<State>(state);
    report.tag = rows.text(row, 7);
    report.priority = static_cast<int>(rows.integer(row, 8));
    report.submitted_unix_ms = rows.integer(row, 9);
    report.finished_unix_ms = rows.integer(row, 10);
    report.sequence = rows.integer(row, 11);
    report.verdict = rows.text(row, 12);
    report.error = rows.text(row, 13);
    return report;
  }

  static Query find_query(std::span<const Name> names) {
    std::vector<std::string> clients, ids;
    for (const auto& [client, id] : names) {
      clients.push_back(client);
      ids.push_back(raw(id));
    }
    return {kFind, PostgresParameters().add_texts(clients).add_bytes(ids)};
  }

  Result<std::vector<std::optional<Report>>> reports_from(const PostgresRows& rows, std::size_t names) const {
    std::vector<std::optional<Report>> reports(names);
    for (int row = 0; row < rows.size(); ++row) {
      LATHE_TRY(auto* const report, slot(reports, rows.integer(row, kReportColumns)));
      LATHE_TRY(*report, report_from(rows, row));
    }
    return reports;
  }

  Result<Pending> pending_from(const PostgresRows& rows, int row) const {
    Pending pending;
    Submission& submission = pending.submission;
    LATHE_TRY(submission.key, key_from(rows, row));
    submission.client = rows.text(row, 6);
    submission.tag = rows.text(row, 7);
    submission.trace = rows.text(row, 8);
    submission.priority = static_cast<int>(rows.integer(row, 9));
    submission.deadline_unix_ms = rows.integer(row, 10);
    submission.submitted_unix_ms = rows.integer(row, 11);
    pending.lost_workers = static_cast<int>(rows.integer(row, 12));
    return pending;
  }

  /// One round trip, or two where something is submitted: what is new is decided between them.
  Result<LedgerOutcome> write_all(const LedgerChanges& changes) {
    std::vector<Query> queries = {{kBegin}, {kTurn}};
    if (changes.probe)
      for (const char* const step : {kBeginProbe, kProbe, kEndProbe, kTouch}) queries.push_back({step});
    if (changes.submissions.empty() && !changes.tasks.empty()) queries.push_back(tasks_query(changes.tasks));
    const auto lost_at = add_if(!changes.lost_workers.empty(), queries, [&] {
      return Query{kCountLost, PostgresParameters().add_bytes(raw_of(changes.lost_workers))};
    });
    const auto ends_at = add_if(!changes.ends.empty(), queries, [&] { return ends_query(changes); });
    const bool by_name = std::any_of(changes.withdrawals.begin(), changes.withdrawals.end(),
                                     [](const auto& one) { return !one.name.empty(); });
    const auto names_at = add_if(by_name, queries, [&] { return names_query(kCancelNames, changes); });
    if (by_name) {
      queries.push_back(names_query(kDeadlinesOfNames, changes));
      queries.push_back(withdraw_query(changes, true));
    }
    const auto withdrawn_at =
        add_if(!changes.withdrawals.empty(), queries, [&] { return withdraw_query(changes, false); });
    if (withdrawn_at) {
      std::vector<std::string> ids;
      for (const auto& one : changes.withdrawals) ids.push_back(raw(one.id));
      queries.push_back({kStillWanted, PostgresParameters().add_bytes(ids)});
    }
    const auto states_at =
        add_if(!changes.submissions.empty(), queries, [&] { return states_query(changes); });
    if (states_at) {
      queries.push_back({kUnfinished});
    } else {
      queries.push_back({kCommit});
      if (!changes.looks.empty()) queries.push_back(find_query(changes.looks));
    }
    LATHE_TRY(const auto rows, session_.run(queries));

    LedgerOutcome outcome;
    if (!states_at && !changes.looks.empty()) {
      LATHE_TRY(outcome.looks, reports_from(rows.back(), changes.looks.size()));
    }
    if (lost_at) {
      std::map<std::string, int> counts;
      for (int row = 0; row < rows[*lost_at].size(); ++row)
        counts[rows[*lost_at].text(row, 0)] = static_cast<int>(rows[*lost_at].integer(row, 1));
      for (const Digest& id : changes.lost_workers) outcome.lost_workers.push_back(counts[raw(id)]);
    }
    outcome.ends.resize(changes.ends.size());
    for (int row = 0; ends_at && row < rows[*ends_at].size(); ++row) {
      LATHE_TRY(auto* const ended, slot(outcome.ends, rows[*ends_at].integer(row, 0)));
      ended->first = true;
      if (!rows[*ends_at].is_null(row, 1)) ended->clients.push_back(rows[*ends_at].text(row, 1));
    }
    outcome.withdrawals.resize(changes.withdrawals.size());
    if (names_at) {
      LATHE_CHECK_OK(read_names(rows[*names_at], rows[*names_at + 1], outcome));
      LATHE_CHECK_OK(read_ended(rows[*names_at + 2], outcome));
    }
    if (withdrawn_at) {
      LATHE_CHECK_OK(read_ended(rows[*withdrawn_at], outcome));
      for (int row = 0; row < rows[*withdrawn_at + 1].size(); ++row) {
        LATHE_TRY(auto* const withdrawal, slot(outcome.withdrawals, rows[*withdrawn_at + 1].integer(row, 0)));
        withdrawal->unwanted = false;
      }
    }
    if (states_at) LATHE_CHECK_OK(admit(changes, rows[*states_at], rows[*states_at + 1], outcome));
    return outcome;
  }

  /// The place of a query's rows.
  template <class Make>
  static std::optional<std::size_t> add_if(bool needed, std::vector<Query>& queries, Make make) {
    if (!needed) return std::nullopt;
    queries.push_back(make());
    return queries.size() - 1;
  }

  static Query tasks_query(const std::vector<StoredTask>& tasks) {
    std::vector<std::string> digests, names, texts;
    for (const StoredTask& task : tasks) {
      digests.push_back(raw(task.digest));
      names.push_back(task.name);
      texts.push_back(task.text);
    }
    return {kAddTasks, PostgresParameters().add_bytes(digests).add_texts(names).add_bytes(texts)};
  }

  static Query ends_query(const LedgerChanges& changes) {
    std::vector<std::string> ids, verdicts, errors;
    std::vector<std::int64_t> states, lasting;
    std::set<Digest> seen;
    for (const auto& [id, conclusion] : changes.ends) {
      // The first counts: a row that is there twice would leave it open which.
      ids.push_back(seen.insert(id).second ? raw(id) : std::string());
      states.push_back(static_cast<std::int64_t>(conclusion.state));
      lasting.push_back(conclusion.lasting());
      verdicts.push_back(conclusion.state == State::kDone ? json_text(to_json(conclusion.verdict)) : "");
      errors.push_back(conclusion.error);
    }
    return {kEnd, PostgresParameters()
                      .add_bytes(ids)
                      .add_numbers(states)
                      .add_numbers(lasting)
                      .add_texts(verdicts)
                      .add_bytes(errors)
                      .add(changes.unix_ms)};
  }

  static Query names_query(const char* sql, const LedgerChanges& changes) {
    std::vector<std::string> clients, ids, names;
    for (const auto& one : changes.withdrawals) {
      clients.push_back(one.client);
      ids.push_back(raw(one.id));
      names.push_back(one.name);
    }
    return {sql,
            PostgresParameters().add_texts(clients).add_bytes(ids).add_bytes(names).add(changes.unix_ms)};
  }

  Status read_names(const PostgresRows& cancelled, const PostgresRows& deadlines,
                    LedgerOutcome& outcome) const {
    for (int row = 0; row < cancelled.size(); ++row) {
      LATHE_TRY(auto* const withdrawal, slot(outcome.withdrawals, cancelled.integer(row, 0)));
      withdrawal->withdrawn = true;
    }
    for (int row = 0; row < deadlines.size(); ++row) {
      LATHE_TRY(auto* const withdrawal, slot(outcome.withdrawals, deadlines.integer(row, 0)));
      withdrawal->deadline_unix_ms = deadlines.integer(row, 1);
    }
    return Ok{};
  }

  Status read_ended(const PostgresRows& ended, LedgerOutcome& outcome) const {
    for (int row = 0; row < ended.size(); ++row) {
      LATHE_TRY(auto* const withdrawal, slot(outcome.withdrawals, ended.integer(row, 0)));
      *withdrawal = {.withdrawn = true, .ended = true, .unwanted = true};
    }
    return Ok{};
  }

  /// Either those by name, or the others.
  static Query withdraw_query(const LedgerChanges& changes, bool by_name) {
    std::vector<std::string> clients, ids;
    std::vector<std::int64_t> states, deadlines;
    // A request that is there twice is withdrawn once: at the place that asks for no deadline, or
    // of the last name.
    std::map<Name, std::size_t> places;
    for (std::size_t i = 0; i < changes.withdrawals.size(); ++i) {
      const auto& one = changes.withdrawals[i];
      if (by_name == one.name.empty()) continue;
      std::size_t& place = places.try_emplace({one.client, one.id}, i).first->second;
      if (by_name || (one.deadline_unix_ms == 0 && changes.withdrawals[place].deadline_unix_ms > 0))
        place = i;
    }
    for (std::size_t i = 0; i < changes.withdrawals.size(); ++i) {
      const auto& [client, id, state, deadline_unix_ms, name] = changes.withdrawals[i];
      const auto place = places.find({client, id});
      clients.push_back(client);
      ids.push_back(place != places.end() && place->second == i ? raw(id) : std::string());
      states.push_back(static_cast<std::int64_t>(state));
      deadlines.push_back(deadline_unix_ms);
    }
    return {kWithdraw, PostgresParameters()
                           .add_texts(clients)
                           .add_bytes(ids)
                           .add_numbers(states)
                           .add(changes.unix_ms)
                           .add_numbers(deadlines)
                           .add(by_name)};
  }

  static Query states_query(const LedgerChanges& changes) {
    std::vector<std::string> clients, ids;
    for (const auto& entry : changes.submissions) {
      clients.push_back(entry.submission.client);
      ids.push_back(raw(entry.submission.key.id()));
    }
    return {kStates, PostgresParameters().add_texts(clients).add_bytes(ids)};
  }

  /// What the tables say of a submission, and what those before it in the transaction have changed.
  struct Known {
    std::map<Digest, bool> lasting;  ///< of the evaluations that there are
    std::set<Digest> wanted;
    std::map<Name, State> own;
    std::map<Name, std::int64_t> deadlines;  ///< of own
    std::map<std::string, std::int64_t> unfinished;
    std::int64_t all_unfinished = 0;
  };

  struct Additions {
    std::vector<std::string> ids, tasks, candidates, depths, kinds, versions, texts;  // evaluations
    std::vector<std::string> reopened;
    std::vector<std::string> clients, requests, tags, traces;
    std::vector<std::int64_t> priorities, deadlines, submitted, known;
    std::int64_t last_known = 0;
    std::set<Name> put_off;  ///< requests whose deadline is a later one now
    std::map<std::string, std::int64_t> counts;
    std::vector<const Submission*> named;
  };

  Status admit(const LedgerChanges& changes, const PostgresRows& states, const PostgresRows& counts,
               LedgerOutcome& outcome) {
    Known known;
    for (int row = 0; row < counts.size(); ++row) {
      known.unfinished[counts.text(row, 0)] = counts.integer(row, 1);
      known.all_unfinished += counts.integer(row, 1);
    }
    for (int row = 0; row < states.size(); ++row) {
      LATHE_TRY(const auto* const entry, slot(changes.submissions, states.integer(row, 0)));
      const Submission& submission = entry->submission;
      const Digest id = submission.key.id();
      if (!states.is_null(row, 1))
        known.lasting[id] = states.integer(row, 1) != 0 && states.integer(row, 2) != 0;
      if (!states.is_null(row, 3)) {
        known.own[{submission.client, id}] = static_cast<State>(states.integer(row, 3));
        known.deadlines[{submission.client, id}] = states.integer(row, 5);
      }
      if (states.integer(row, 4) != 0) known.wanted.insert(id);
    }
    Additions additions;
    for (const auto& entry : changes.submissions) {
      outcome.submissions.push_back(decide(entry, changes.max_all, known, additions));
      if (!is_refused(outcome.submissions.back()) && !entry.submission.naming.name.empty())
        additions.named.push_back(&entry.submission);
      const auto own = known.deadlines.find({entry.submission.client, entry.submission.key.id()});
      outcome.deadlines_unix_ms.push_back(own == known.deadlines.end() ? entry.submission.deadline_unix_ms
                                                                       : own->second);
    }
    std::vector<Query> queries;
    if (const auto tasks = tasks_to_keep(changes, outcome.submissions); !tasks.empty())
      queries.push_back(tasks_query(tasks));
    if (!additions.ids.empty())
      queries.push_back({kAddEvaluations, PostgresParameters()
                                              .add_bytes(additions.ids)
                                              .add_bytes(additions.tasks)
                                              .add_bytes(additions.candidates)
                                              .add_texts(additions.depths)
                                              .add_texts(additions.kinds)
                                              .add_texts(additions.versions)
                                              .add_bytes(additions.texts)});
    if (!additions.reopened.empty())
      queries.push_back({kReopen, PostgresParameters().add_bytes(additions.reopened)});
    if (!additions.requests.empty())
      queries.push_back({kPutRequests, PostgresParameters()
                                           .add_texts(additions.clients)
                                           .add_bytes(additions.requests)
                                           .add_bytes(additions.tags)
                                           .add_bytes(additions.traces)
                                           .add_numbers(additions.priorities)
                                           .add_numbers(additions.deadlines)
                                           .add_numbers(additions.submitted)
                                           .add(additions.last_known)
                                           .add_numbers(additions.known)});
    if (!additions.put_off.empty()) {
      std::vector<std::string> clients, ids;
      std::vector<std::int64_t> deadlines;
      for (const auto& name : additions.put_off) {
        clients.push_back(name.first);
        ids.push_back(raw(name.second));
        deadlines.push_back(known.deadlines.at(name));
      }
      queries.push_back(
          {kPutOff, PostgresParameters().add_texts(clients).add_bytes(ids).add_numbers(deadlines)});
    }
    if (!additions.named.empty()) queries.push_back(put_names_query(additions.named));
    if (!additions.counts.empty()) {
      std::vector<std::string> clients;
      std::vector<std::int64_t> more;
      for (const auto& [client, count] : additions.counts) {
        clients.push_back(client);
        more.push_back(count);
      }
      queries.push_back({kCount, PostgresParameters().add_texts(clients).add_numbers(more)});
    }
    queries.push_back({kCommit});
    if (!changes.looks.empty()) queries.push_back(find_query(changes.looks));
    LATHE_TRY(const auto rows, session_.run(queries));
    if (!changes.looks.empty()) {
      LATHE_TRY(outcome.looks, reports_from(rows.back(), changes.looks.size()));
    }
    return Ok{};
  }

  /// A name that a request is given twice is entered once: as the last says, with the later
  /// deadline.
  static Query put_names_query(const std::vector<const Submission*>& named) {
    std::map<NameQuery, std::pair<std::size_t, std::int64_t>> last;  // its place and deadline
    for (std::size_t i = 0; i < named.size(); ++i) {
      const Submission& one = *named[i];
      const auto [entry, is_new] =
          last.try_emplace({one.client, one.naming.name, one.key.id()}, i, one.deadline_unix_ms);
      if (!is_new) entry->second = {i, later_deadline(entry->second.second, one.deadline_unix_ms)};
    }
    std::vector<std::string> clients, ids, names, details;
    std::vector<std::int64_t> submitted, deadlines;
    for (std::size_t i = 0; i < named.size(); ++i) {
      const Submission& one = *named[i];
      const auto& [place, deadline_unix_ms] = last.at({one.client, one.naming.name, one.key.id()});
      if (place != i) continue;
      clients.push_back(one.client);
      ids.push_back(raw(one.key.id()));
      names.push_back(one.naming.name);
      details.push_back(one.naming.details);
      submitted.push_back(one.submitted_unix_ms);
      deadlines.push_back(deadline_unix_ms);
    }
    return {kPutNames, PostgresParameters()
                           .add_texts(clients)
                           .add_bytes(ids)
                           .add_bytes(names)
                           .add_bytes(details)
                           .add_numbers(submitted)
                           .add_numbers(deadlines)};
  }

  static Admission decide(const LedgerChanges::Entry& entry, std::int64_t max_all, Known& known,
                          Additions& additions) {
    const Submission& submission = entry.submission;
    const Digest id = submission.key.id();
    const auto own = known.own.find({submission.client, id});
    if (own != known.own.end() && own->second == State::kQueued) {
      std::int64_t& deadline = known.deadlines[own->first];
      const std::int64_t before = deadline;
      deadline = later_deadline(before, submission.deadline_unix_ms);
      if (deadline != before) additions.put_off.insert(own->first);
      return Admission::kJoined;
    }
    const auto evaluation = known.lasting.find(id);
    const bool exists = evaluation != known.lasting.end();
    if (exists && evaluation->second) {
      if (own != known.own.end() && own->second == State::kDone) return Admission::kKnown;
      put(submission, id, ++additions.last_known, additions);
      known.own[{submission.client, id}] = State::kDone;
      known.deadlines[{submission.client, id}] = submission.deadline_unix_ms;
      return Admission::kKnown;
    }
    const bool is_wanted = known.wanted.contains(id);
    std::int64_t& mine = known.unfinished[submission.client];
    if (!is_wanted && mine >= entry.max_own) return Admission::kRefusedOwn;
    if (!is_wanted && known.all_unfinished >= max_all) return Admission::kRefused;
    if (!exists) {
      additions.ids.push_back(raw(id));
      additions.tasks.push_back(raw(submission.key.task));
      additions.candidates.push_back(raw(submission.key.candidate));
      additions.depths.emplace_back(lathe::name(submission.key.depth));
      additions.kinds.push_back(submission.key.device_kind);
      additions.versions.push_back(submission.key.gym_version);
      additions.texts.push_back(submission.candidate);
      known.lasting[id] = false;
    } else if (!is_wanted) {
      additions.reopened.push_back(raw(id));
    }
    put(submission, id, 0, additions);
    known.own[{submission.client, id}] = State::kQueued;
    known.deadlines[{submission.client, id}] = submission.deadline_unix_ms;
    known.wanted.insert(id);
    ++mine;
    ++known.all_unfinished;
    ++additions.counts[submission.client];
    return is_wanted ? Admission::kJoined : Admission::kNew;
  }

  static void put(const Submission& submission, const Digest& id, std::int64_t known, Additions& additions) {
    additions.clients.push_back(submission.client);
    additions.requests.push_back(raw(id));
    additions.tags.push_back(submission.tag);
    additions.traces.push_back(submission.trace);
    additions.priorities.push_back(submission.priority);
    additions.deadlines.push_back(submission.deadline_unix_ms);
    additions.submitted.push_back(submission.submitted_unix_ms);
    additions.known.push_back(known);
  }

  PostgresSession session_;
};

#undef LATHE_POSTGRES_REPORT
#undef LATHE_POSTGRES_PENDING

class PostgresTokens final : public TokenStore {
 public:
  explicit PostgresTokens(std::string url) : session_(std::move(url)) {}
  Status open() { return check_version(session_); }

  Result<std::vector<TokenRecord>> list() override {
    LATHE_TRY(const PostgresRows rows, session_.run(kListTokens));
    std::vector<TokenRecord> records;
    for (int row = 0; row < rows.size(); ++row) {
      LATHE_TRY(const Role role, parse_role(rows.text(row, 2)));
      records.push_back({rows.text(row, 0),
                         {rows.text(row, 1), role, rows.integer(row, 4)},
                         rows.text(row, 3),
                         rows.integer(row, 5)});
    }
    return records;
  }

  Status remove(const std::string& name) override {
    LATHE_TRY(const PostgresRows rows,
              session_.run(kRemoveToken, PostgresParameters().add_texts(std::vector{name})));
    return rows.size() == 1 ? Status(Ok{}) : no_token(name);
  }

 private:
  Status add_record(const TokenRecord& record) override {
    LATHE_CHECK_OK(
        session_.run(kAddToken, PostgresParameters()
                                    .add_texts(std::vector{record.id})
                                    .add_texts(std::vector{record.principal.client})
                                    .add_texts(std::vector{std::string(name(record.principal.role))})
                                    .add_texts(std::vector{record.hash})
                                    .add_numbers(std::vector{record.principal.max_unfinished})
                                    .add_numbers(std::vector{record.created_unix})));
    return Ok{};
  }

  PostgresSession session_;
};

}  // namespace

Result<std::unique_ptr<Ledger>> open_postgres_ledger(const std::string& url) {
  auto ledger = std::make_unique<PostgresLedger>(url);
  LATHE_CHECK_OK(ledger->open());
  return std::unique_ptr<Ledger>(std::move(ledger));
}

Result<std::unique_ptr<TokenStore>> open_postgres_tokens(const std::string& url) {
  auto tokens = std::make_unique<PostgresTokens>(url);
  LATHE_CHECK_OK(tokens->open());
  return std::unique_ptr<TokenStore>(std::move(tokens));
}

}  // namespace lathe::serve

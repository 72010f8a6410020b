#include "store/schema.h"

#include <unistd.h>

#include <array>
#include <cstdio>

namespace lathe {
namespace {

// `checksum` covers every other column of its row: SQLite notices a damaged page, but not damaged
// text.
constexpr const char* kVersion1 = R"sql(
CREATE TABLE schema (version INTEGER NOT NULL) STRICT;
INSERT INTO schema VALUES (0);
CREATE TABLE runs (
  id TEXT PRIMARY KEY NOT NULL,
  task_name TEXT NOT NULL,
  task_text TEXT NOT NULL,
  task TEXT NOT NULL,
  config TEXT NOT NULL,
  status TEXT NOT NULL,
  summary TEXT NOT NULL,
  created_unix INTEGER NOT NULL
) STRICT;
CREATE TABLE experiences (
  id INTEGER PRIMARY KEY,
  run TEXT NOT NULL REFERENCES runs(id),
  sequence INTEGER NOT NULL,
  task_name TEXT NOT NULL,
  task TEXT NOT NULL,
  candidate TEXT NOT NULL,
  candidate_text TEXT NOT NULL,
  prompt TEXT NOT NULL,
  outcome TEXT NOT NULL,
  reason TEXT NOT NULL,
  lineage TEXT NOT NULL,
  verdict TEXT NOT NULL,
  cost_seconds REAL NOT NULL,
  created_unix INTEGER NOT NULL,
  checksum TEXT NOT NULL,
  UNIQUE (run, sequence)
) STRICT;
CREATE INDEX experiences_by_task ON experiences (task, outcome);
CREATE TABLE speedups (
  experience INTEGER NOT NULL REFERENCES experiences(id) ON DELETE CASCADE,
  baseline TEXT NOT NULL,
  low REAL NOT NULL,
  mid REAL NOT NULL,
  PRIMARY KEY (experience, baseline)
) STRICT, WITHOUT ROWID;
CREATE TABLE facts (
  key TEXT PRIMARY KEY NOT NULL,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
)sql";

// AUTOINCREMENT: an id that a reader has passed never comes back, whatever is deleted.
constexpr const char* kVersion2 = R"sql(
CREATE TABLE experiences_2 (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run TEXT NOT NULL REFERENCES runs(id),
  sequence INTEGER NOT NULL,
  task_name TEXT NOT NULL,
  task TEXT NOT NULL,
  candidate TEXT NOT NULL,
  candidate_text TEXT NOT NULL,
  outcome TEXT NOT NULL,
  reason TEXT NOT NULL,
  lineage TEXT NOT NULL,
  generation TEXT NOT NULL,
  verdict TEXT NOT NULL,
  cost_seconds REAL NOT NULL,
  created_unix INTEGER NOT NULL,
  checksum TEXT NOT NULL,
  UNIQUE (run, sequence)
) STRICT;
INSERT INTO experiences_2
  SELECT id, run, sequence, task_name, task, candidate, candidate_text, outcome, reason, lineage, '', verdict,
         cost_seconds, created_unix, checksum FROM experiences ORDER BY id;
DROP TABLE speedups;
DROP TABLE experiences;
ALTER TABLE experiences_2 RENAME TO experiences;
CREATE INDEX experiences_by_task ON experiences (task);
CREATE INDEX experiences_by_run ON experiences (run);
)sql";

constexpr std::array<const char*, 2> kMigrations = {kVersion1, kVersion2};

Result<std::int64_t> single_number(Database& database, std::string_view sql) {
  LATHE_TRY(Statement statement, database.prepare(sql));
  LATHE_TRY(const bool row, statement.step());
  return row ? statement.integer(0) : std::int64_t{-1};
}

/// 0 for an empty database.
Result<std::int64_t> version_of(Database& database) {
  LATHE_TRY(const auto tables, single_number(database, "SELECT count(*) FROM sqlite_schema"));
  if (tables == 0) return std::int64_t{0};
  LATHE_TRY(const auto ours, single_number(database,
                                           "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND "
                                           "name IN ('schema', 'runs', 'experiences')"));
  if (ours != 3) {
    return invalid("'" + database.path() + "' is a database, but not one of Lathe's", "use another folder");
  }
  LATHE_TRY(const auto version, single_number(database, "SELECT version FROM schema"));
  if (version < 0) return Error{ErrorCode::kCorrupt, "'" + database.path() + "' has lost its schema version"};
  return version;
}

Status keep_copy(Database& database, std::int64_t version) {
  const std::string copy = database.path() + ".v" + std::to_string(version);
  const std::string temporary = copy + "." + std::to_string(::getpid());
  LATHE_TRY(Statement vacuum, database.prepare("VACUUM INTO ?"));
  LATHE_CHECK_OK(vacuum.bind(temporary).run());
  if (std::rename(temporary.c_str(), copy.c_str()) != 0) return errno_error("cannot publish '" + copy + "'");
  return Ok{};
}

}  // namespace

std::span<const char* const> migrations() { return kMigrations; }

Status migrate(Database& database, std::span<const char* const> steps) {
  const auto target = static_cast<std::int64_t>(steps.size());
  LATHE_TRY(const auto before, version_of(database));
  if (before > 0 && before < target) LATHE_CHECK_OK(keep_copy(database, before));
  if (before == target) return Ok{};

  LATHE_TRY(Transaction transaction, Transaction::begin(database));
  LATHE_TRY(const auto version, version_of(database));  // another process may have migrated meanwhile
  if (version > target) {
    return Error{ErrorCode::kUnavailable,
                 "'" + database.path() + "' has schema version " + std::to_string(version) +
                     "; this Lathe knows versions up to " + std::to_string(target),
                 "update Lathe, or use another store folder"};
  }
  for (auto next = version; next < target; ++next) {
    LATHE_CHECK_OK(database.execute(steps[static_cast<std::size_t>(next)]));
    LATHE_TRY(Statement update, database.prepare("UPDATE schema SET version = ?"));
    LATHE_CHECK_OK(update.bind(next + 1).run());
  }
  return transaction.commit();
}

}  // namespace lathe

#include "serve/serve_database.h"

#include <fcntl.h>

#include "base/fd.h"

namespace lathe::serve {
namespace {

constexpr int kVersion = 1;

constexpr const char* kTables = R"sql(
CREATE TABLE tasks (digest TEXT PRIMARY KEY, name TEXT NOT NULL, text TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE evaluations (
  id TEXT PRIMARY KEY,
  task TEXT NOT NULL,
  candidate TEXT NOT NULL,
  depth TEXT NOT NULL,
  device_kind TEXT NOT NULL,
  gym_version TEXT NOT NULL,
  text TEXT NOT NULL,
  state INTEGER NOT NULL DEFAULT 0,
  lasting INTEGER NOT NULL DEFAULT 0,
  lost_workers INTEGER NOT NULL DEFAULT 0,
  verdict TEXT NOT NULL DEFAULT '',
  error TEXT NOT NULL DEFAULT ''
);
CREATE TABLE requests (
  client TEXT NOT NULL,
  evaluation TEXT NOT NULL REFERENCES evaluations (id),
  tag TEXT NOT NULL,
  trace TEXT NOT NULL,
  priority INTEGER NOT NULL,
  deadline_unix_ms INTEGER NOT NULL,
  submitted_unix_ms INTEGER NOT NULL,
  state INTEGER NOT NULL DEFAULT 0,
  finished_unix_ms INTEGER NOT NULL DEFAULT 0,
  sequence INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (client, evaluation)
) WITHOUT ROWID;
CREATE INDEX open_requests ON requests (evaluation) WHERE state = 0;
CREATE UNIQUE INDEX finished_requests ON requests (client, sequence) WHERE sequence > 0;
CREATE TABLE sequence (last INTEGER NOT NULL);
INSERT INTO sequence VALUES (0);
CREATE TABLE tokens (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  role TEXT NOT NULL,
  hash TEXT NOT NULL,
  max_unfinished INTEGER NOT NULL,
  created_unix INTEGER NOT NULL
) WITHOUT ROWID;
PRAGMA user_version = 1;
)sql";

// Stores that were made before there was this get it when they are opened.
constexpr const char* kAdditions = R"sql(
CREATE INDEX IF NOT EXISTS old_requests ON requests (finished_unix_ms) WHERE state <> 0;
CREATE TABLE IF NOT EXISTS names (
  number INTEGER PRIMARY KEY,
  client TEXT NOT NULL,
  evaluation TEXT NOT NULL,
  name TEXT NOT NULL,
  details TEXT NOT NULL,
  submitted_unix_ms INTEGER NOT NULL,
  deadline_unix_ms INTEGER NOT NULL,
  cancelled_unix_ms INTEGER NOT NULL,
  UNIQUE (client, evaluation, name)
);
CREATE INDEX IF NOT EXISTS latest_names ON names (client, name, number);
)sql";

Result<std::int64_t> version_of(Database& database) {
  LATHE_TRY(Statement statement, database.prepare("PRAGMA user_version"));
  LATHE_TRY(const bool row, statement.step());
  return row ? statement.integer(0) : std::int64_t{0};
}

}  // namespace

Result<Database> open_serve_database(const std::string& folder) {
  LATHE_CHECK_OK(make_directories(folder));
  const std::string path = folder + "/serve.db";
  // Candidates and hashes of tokens are nobody else's business; SQLite gives its other files the
  // same mode.
  { const UniqueFd made(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)); }
  LATHE_TRY(Database database, Database::open(path));
  LATHE_TRY(auto version, version_of(database));
  if (version == 0) {
    LATHE_TRY(Transaction transaction, Transaction::begin(database));
    LATHE_TRY(version, version_of(database));  // another process may have made the tables meanwhile
    if (version == 0) LATHE_CHECK_OK(database.execute(kTables));
    LATHE_CHECK_OK(transaction.commit());
    version = kVersion;
  }
  if (version != kVersion)
    return Error{ErrorCode::kUnavailable,
                 "'" + database.path() + "' has schema version " + std::to_string(version) +
                     "; this Lathe knows version " + std::to_string(kVersion),
                 "update Lathe, or use another store folder"};
  LATHE_CHECK_OK(database.execute(kAdditions));
  return database;
}

}  // namespace lathe::serve

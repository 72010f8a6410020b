#include "store/store.h"

#include <unistd.h>

#include <mutex>

#include "base/fd.h"
#include "store/blob_folder.h"
#include "store/experience_rows.h"
#include "store/schema.h"

namespace lathe {
namespace {

constexpr const char* kRunColumns =
    "SELECT id, task_name, task_text, task, config, status, summary, created_unix, "
    "(SELECT count(*) FROM experiences WHERE run = runs.id) FROM runs ";

RunRecord read_run(const Statement& row) {
  RunRecord run;
  run.id = row.text(0);
  run.task_name = row.text(1);
  run.task_text = row.text(2);
  if (const auto task = Digest::from_hex(row.text(3)); task.ok()) run.task = *task;
  run.config = row.text(4);
  run.status = row.text(5);
  run.summary = row.text(6);
  run.created_unix = row.integer(7);
  run.experiences = row.integer(8);
  return run;
}

Result<std::vector<RunRecord>> read_runs(Statement& select) {
  std::vector<RunRecord> runs;
  for (;;) {
    LATHE_TRY(const bool row, select.step());
    if (!row) return runs;
    runs.push_back(read_run(select));
  }
}

class SqliteStore final : public Store {
 public:
  SqliteStore(Database database, const std::string& folder)
      : database_(std::move(database)), blobs_(folder + "/blobs") {}

  Status create_run(const RunRecord& run) override;
  Status update_run(const std::string& id, const std::string& status, const std::string& summary) override;
  Result<RunRecord> run(const std::string& id_or_prefix) override;
  Result<std::vector<RunRecord>> runs(int limit) override;
  Result<std::int64_t> append(const Experience& experience) override;
  Result<std::vector<Experience>> experiences(const std::string& run) override;
  Result<std::vector<Experience>> read(const Query& query) override;
  Result<std::string> get_blob(const Digest& digest) override { return blobs_.get(digest); }
  Status put_fact(const std::string& key, const std::string& value) override;
  Result<std::optional<std::string>> get_fact(const std::string& key) override;

 private:
  Status put_blobs(const Generation& generation) const;

  std::mutex mutex_;  // guards database_
  Database database_;
  const BlobFolder blobs_;
};

Status SqliteStore::create_run(const RunRecord& run) {
  std::lock_guard lock(mutex_);
  LATHE_TRY(Statement insert, database_.prepare("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)"));
  insert.bind(run.id).bind(run.task_name).bind(run.task_text).bind(run.task.hex()).bind(run.config);
  insert.bind(run.status).bind(run.summary).bind(run.created_unix);
  Status status = insert.run();
  if (!status.ok() && database_.extended_code() == SQLITE_CONSTRAINT_PRIMARYKEY) {
    return invalid("run '" + run.id + "' exists already", "resume it, or start one with another id");
  }
  return status;
}

Status SqliteStore::update_run(const std::string& id, const std::string& status, const std::string& summary) {
  std::lock_guard lock(mutex_);
  LATHE_TRY(Statement update, database_.prepare("UPDATE runs SET status = ?, summary = ? WHERE id = ?"));
  LATHE_CHECK_OK(update.bind(status).bind(summary).bind(id).run());
  if (database_.changes() == 0) return Error{ErrorCode::kNotFound, "there is no run '" + id + "'"};
  return Ok{};
}

Result<RunRecord> SqliteStore::run(const std::string& wanted) {
  std::lock_guard lock(mutex_);
  const bool newest = wanted == "last" || wanted.empty();
  LATHE_TRY(Statement select,
            database_.prepare(
                kRunColumns +
                std::string(newest ? "ORDER BY created_unix DESC, rowid DESC LIMIT 1"
                                   : "WHERE substr(id, 1, length(?1)) = ?1 ORDER BY id <> ?1, id LIMIT 4")));
  if (!newest) select.bind(wanted);
  LATHE_TRY(std::vector<RunRecord> found, read_runs(select));
  if (found.empty()) {
    return Error{ErrorCode::kNotFound,
                 newest ? "the store holds no run yet" : "there is no run '" + wanted + "'",
                 newest ? "`lathe optimize TASK.toml` makes one" : "`lathe runs list` names them"};
  }
  if (found.size() > 1 && found[0].id != wanted) {
    std::string ids;
    for (const RunRecord& run : found) ids += (ids.empty() ? "" : ", ") + run.id;
    return invalid("'" + wanted + "' begins the name of more than one run", "one of: " + ids);
  }
  return std::move(found[0]);
}

Result<std::vector<RunRecord>> SqliteStore::runs(int limit) {
  std::lock_guard lock(mutex_);
  LATHE_TRY(Statement select,
            database_.prepare(kRunColumns + std::string("ORDER BY created_unix DESC, rowid DESC LIMIT ?")));
  select.bind(std::int64_t{limit});
  return read_runs(select);
}

Result<std::int64_t> SqliteStore::append(const Experience& experience) {
  if (experience.generation) LATHE_CHECK_OK(put_blobs(*experience.generation));
  std::lock_guard lock(mutex_);
  LATHE_TRY(Transaction transaction, Transaction::begin(database_));
  LATHE_TRY(const std::int64_t id, insert_experience(database_, experience));
  LATHE_CHECK_OK(transaction.commit());
  return id;
}

Result<std::vector<Experience>> SqliteStore::experiences(const std::string& run) {
  std::lock_guard lock(mutex_);
  return select_experiences(database_, "WHERE run = ? ORDER BY sequence",
                            [&](Statement& select) { select.bind(run); });
}

Result<std::vector<Experience>> SqliteStore::read(const Query& query) {
  std::lock_guard lock(mutex_);
  std::string condition = "WHERE e.id > ?";
  if (query.task) condition += " AND e.task = ?";
  if (!query.run.empty()) condition += " AND e.run = ?";
  return select_experiences(database_, condition + " ORDER BY e.id LIMIT ?", [&](Statement& select) {
    select.bind(query.after_id);
    if (query.task) select.bind(query.task->hex());
    if (!query.run.empty()) select.bind(query.run);
    select.bind(std::int64_t{query.limit});
  });
}

Status SqliteStore::put_blobs(const Generation& generation) const {
  for (const auto& [name, member] : kGenerationBlobs) {
    const Blob& blob = generation.*member;
    if (!blob.bytes.empty()) LATHE_CHECK_OK(blobs_.put(blob.bytes));
  }
  return Ok{};
}

Status SqliteStore::put_fact(const std::string& key, const std::string& value) {
  std::lock_guard lock(mutex_);
  LATHE_TRY(Statement insert, database_.prepare("INSERT INTO facts VALUES (?, ?) ON CONFLICT (key) DO UPDATE "
                                                "SET value = excluded.value"));
  return insert.bind(key).bind(value).run();
}

Result<std::optional<std::string>> SqliteStore::get_fact(const std::string& key) {
  std::lock_guard lock(mutex_);
  LATHE_TRY(Statement select, database_.prepare("SELECT value FROM facts WHERE key = ?"));
  LATHE_TRY(const bool row, select.bind(key).step());
  if (!row) return std::optional<std::string>();
  return std::optional<std::string>(select.text(0));
}

}  // namespace

Result<std::unique_ptr<Store>> Store::open(const std::string& folder) {
  LATHE_CHECK_OK(make_directories(folder));
  const std::string path = folder + "/lathe.db";
  const bool only_readable = ::access(path.c_str(), R_OK) == 0 &&
                             (::access(path.c_str(), W_OK) != 0 || ::access(folder.c_str(), W_OK) != 0);
  LATHE_TRY(Database database, only_readable ? Database::open_to_read(path) : Database::open(path));
  LATHE_CHECK_OK(migrate(database, migrations()));
  return std::unique_ptr<Store>(std::make_unique<SqliteStore>(std::move(database), folder));
}

}  // namespace lathe

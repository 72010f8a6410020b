#include "store/sqlite.h"

#include <unistd.h>

#include <chrono>
#include <thread>

namespace lathe {
namespace {

constexpr int kBusyMilliseconds = 20'000;

std::string quoted(const std::string& path) { return "'" + path + "'"; }

// Not ".recover": Debian's sqlite3 is built without what that needs. ".dump" reads a damaged table
// from both ends and then rolls back, which the sed undoes.
std::string recovery_hint(const std::string& path) {
  return "close every lathe process, then rescue what is readable: mv " + quoted(path) + " " +
         quoted(path + ".damaged") + " && rm -f " + quoted(path + "-wal") + " " + quoted(path + "-shm") +
         " && sqlite3 " + quoted(path + ".damaged") + " .dump | sed 's/^ROLLBACK;.*/COMMIT;/' | sqlite3 " +
         quoted(path);
}

std::string uri_path(const std::string& path) {
  std::string encoded;
  for (const char c : path)
    encoded += c == '?' || c == '#' || c == '%' ? "%" + std::string(c == '?'   ? "3f"
                                                                    : c == '#' ? "23"
                                                                               : "25")
                                                : std::string(1, c);
  return encoded;
}

}  // namespace

Error Database::error(const std::string& action) const {
  const int code = handle_ ? sqlite3_errcode(handle_.get()) : SQLITE_NOMEM;
  const std::string message =
      action + " " + quoted(path_) + ": " + (handle_ ? sqlite3_errmsg(handle_.get()) : "out of memory");
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
      return {ErrorCode::kCorrupt, message, recovery_hint(path_)};
    case SQLITE_NOTADB:
      return {ErrorCode::kCorrupt, message,
              "its header is lost: restore the file from a copy, or start afresh with mv " + quoted(path_) +
                  " " + quoted(path_ + ".damaged")};
    case SQLITE_FULL:
      return {ErrorCode::kIo, message, "free some disk space and try again; nothing stored so far is lost"};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {ErrorCode::kTimeout, message, "another process holds the store; end it or try again"};
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return {ErrorCode::kIo, message, "use a store in a folder that you may write to"};
    case SQLITE_IOERR:
      return {ErrorCode::kIo, message, "check the disk and its free space; nothing stored so far is lost"};
    default:
      return {ErrorCode::kInternal, message};
  }
}

Result<Database> Database::connect(const std::string& path, const std::string& name, int flags) {
  Database database;
  database.path_ = path;
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(name.c_str(), &handle, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  database.handle_.reset(handle);
  if (code != SQLITE_OK) return database.error("cannot open");
  sqlite3_busy_timeout(handle, kBusyMilliseconds);
  return database;
}

// Where no writer has left its -wal and -shm beside the file, SQLite would have to create them;
// then nobody writes, and the file may be taken as it is.
Result<Database> Database::open_to_read(const std::string& path) {
  for (const bool immutable : {false, true}) {
    const std::string name = immutable ? "file:" + uri_path(path) + "?immutable=1" : path;
    LATHE_TRY(Database database, connect(path, name, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI));
    const Status readable = database.execute("SELECT count(*) FROM sqlite_schema");
    if (readable.ok()) return database;
    const int code = database.extended_code() & 0xff;
    const bool lacks_files = code == SQLITE_CANTOPEN || code == SQLITE_READONLY;
    if (immutable || !lacks_files || ::access((path + "-wal").c_str(), F_OK) == 0) return readable.error();
  }
  return Error{};
}

Result<Database> Database::open(const std::string& path) {
  LATHE_TRY(Database database, connect(path, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
  LATHE_CHECK_OK(database.use_wal());
  LATHE_CHECK_OK(database.execute("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"));
  return database;
}

// Switching to WAL needs an exclusive lock, for which SQLite does not wait: two processes that
// create one store at once would otherwise fail.
Status Database::use_wal() {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::milliseconds(kBusyMilliseconds);
  for (;;) {
    const Status status = execute("PRAGMA journal_mode = WAL");
    if (status.ok() || status.error().code != ErrorCode::kTimeout) return status;
    if (std::chrono::steady_clock::now() > give_up) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

Status Database::execute(const char* sql) {
  if (sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK) return error("cannot use");
  return Ok{};
}

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()), &statement, nullptr) !=
      SQLITE_OK) {
    Error failed = error("cannot read");
    if (sqlite3_errcode(handle_.get()) == SQLITE_ERROR) {  // the statements are right, so the tables are not
      failed.code = ErrorCode::kCorrupt;
      failed.hint =
          "its tables are not as Lathe made them: restore the file from a copy, or use another store";
    }
    return failed;
  }
  return Statement(*this, statement);
}

Statement& Statement::bind(std::string_view text) {
  sqlite3_bind_text64(handle_.get(), ++bound_, text.data() ? text.data() : "", text.size(), SQLITE_TRANSIENT,
                      SQLITE_UTF8);
  return *this;
}

Statement& Statement::bind(std::int64_t number) {
  sqlite3_bind_int64(handle_.get(), ++bound_, number);
  return *this;
}

Statement& Statement::bind(double number) {
  sqlite3_bind_double(handle_.get(), ++bound_, number);
  return *this;
}

Result<bool> Statement::step() {
  switch (sqlite3_step(handle_.get())) {
    case SQLITE_ROW:
      return true;
    case SQLITE_DONE:
      return false;
    default:
      return database_->error(sqlite3_stmt_readonly(handle_.get()) ? "cannot read" : "cannot write");
  }
}

Status Statement::run() {
  for (;;) {
    LATHE_TRY(const bool row, step());
    if (!row) return Ok{};
  }
}

std::string Statement::text(int column) const {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(handle_.get(), column));
  const int size = sqlite3_column_bytes(handle_.get(), column);
  return bytes ? std::string(bytes, static_cast<std::size_t>(size)) : std::string();
}

Result<Transaction> Transaction::begin(Database& database) {
  LATHE_CHECK_OK(database.execute("BEGIN IMMEDIATE"));
  return Transaction(database);
}

Transaction::~Transaction() {
  if (database_) (void)database_->execute("ROLLBACK");
}

Status Transaction::commit() {
  const Status status = database_->execute("COMMIT");
  if (status.ok()) database_ = nullptr;
  return status;
}

}  // namespace lathe

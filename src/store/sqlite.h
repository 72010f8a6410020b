#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lathe {

class Statement;

/// One SQLite connection. Errors are Lathe's: kCorrupt, kTimeout (another process kept the lock),
/// kIo (full disk, no permission), each with a hint. Not thread-safe.
class Database {
 public:
  /// Opens or creates `path`, WAL, one fsync a commit, foreign keys on.
  static Result<Database> open(const std::string& path);
  /// Without writing: for a file that this user may only read. While somebody else writes to it,
  /// what is committed is seen.
  static Result<Database> open_to_read(const std::string& path);

  Status execute(const char* sql);  ///< any number of statements, results dropped
  Result<Statement> prepare(std::string_view sql);
  Error error(const std::string& action) const;  ///< of the last failed call
  int extended_code() const { return sqlite3_extended_errcode(handle_.get()); }
  std::int64_t last_row() const { return sqlite3_last_insert_rowid(handle_.get()); }
  int changes() const { return sqlite3_changes(handle_.get()); }
  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
  };
  static Result<Database> connect(const std::string& path, const std::string& name, int flags);
  Status use_wal();

  std::unique_ptr<sqlite3, Close> handle_;
  std::string path_;
};

/// A prepared statement: bind in order, then step. Text may hold any bytes.
class Statement {
 public:
  Statement& bind(std::string_view text);
  Statement& bind(std::int64_t number);
  Statement& bind(double number);

  Result<bool> step();  ///< true: a row is there
  Status run();         ///< steps to the end
  /// As it was prepared, with nothing bound: to be used again. Until then it holds a read lock.
  void reset() {
    sqlite3_reset(handle_.get());
    sqlite3_clear_bindings(handle_.get());
    bound_ = 0;
  }
  std::string text(int column) const;
  std::int64_t integer(int column) const { return sqlite3_column_int64(handle_.get(), column); }
  double real(int column) const { return sqlite3_column_double(handle_.get(), column); }

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* handle) const { sqlite3_finalize(handle); }
  };
  Statement(const Database& database, sqlite3_stmt* handle) : database_(&database), handle_(handle) {}

  const Database* database_;  // outlives the statement
  std::unique_ptr<sqlite3_stmt, Finalize> handle_;
  int bound_ = 0;
};

/// A write transaction that takes the lock at once, so it never fails half way for another writer's
/// sake. Rolled back unless committed.
class Transaction {
 public:
  static Result<Transaction> begin(Database& database);
  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  Status commit();

 private:
  explicit Transaction(Database& database) : database_(&database) {}
  Database* database_;
};

}  // namespace lathe

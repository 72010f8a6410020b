#pragma once

#include <map>
#include <string>

#include "store/sqlite.h"

namespace lathe::serve {

/// Opens or creates "<folder>/serve.db" with its tables: the ledger's and the tokens. Processes may
/// share it.
Result<Database> open_serve_database(const std::string& folder);

/// Statements that are compiled once. The database must outlive it and stay where it is.
class StatementCache {
 public:
  explicit StatementCache(Database& database) : database_(database) {}

  /// A statement in use; reset when this ends.
  class Use {
   public:
    explicit Use(Statement& statement) : statement_(&statement) {}
    Use(Use&& other) noexcept : statement_(std::exchange(other.statement_, nullptr)) {}
    Use& operator=(Use&&) = delete;
    ~Use() {
      if (statement_) statement_->reset();
    }
    Statement* operator->() const { return statement_; }
    Statement& operator*() const { return *statement_; }

   private:
    Statement* statement_;
  };

  /// `sql` is a literal: its address is the key.
  Result<Use> use(const char* sql) {
    auto found = statements_.find(sql);
    if (found == statements_.end()) {
      LATHE_TRY(Statement statement, database_.prepare(sql));
      found = statements_.emplace(sql, std::move(statement)).first;
    }
    return Use(found->second);
  }

 private:
  Database& database_;
  std::map<const char*, Statement> statements_;
};

}  // namespace lathe::serve

#pragma once

#include <optional>
#include <string>

#include "base/process.h"
#include "base/result.h"

namespace lathe::serve {

/// A port of 127.0.0.1 that nobody has.
int free_port();

/// A redis-server of its own on 127.0.0.1, with its files in a folder. Killed by the destructor.
class RedisServer {
 public:
  /// `append_only`: it keeps what it has over a restart. Errors: kUnavailable without redis-server.
  static Result<RedisServer> start(const std::string& folder, bool append_only, std::string password = {});
  Status restart();  ///< after kill(); waits until it answers
  void kill() { process_->kill(); }
  pid_t pid() const { return process_->pid(); }
  int port() const { return port_; }
  std::string url() const;

 private:
  std::string folder_, password_;
  bool append_only_ = true;
  int port_ = 0;
  std::optional<Process> process_;
};

/// A PostgreSQL server of its own on 127.0.0.1, as nobody where this process is root. Killed by the
/// destructor.
class PostgresServer {
 public:
  static constexpr const char* kPassword = "p@ss/word";
  /// Its data lie in `folder`, which is made. Errors: kUnavailable without PostgreSQL.
  static Result<PostgresServer> start(const std::string& folder);
  PostgresServer() = default;
  PostgresServer(PostgresServer&&) = default;
  PostgresServer& operator=(PostgresServer&&) = default;
  ~PostgresServer() { kill(); }
  Status restart();
  void kill();  ///< at once, as by kill -9
  pid_t pid() const { return process_->pid(); }
  int port() const { return port_; }
  /// Of a database, which create_database() makes.
  std::string url(const std::string& database = "postgres") const;
  Status create_database(const std::string& name);

 private:
  std::string folder_;
  int port_ = 0;
  std::optional<Process> process_;
};

}  // namespace lathe::serve

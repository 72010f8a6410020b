#pragma once

#include <optional>
#include <string>

#include "base/process.h"
#include "base/result.h"

namespace lathe::serve {

/// A port of 127.0.0.1 that nobody has.
int free_port();

inline constexpr const char* kLoopback = "127.0.0.1";

/// A redis-server of its own, with its files in a folder. Killed by the destructor.
class RedisServer {
 public:
  /// `append_only`: it keeps what it has over a restart. `address`: where it listens; others than
  /// this machine need a password. Errors: kUnavailable without redis-server.
  static Result<RedisServer> start(const std::string& folder, bool append_only, std::string password = {},
                                   std::string address = kLoopback);
  Status restart();  ///< after kill(); waits until it answers
  void kill() { process_->kill(); }
  pid_t pid() const { return process_->pid(); }
  int port() const { return port_; }
  std::string url() const { return url(address_, port_); }
  /// The same server, as it is known elsewhere.
  std::string url(const std::string& address, int port) const;

 private:
  std::string folder_, password_, address_;
  bool append_only_ = true;
  int port_ = 0;
  std::optional<Process> process_;
};

/// A PostgreSQL server of its own, as nobody where this process is root. Killed by the
/// destructor.
class PostgresServer {
 public:
  static constexpr const char* kPassword = "p@ss/word";
  /// Its data lie in `folder`, which is made. Errors: kUnavailable without PostgreSQL.
  static Result<PostgresServer> start(const std::string& folder, std::string address = kLoopback);
  PostgresServer() = default;
  PostgresServer(PostgresServer&&) = default;
  PostgresServer& operator=(PostgresServer&&) = default;
  ~PostgresServer() { kill(); }
  Status restart();
  void kill();  ///< at once, as by kill -9
  pid_t pid() const { return process_->pid(); }
  int port() const { return port_; }
  /// Of a database, which create_database() makes.
  std::string url(const std::string& database = "postgres") const { return url(database, address_, port_); }
  /// The same server, as it is known elsewhere.
  std::string url(const std::string& database, const std::string& address, int port) const;
  bool is_running() { return process_ && !process_->has_ended(); }
  Status create_database(const std::string& name);

 private:
  std::string folder_, address_;
  int port_ = 0;
  std::optional<Process> process_;
};

}  // namespace lathe::serve

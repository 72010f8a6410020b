#include "bench/serve/servers.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <sstream>
#include <thread>

#include "base/fd.h"
#include "serve/postgres_connection.h"
#include "serve/redis_connection.h"

namespace lathe::serve {
namespace {

constexpr const char* kUnprivileged = "nobody";  // PostgreSQL refuses root

template <class Condition>
bool soon(double seconds, Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

/// The newest of Debian's folders of PostgreSQL's programs.
Result<std::string> postgres_programs() {
  std::vector<std::string> found;
  std::error_code code;
  for (std::filesystem::directory_iterator it("/usr/lib/postgresql", code), end; !code && it != end;
       it.increment(code))
    if (::access((it->path() / "bin/initdb").c_str(), X_OK) == 0) found.push_back(it->path() / "bin");
  if (found.empty())
    return Error{ErrorCode::kUnavailable, "there is no PostgreSQL here", "apt install postgresql"};
  return *std::max_element(found.begin(), found.end());
}

std::vector<std::string> as_nobody(std::vector<std::string> argv) {
  if (::geteuid() != 0) return argv;
  std::vector<std::string> all = {"setpriv", "--reuid", kUnprivileged,
                                  "--regid", "nogroup", "--clear-groups"};
  all.insert(all.end(), argv.begin(), argv.end());
  return all;
}

}  // namespace

int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ::bind(fd, reinterpret_cast<sockaddr*>(&address), size);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(fd);
  return ntohs(address.sin_port);
}

Result<RedisServer> RedisServer::start(const std::string& folder, bool append_only, std::string password,
                                       std::string address) {
  RedisServer server;
  server.folder_ = folder;
  server.append_only_ = append_only;
  server.password_ = std::move(password);
  server.address_ = std::move(address);
  server.port_ = free_port();
  LATHE_CHECK_OK(make_directories(folder));
  LATHE_CHECK_OK(server.restart());
  return server;
}

Status RedisServer::restart() {
  Command command{
      .argv = {"redis-server", "--port", std::to_string(port_), "--bind", address_, "--dir", folder_,
               "--save", "", "--appendonly", append_only_ ? "yes" : "no", "--logfile", "redis.log"},
      .own_group = true};
  if (!password_.empty()) command.argv.insert(command.argv.end(), {"--requirepass", password_});
  LATHE_TRY(Process process, Process::start(command, {}));
  process_.emplace(std::move(process));
  const bool is_up = soon(20, [&] {
    if (const auto parsed = parse_redis_url(url()); parsed.ok())
      if (const auto connection = RedisConnection::open(*parsed); connection.ok())
        return (*connection)->run(RedisCommand{"PING"}).ok();
    return false;
  });
  return is_up ? Status(Ok{}) : Error{ErrorCode::kUnavailable, "redis-server does not start in " + folder_};
}

std::string RedisServer::url(const std::string& address, int port) const {
  return fmt::format("redis://{}{}:{}", password_.empty() ? "" : ":" + password_ + "@", address, port);
}

Result<PostgresServer> PostgresServer::start(const std::string& folder, std::string address) {
  LATHE_TRY(const std::string programs, postgres_programs());
  PostgresServer server;
  server.folder_ = folder;
  server.address_ = std::move(address);
  server.port_ = free_port();
  LATHE_CHECK_OK(make_directories(folder));
  if (::geteuid() == 0) {
    const passwd* const user = ::getpwnam(kUnprivileged);
    if (!user || ::chown(folder.c_str(), user->pw_uid, user->pw_gid) != 0)
      return Error{ErrorCode::kUnavailable, "there is no user nobody, as whom PostgreSQL could run"};
  }
  const Command make{
      .argv = as_nobody({"sh", "-c",
                         fmt::format("umask 077; cd '{0}' && printf %s '{1}' >password && "
                                     "'{2}/initdb' -D '{0}/data' -U lathe -A scram-sha-256 "
                                     "--pwfile=password --no-sync -E UTF8 --locale=C && "
                                     "echo 'host all all samenet scram-sha-256' >>data/pg_hba.conf",
                                     folder, kPassword, programs)})};
  LATHE_TRY(const Completed made, run_command(make, "", 120));
  if (!made.status.ok()) return Error{ErrorCode::kUnavailable, "initdb: " + made.errors};
  LATHE_CHECK_OK(server.restart());
  return server;
}

Status PostgresServer::restart() {
  LATHE_TRY(const std::string programs, postgres_programs());
  const Command command{
      .argv = as_nobody(
          {"sh", "-c",
           fmt::format("cd '{0}' && rm -f data/postmaster.pid && exec '{1}/postgres' -D '{0}/data' -p {2} "
                       "-c listen_addresses={3} -c unix_socket_directories= "
                       "-c shared_buffers=128MB -c max_wal_size=4GB >>log 2>&1",
                       folder_, programs, port_, address_)}),
      .own_group = true};
  process_.reset();
  const bool is_up = soon(60, [&] {
    // While children of a killed server still end, the next one refuses to begin.
    if (!process_ || process_->has_ended())
      if (auto process = Process::start(command, {}); process.ok()) process_.emplace(*std::move(process));
    return PostgresConnection::open(url()).ok();
  });
  return is_up ? Status(Ok{}) : Error{ErrorCode::kUnavailable, "PostgreSQL does not start in " + folder_};
}

void PostgresServer::kill() {
  if (!process_) return;
  const pid_t server = process_->pid();
  // Its children lead sessions of their own, and one of them may still answer a request.
  const auto children = read_file(fmt::format("/proc/{0}/task/{0}/children", server));
  process_->kill();
  process_.reset();
  std::istringstream pids(children.ok() ? *children : "");
  for (pid_t pid = 0; pids >> pid;) ::kill(pid, SIGKILL);
}

std::string PostgresServer::url(const std::string& database, const std::string& address, int port) const {
  return fmt::format("postgres://lathe:p%40ss%2Fword@{}:{}/{}", address, port, database);
}

Status PostgresServer::create_database(const std::string& name) {
  LATHE_TRY(const auto connection, PostgresConnection::open(url()));
  return connection->execute("CREATE DATABASE " + name);
}

}  // namespace lathe::serve

#include "serve/postgres_connection.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/clock.h"
#include "serve/postgres_api.h"

namespace lathe::serve {
namespace {

constexpr std::uint32_t kByteaType = 17, kBigintType = 20, kTextType = 25;  // pg_type.dat
constexpr double kStatementSeconds = 15;

void append_u32(std::string& to, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) to.push_back(static_cast<char>(value >> shift & 0xff));
}

std::string big_endian(std::int64_t number) {
  std::string bytes;
  append_u32(bytes, static_cast<std::uint32_t>(static_cast<std::uint64_t>(number) >> 32));
  append_u32(bytes, static_cast<std::uint32_t>(static_cast<std::uint64_t>(number)));
  return bytes;
}

/// libpq's messages end with a line's end, and some have several lines.
std::string one_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

Error error_of_state(const std::string& state, const std::string& message, const std::string& place) {
  const std::string what = fmt::format("PostgreSQL at {}: {}", place, one_line(message));
  if (state == "53100") return {ErrorCode::kIo, what, "make room on the server's disk"};
  if (state == "42501") return {ErrorCode::kUnavailable, what, "GRANT CREATE ON DATABASE to the URL's user"};
  return {ErrorCode::kIo, what};
}

}  // namespace

PostgresParameters& PostgresParameters::add(std::int64_t number) {
  values_.push_back(big_endian(number));
  return *this;
}

PostgresParameters& PostgresParameters::add_numbers(std::span<const std::int64_t> numbers) {
  std::vector<std::string> elements;
  for (const std::int64_t number : numbers) elements.push_back(big_endian(number));
  return add_array(kBigintType, elements);
}

PostgresParameters& PostgresParameters::add_texts(std::span<const std::string> texts) {
  return add_array(kTextType, texts);
}

PostgresParameters& PostgresParameters::add_bytes(std::span<const std::string> bytes) {
  return add_array(kByteaType, bytes);
}

/// One dimension from 1, no nulls: array_recv in PostgreSQL's arrayfuncs.c reads it.
PostgresParameters& PostgresParameters::add_array(std::uint32_t element_type,
                                                  std::span<const std::string> elements) {
  std::string bytes;
  append_u32(bytes, elements.empty() ? 0 : 1);
  append_u32(bytes, 0);
  append_u32(bytes, element_type);
  if (!elements.empty()) {
    append_u32(bytes, static_cast<std::uint32_t>(elements.size()));
    append_u32(bytes, 1);
  }
  for (const std::string& element : elements) {
    append_u32(bytes, static_cast<std::uint32_t>(element.size()));
    bytes += element;
  }
  values_.push_back(std::move(bytes));
  return *this;
}

PostgresRows::PostgresRows(const PostgresApi& api, pg_result* result)
    : api_(&api), result_(result, api.clear) {}
int PostgresRows::size() const { return api_->ntuples(result_.get()); }
bool PostgresRows::is_null(int row, int column) const {
  return api_->getisnull(result_.get(), row, column) != 0;
}

std::string_view PostgresRows::bytes(int row, int column) const {
  return {api_->getvalue(result_.get(), row, column),
          static_cast<std::size_t>(api_->getlength(result_.get(), row, column))};
}

std::int64_t PostgresRows::integer(int row, int column) const {
  const std::string_view value = bytes(row, column);
  if (value.empty()) return 0;
  // The first byte has the sign.
  std::uint64_t number = static_cast<signed char>(value[0]) < 0 ? ~std::uint64_t{0} : 0;
  for (const char byte : value) number = number << 8 | static_cast<unsigned char>(byte);
  return static_cast<std::int64_t>(number);
}

Result<std::unique_ptr<PostgresConnection>> PostgresConnection::open(const std::string& written) {
  const std::string url = with_plain_scheme(written);  // libpq knows no other
  LATHE_TRY(const PostgresApi* const api, postgres_api());
  // libpq's own message may repeat parts of the URL.
  PQconninfoOption* const options = api->conninfo_parse(url.c_str(), nullptr);
  if (!options)
    return invalid("the store's URL is not one of PostgreSQL",
                   "write postgres://USER:PASSWORD@HOST:PORT/DATABASE, with %40 for an @ in the password");
  std::map<std::string, std::string> parts;
  for (const PQconninfoOption* option = options; option->keyword; ++option)
    if (option->val) parts[option->keyword] = option->val;
  api->conninfo_free(options);
  const std::string port = parts["port"].empty() ? "5432" : parts["port"];
  const std::string place =
      fmt::format("{}:{}/{}", parts["host"].empty() ? "localhost" : parts["host"], port, parts["dbname"]);
  const std::array keys = {"dbname",           "connect_timeout",  "application_name",
                           "client_encoding",  "keepalives_idle",  "keepalives_interval",
                           "keepalives_count", "tcp_user_timeout", static_cast<const char*>(nullptr)};
  const std::array values = {
      url.c_str(), "3", "lathe", "UTF8", "5", "2", "3", "8000", static_cast<const char*>(nullptr)};
  PGconn* const connection = api->connectdb_params(keys.data(), values.data(), 1);
  std::unique_ptr<PostgresConnection> opened(new PostgresConnection(*api, connection, place));
  if (!connection || api->status(connection) != CONNECTION_OK) {
    const std::string why = connection ? one_line(api->error_message(connection)) : "no memory";
    const bool is_password = why.find("password") != std::string::npos;
    return Error{ErrorCode::kUnavailable, fmt::format("cannot use PostgreSQL at {}: {}", place, why),
                 is_password ? "check user and password of --store, or set PGPASSFILE"
                             : "start the server, or correct host, port and database of --store"};
  }
  // Statements are prepared once, while the tables may be empty: their plans must be those of large
  // tables.
  LATHE_CHECK_OK(
      opened->execute("SET synchronous_commit = on; SET plan_cache_mode = force_generic_plan; SET jit = off; "
                      "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; "
                      "SET statement_timeout = '10s'; SET idle_in_transaction_session_timeout = '5s'; "
                      "SET client_min_messages = warning"));
  return opened;
}

PostgresConnection::~PostgresConnection() {
  if (connection_) api_.finish(connection_);
}

Error PostgresConnection::lost(std::string why) {
  alive_ = false;
  return {ErrorCode::kIo, fmt::format("PostgreSQL at {} is gone: {}", place_, one_line(std::move(why))),
          "it is tried again; start the server or mend the network"};
}

Status PostgresConnection::execute(const std::string& sql) {
  const PostgresRows rows(api_, api_.exec(connection_, sql.c_str()));
  if (api_.status(connection_) != CONNECTION_OK) return lost(api_.error_message(connection_));
  const std::string why = one_line(api_.error_message(connection_));
  if (!why.empty()) return error_of_state("", why, place_);
  return Ok{};
}

Status PostgresConnection::wait(bool to_write, std::int64_t until_ns) {
  pollfd ready{api_.socket(connection_), static_cast<short>(to_write ? POLLIN | POLLOUT : POLLIN), 0};
  const std::int64_t left_ms = (until_ns - steady_clock().now_ns()) / 1'000'000;
  if (left_ms <= 0) return lost("it does not answer");
  if (::poll(&ready, 1, static_cast<int>(left_ms)) < 0 && errno != EINTR) return lost(std::strerror(errno));
  if ((ready.revents & ~POLLOUT) != 0 && !api_.consume_input(connection_))
    return lost(api_.error_message(connection_));
  return Ok{};
}

Status PostgresConnection::send(std::span<const Query> queries) {
  if (!in_pipeline_) {
    if (api_.set_nonblocking(connection_, 1) != 0 || !api_.enter_pipeline_mode(connection_))
      return lost(api_.error_message(connection_));
    in_pipeline_ = true;
  }
  for (const Query& query : queries) {
    const auto [name, is_new] = prepared_.try_emplace(query.sql);
    if (is_new) name->second = fmt::format("s{}", prepared_.size());
    if (is_new && !api_.send_prepare(connection_, name->second.c_str(), query.sql, 0, nullptr))
      return lost(api_.error_message(connection_));
    std::vector<const char*> values;
    std::vector<int> lengths;
    for (const std::string& value : query.parameters.values()) {
      values.push_back(value.data());
      lengths.push_back(static_cast<int>(value.size()));
    }
    const std::vector<int> formats(values.size(), 1);
    if (!api_.send_query_prepared(connection_, name->second.c_str(), static_cast<int>(values.size()),
                                  values.data(), lengths.data(), formats.data(), 1))
      return lost(api_.error_message(connection_));
  }
  if (!api_.pipeline_sync(connection_)) return lost(api_.error_message(connection_));
  return Ok{};
}

Result<std::vector<PostgresRows>> PostgresConnection::run(std::span<const Query> queries) {
  const std::int64_t until = steady_clock().now_ns() + static_cast<std::int64_t>(kStatementSeconds * 1e9);
  std::vector<bool> prepares;
  std::vector<const char*> fresh;
  for (const Query& query : queries) {
    const bool is_new =
        !prepared_.contains(query.sql) && std::find(fresh.begin(), fresh.end(), query.sql) == fresh.end();
    if (is_new) {
      fresh.push_back(query.sql);
      prepares.push_back(true);
    }
    prepares.push_back(false);
  }
  LATHE_CHECK_OK(send(queries));
  for (int left = 1; left != 0;) {
    left = api_.flush(connection_);
    if (left < 0) return lost(api_.error_message(connection_));
    if (left > 0) LATHE_CHECK_OK(wait(true, until));
  }
  std::vector<PostgresRows> all;
  std::optional<Error> failed;
  std::size_t statement = 0;
  for (;;) {
    while (api_.is_busy(connection_)) LATHE_CHECK_OK(wait(false, until));
    PGresult* const result = api_.get_result(connection_);
    if (!result) {  // the end of one statement's results
      if (api_.status(connection_) != CONNECTION_OK) return lost(api_.error_message(connection_));
      ++statement;
      if (statement > prepares.size() + 1) return lost("it answers out of turn");
      continue;
    }
    PostgresRows rows(api_, result);
    const ExecStatusType status = api_.result_status(result);
    if (status == PGRES_PIPELINE_SYNC) break;
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) {
      if (statement < prepares.size() && !prepares[statement]) all.push_back(std::move(rows));
    } else if (!failed && status != PGRES_PIPELINE_ABORTED) {
      const char* const state = api_.result_error_field(result, PG_DIAG_SQLSTATE);
      const char* const message = api_.result_error_field(result, PG_DIAG_MESSAGE_PRIMARY);
      failed = error_of_state(state ? state : "",
                              message ? message : one_line(api_.error_message(connection_)), place_);
      // What was to be prepared behind it was not.
      for (const char* sql : fresh) prepared_.erase(sql);
      if (!fresh.empty()) alive_ = false;
      if (state && (std::string_view(state).starts_with("57P") || std::string_view(state) == "25P03"))
        alive_ = false;
    }
  }
  if (failed) return *failed;
  if (api_.status(connection_) != CONNECTION_OK) return lost(api_.error_message(connection_));
  return all;
}

}  // namespace lathe::serve

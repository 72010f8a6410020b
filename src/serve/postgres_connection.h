#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/url_scheme.h"

struct pg_conn;
struct pg_result;

namespace lathe::serve {

struct PostgresApi;

/// A statement's parameters in PostgreSQL's binary form.
class PostgresParameters {
 public:
  PostgresParameters& add(std::int64_t number);
  PostgresParameters& add_numbers(std::span<const std::int64_t> numbers);  ///< bigint[]
  PostgresParameters& add_texts(std::span<const std::string> texts);       ///< text[]
  PostgresParameters& add_bytes(std::span<const std::string> bytes);       ///< bytea[]
  std::span<const std::string> values() const { return values_; }

 private:
  PostgresParameters& add_array(std::uint32_t element_type, std::span<const std::string> elements);
  std::vector<std::string> values_;
};

/// A statement's rows, in binary form.
class PostgresRows {
 public:
  PostgresRows(const PostgresApi& api, pg_result* result);
  int size() const;
  bool is_null(int row, int column) const;
  std::string_view bytes(int row, int column) const;
  std::string text(int row, int column) const { return std::string(bytes(row, column)); }
  /// Of smallint, integer, bigint and boolean.
  std::int64_t integer(int row, int column) const;

 private:
  const PostgresApi* api_;
  std::unique_ptr<pg_result, void (*)(pg_result*)> result_;
};

/// One connection, whose statements go out together and whose results come back together. Not
/// thread-safe.
class PostgresConnection {
 public:
  /// `url`: "postgres://USER:PASSWORD@HOST:PORT/DATABASE". Errors never have the password: kInvalid
  /// for a URL that is none, kUnavailable without libpq or server, or where the server refuses.
  static Result<std::unique_ptr<PostgresConnection>> open(const std::string& url);
  ~PostgresConnection();

  struct Query {
    const char* sql;  ///< a literal: its address is the prepared statement's name
    PostgresParameters parameters = {};
  };
  /// One round trip. Errors: kIo, kBusy for a full disk; is_alive() says whether the connection can
  /// go on, in the transaction that was begun.
  Result<std::vector<PostgresRows>> run(std::span<const Query> queries);
  /// Several statements without parameters or rows, for tables and settings.
  Status execute(const std::string& sql);
  bool is_alive() const { return alive_; }
  /// "HOST:PORT/DATABASE".
  const std::string& place() const { return place_; }

 private:
  PostgresConnection(const PostgresApi& api, pg_conn* connection, std::string place)
      : api_(api), connection_(connection), place_(std::move(place)) {}
  Status send(std::span<const Query> queries);
  Status wait(bool to_write, std::int64_t until_ns);
  Error lost(std::string why);

  const PostgresApi& api_;
  pg_conn* connection_;
  const std::string place_;
  std::map<const char*, std::string> prepared_;
  bool alive_ = true;
  bool in_pipeline_ = false;
};

/// Whether a store's name is a PostgreSQL URL.
inline bool is_postgres_url(std::string_view name) {
  const std::string scheme = url_scheme(name);
  return scheme == "postgres" || scheme == "postgresql";
}

}  // namespace lathe::serve

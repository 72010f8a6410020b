#include "serve/tokens.h"

#include <sodium.h>

#include <algorithm>

#include "base/clock.h"
#include "base/digest.h"
#include "base/random.h"
#include "serve/serve_database.h"

namespace lathe::serve {
namespace {

constexpr std::string_view kScheme = "bearer";  // in any case
constexpr std::string_view kPrefix = "lathe_";
constexpr std::size_t kIdDigits = 12;

std::string hash_of(std::string_view secret) {
  return Hasher().add("lathe.token").add(secret).finish().hex();
}

std::string random_hex() {
  Digest bytes;
  bytes.bytes = Seed::from_system().bytes;
  return bytes.hex();
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

/// Empty for another scheme.
std::string_view token_in(std::string_view authorization) {
  const std::size_t blank = authorization.find(' ');
  if (blank != kScheme.size()) return {};
  const bool is_bearer = std::equal(kScheme.begin(), kScheme.end(), authorization.begin(),
                                    [](char small, char c) { return c == small || c == small - 'a' + 'A'; });
  const std::size_t begin = authorization.find_first_not_of(' ', blank);
  return is_bearer && begin != std::string_view::npos ? authorization.substr(begin) : std::string_view();
}

class SqliteTokens final : public TokenStore {
 public:
  explicit SqliteTokens(Database database) : database_(std::move(database)) {}

  Result<std::vector<TokenRecord>> list() override {
    LATHE_TRY(Statement select,
              database_.prepare(
                  "SELECT id, name, role, hash, max_unfinished, created_unix FROM tokens ORDER BY name"));
    std::vector<TokenRecord> records;
    for (;;) {
      LATHE_TRY(const bool row, select.step());
      if (!row) return records;
      LATHE_TRY(const Role role, parse_role(select.text(2)));
      records.push_back(
          {select.text(0), {select.text(1), role, select.integer(4)}, select.text(3), select.integer(5)});
    }
  }

  Status remove(const std::string& name) override {
    LATHE_TRY(Statement statement, database_.prepare("DELETE FROM tokens WHERE name = ?"));
    LATHE_CHECK_OK(statement.bind(name).run());
    return database_.changes() == 0 ? Status(no_token(name)) : Ok{};
  }

 private:
  Status add_record(const TokenRecord& record) override {
    LATHE_TRY(Statement insert,
              database_.prepare("INSERT INTO tokens (id, name, role, hash, max_unfinished, created_unix) "
                                "VALUES (?, ?, ?, ?, ?, ?)"));
    return insert.bind(record.id)
        .bind(record.principal.client)
        .bind(name(record.principal.role))
        .bind(record.hash)
        .bind(record.principal.max_unfinished)
        .bind(record.created_unix)
        .run();
  }

  Database database_;
};

}  // namespace

std::string_view name(Role role) {
  switch (role) {
    case Role::kRead:
      return "read";
    case Role::kSubmit:
      return "submit";
    case Role::kAdmin:
      return "admin";
    case Role::kWorker:
      return "worker";
  }
  return "";
}

bool may(Role role, Role needed) {
  if (role == Role::kAdmin || needed == Role::kWorker) return role == Role::kAdmin || role == needed;
  return role != Role::kWorker && role >= needed;
}

Result<Role> parse_role(std::string_view text) {
  for (const Role role : {Role::kRead, Role::kSubmit, Role::kAdmin, Role::kWorker})
    if (name(role) == text) return role;
  return invalid("there is no role '" + std::string(text) + "'", "choose read, submit, admin or worker");
}

Result<std::unique_ptr<TokenStore>> TokenStore::open(const std::string& folder) {
  LATHE_TRY(Database database, open_serve_database(folder));
  return std::unique_ptr<TokenStore>(std::make_unique<SqliteTokens>(std::move(database)));
}

Result<std::string> TokenStore::add(const Principal& principal) {
  if (!is_name(principal.client))
    return invalid("'" + principal.client + "' is no name for a token",
                   "use up to 64 letters, digits, '-', '_' and '.'");
  LATHE_TRY(const auto known, list());
  for (const TokenRecord& record : known)
    if (record.principal.client == principal.client)
      return invalid("there is a token '" + principal.client + "' already",
                     "remove it first, or choose another name");
  const std::string id = random_hex().substr(0, kIdDigits), secret = random_hex();
  LATHE_CHECK_OK(add_record({id, principal, hash_of(secret), unix_seconds()}));
  return std::string(kPrefix) + id + "_" + secret;
}

Error TokenStore::no_token(const std::string& name) {
  return {ErrorCode::kNotFound, "there is no token '" + name + "'", "lathe serve token list names them"};
}

std::optional<Principal> Tokens::find(const std::string& authorization) const {
  constexpr std::size_t kIdAt = kPrefix.size(), kSecretAt = kIdAt + kIdDigits + 1;
  const std::string_view token = token_in(authorization);
  if (!token.starts_with(kPrefix) || token.size() <= kSecretAt) return std::nullopt;
  const std::string_view id = token.substr(kIdAt, kIdDigits);
  const std::string hash = hash_of(token.substr(kSecretAt));
  for (const TokenRecord& record : records_)
    if (record.id == id && record.hash.size() == hash.size() &&
        sodium_memcmp(record.hash.data(), hash.data(), hash.size()) == 0)
      return record.principal;
  return std::nullopt;
}

}  // namespace lathe::serve

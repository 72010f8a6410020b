#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace lathe::serve {

/// What a token's owner may do. kSubmit may do what kRead may, kAdmin everything; kWorker may do
/// the work, and see nothing else.
enum class Role { kRead, kSubmit, kAdmin, kWorker };
std::string_view name(Role role);
bool may(Role role, Role needed);
Result<Role> parse_role(std::string_view name);

/// Who a request comes from.
struct Principal {
  std::string client;
  Role role = Role::kRead;
  std::int64_t max_unfinished = 0;  ///< requests at once
};

struct TokenRecord {
  std::string id;
  Principal principal;  ///< `client` is the token's name
  std::string hash;     ///< of its secret
  std::int64_t created_unix = 0;
};

/// The tokens of a service, in its database. A token is "lathe_<id>_<secret>" with 256 secret bits;
/// the database has a keyless BLAKE2b hash of the secret, which that many random bits need no more
/// than. Not thread-safe.
class TokenStore {
 public:
  /// In "<folder>/serve.db".
  static Result<std::unique_ptr<TokenStore>> open(const std::string& folder);
  virtual ~TokenStore() = default;
  /// The token, which nobody can read again. Errors: kInvalid for a name that is taken or no name.
  Result<std::string> add(const Principal& principal);
  virtual Result<std::vector<TokenRecord>> list() = 0;
  /// Errors: kNotFound.
  virtual Status remove(const std::string& name) = 0;

 protected:
  static Error no_token(const std::string& name);

 private:
  virtual Status add_record(const TokenRecord& record) = 0;
};

/// Tokens at one moment. Immutable.
class Tokens {
 public:
  explicit Tokens(std::vector<TokenRecord> records) : records_(std::move(records)) {}
  bool empty() const { return records_.empty(); }
  /// Of an Authorization header. Takes the same time for every wrong secret.
  std::optional<Principal> find(const std::string& authorization) const;

 private:
  std::vector<TokenRecord> records_;
};

}  // namespace lathe::serve

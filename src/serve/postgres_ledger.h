#pragma once

#include <memory>
#include <string>

#include "serve/ledger.h"
#include "serve/tokens.h"

namespace lathe::serve {

/// A ledger that front ends share, in the schema "lathe" of a PostgreSQL database; makes its
/// tables. A lost connection is opened again by the next call. Errors: those of
/// PostgresConnection::open, and kUnavailable for tables of another version.
Result<std::unique_ptr<Ledger>> open_postgres_ledger(const std::string& url);

/// The tokens beside it.
Result<std::unique_ptr<TokenStore>> open_postgres_tokens(const std::string& url);

}  // namespace lathe::serve

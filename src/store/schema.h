#pragma once

#include <span>

#include "store/sqlite.h"

namespace lathe {

/// The shipped steps: entry i takes a store of version i to version i + 1. Entries are never
/// changed once released; a new version appends one.
std::span<const char* const> migrations();

/// Brings the database to version `steps.size()`, in one transaction; an older store is first
/// copied to "<path>.v<version>". Errors: a newer store, a database that is not Lathe's, what
/// SQLite says.
Status migrate(Database& database, std::span<const char* const> steps);

}  // namespace lathe

#pragma once

#include <memory>
#include <string>

#include "serve/ledger.h"

namespace lathe::serve {

/// A ledger in "<folder>/serve.db", and the right to it: one front end at a time has a folder.
/// Errors: kBusy where another one has it, what SQLite says.
Result<std::unique_ptr<Ledger>> open_sqlite_ledger(const std::string& folder);

}  // namespace lathe::serve

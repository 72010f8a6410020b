#include "policy/catalog/patterns.h"

namespace lathe::catalog {
Status emit_contraction(const Site&) { return Error{ErrorCode::kUnavailable, "not yet"}; }
}  // namespace lathe::catalog

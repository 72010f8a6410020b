#include "policy/catalog/lowering.h"

namespace lathe::catalog {
bool lower_move(Lowering&) { return false; }
}  // namespace lathe::catalog

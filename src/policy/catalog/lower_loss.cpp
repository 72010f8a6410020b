#include "policy/catalog/lowering.h"

namespace lathe::catalog {
bool lower_loss(Lowering&) { return false; }
}  // namespace lathe::catalog

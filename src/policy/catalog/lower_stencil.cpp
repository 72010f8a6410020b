#include "policy/catalog/lowering.h"

namespace lathe::catalog {
bool lower_stencil(Lowering&) { return false; }
}  // namespace lathe::catalog

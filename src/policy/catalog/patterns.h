#pragma once

#include "policy/catalog/emit/program.h"
#include "policy/catalog/emit/site.h"

namespace lathe::catalog {

/// Writes the group's kernels by the pattern that the kind of its first primitive has for the
/// target. Errors: the pattern cannot write this group.
Status emit_group(const Site& site, Program& program);

}  // namespace lathe::catalog

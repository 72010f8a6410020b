#pragma once

#include <set>
#include <string>
#include <vector>

#include "policy/catalog/emit/loops.h"
#include "policy/catalog/emit/program.h"
#include "policy/catalog/emit/site.h"

namespace lathe::catalog {

/// What one C variable of a kernel holds.
enum class Elements { kVectors, kScalars };

/// Statements that take a result further and store what is needed outside the group.
struct Epilogue {
  std::string code;
  std::set<std::string> written;
  bool heavy = false;
  double bytes = 0;
};

/// The elementwise epilogue of a group whose value `given` the pattern computed in the variable
/// `variable`, at `indices`, of which the last is a vector's first element. Vectors are masked by
/// `lanes`.
Epilogue emit_epilogue(const Site& site, Program& program, const std::vector<Loop>& loops,
                       const std::vector<std::string>& indices, const std::string& given,
                       const std::string& variable, Elements elements = Elements::kVectors);

}  // namespace lathe::catalog

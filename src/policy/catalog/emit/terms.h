#pragma once

#include <string>
#include <vector>

#include "policy/catalog/emit/loops.h"
#include "policy/catalog/ir/group.h"

namespace lathe::catalog {

/// One value inside a kernel: read from memory, computed from others, or reduced.
struct Term {
  enum class Kind { kLeaf, kApply, kReduce, kGiven };
  Kind kind = Kind::kLeaf;
  std::string value;
  const Primitive* node = nullptr;
  std::vector<int> operands;
  std::string type = "float";  ///< in C, of one element
  std::vector<bool> runs;      ///< along which loops
  int stage = 0;               ///< the first pass over the reduced axes that can compute it
  bool calls = false;          ///< a function of vectors, beside operators
  bool heavy = false;          ///< calls a transcendental function
  bool stored = false;         ///< needed outside the kernel
};

/// A group's values, operands before users.
struct Terms {
  std::vector<Term> list;
  int stages = 1;  ///< passes, the last of which only stores

  /// What kernels call a term: 't', its accumulator 'a', a column block's results 'b' or what stays
  /// in registers 'k'. Named after its value, so that no name depends on the text behind it: who
  /// writes a kernel from beginning to end, as a model does, would have to foresee that.
  std::string name(int term, char kind = 't') const {
    return std::string{kind, '_'} + list[static_cast<std::size_t>(term)].value;
  }
};

/// `given`: a value that the skeleton computes by itself (a product's accumulator); empty if none.
Terms collect_terms(const Graph& graph, const Group& group, const std::vector<Loop>& loops,
                    const std::string& given = {});

/// What kernels compute with where each value has its own type: fp32 for all smaller floating-point
/// ones.
std::string exact_type(DType dtype);

/// The C expression of an apply term.
std::string formula_text(const Terms& terms, const Term& term);

/// An index value: the position along the one loop that it runs along.
std::string iota_text(const Group& group, const std::vector<Loop>& loops, const Term& term,
                      const std::vector<std::string>& indices, bool vectors = true);

}  // namespace lathe::catalog

#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "task/spec.h"

namespace lathe::catalog {

/// What patterns are made of: each op of a task becomes one or several of these.
enum class Kind {
  kApply,     ///< one C expression per element, operands broadcast as in NumPy
  kReduce,    ///< over `axes`; how says "sum", "max", "min", "prod", "argmax", "argmin"
  kView,      ///< the same elements under another shape
  kContract,  ///< matrix product of the last two axes; batch axes broadcast
  kConvolve,  ///< sliding products; attrs as the task gave them
  kPool,      ///< sliding max or mean
  kScan,      ///< prefix sums along axes[0]
  kPermute,   ///< axes[i] is the source of output axis i
  kConcat,    ///< along axes[0]
  kSlice,     ///< in[0] from offsets[i] on in every axis, in steps of `steps[i]`
  kGather,    ///< rows of in[0] along axes[0], numbered by in[1]
  kPick,      ///< in[0] at [..., in[1][...]]: one element of the last axis for each index
};

/// A C expression from the names of its operands.
using Formula = std::function<std::string(std::span<const std::string>)>;

struct Primitive {
  Kind kind = Kind::kApply;
  std::string out;
  std::vector<std::string> in;
  SymbolicType type;
  Formula formula = {};        ///< kApply
  std::string how = {};        ///< kReduce, kPool, kConvolve ("conv2d", "conv_transpose2d")
  std::vector<int> axes = {};  ///< of the first input
  std::vector<Expr> offsets = {};
  std::vector<Expr> steps = {};
  bool transpose_a = false;
  bool transpose_b = false;
  Attrs attrs = {};
};

/// A task as primitives, in an order in which they can be computed.
struct Graph {
  const TaskSpec* task = nullptr;
  std::vector<Primitive> nodes;
  std::map<std::string, SymbolicType> types;  ///< of inputs and of every primitive's result

  const SymbolicType& type_of(const std::string& value) const { return types.at(value); }
  bool is_input(const std::string& value) const { return task->find_tensor(value) != nullptr; }
  bool is_output(const std::string& value) const;
  std::vector<int> consumers(const std::string& value) const;  ///< indices into nodes
};

/// Errors: an op or a dtype that the catalogue does not know.
Result<Graph> lower(const TaskSpec& task);

bool is_one(const Expr& extent);
bool equal(const Expr& a, const Expr& b);
Expr product(std::span<const Expr> extents);
/// The expression as a factor in C: parenthesised unless it is a name or a number.
std::string factor(const Expr& expr);

}  // namespace lathe::catalog

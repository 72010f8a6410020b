#pragma once

#include <array>
#include <functional>
#include <map>
#include <set>
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
  kGrouped,   ///< rows of in[0] times the matrix of in[1] between whose offsets, in[2], they lie
  kConvolve,  ///< sliding products over the last two axes, or three of rank 5; `window` says how
  kPool,      ///< sliding "max" or "mean" over the last two axes
  kWindows,   ///< "mean", "max" or "first" of the windows of axes[0] that make the result's extent of it,
              ///< as long as each other or one longer; "fold" of columns
  kResample,  ///< linear interpolation along the axes behind the second, at "pixels" or "corners"
  kScan,      ///< running "sum", "prod", "max" or "min" along axes[0]; "linear": in[0] is added to in[1]
              ///< times what was before
  kSort,      ///< "values" or "places" in order along axes[0], the last one first if reverse
  kPermute,   ///< output axis i is input axis axes[i]
  kSegments,  ///< along the first axis: "scatter" of in[2] to in[1], or "add", "scatter_max", "scatter_min"
              ///< of it there; "sum", "segment_max", "segment_min" between offsets in[1]; "bincount" of in[0]
  kMove,      ///< along axes[0]: "concat", "slice", "pad" and "roll" by offsets, "flip", "gather" by in[1],
              ///< "take_along" by each line's own in[1]
};

/// A C expression from the names of its operands.
using Formula = std::function<std::string(std::span<const std::string>)>;
/// The operand itself: a copy, perhaps under another shape or in another type.
std::string same_value(std::span<const std::string> operands);

/// A window that slides over depth, height and width; without a depth, that is one plane.
struct Window {
  std::array<std::int64_t, 3> kernel{1, 1, 1};  ///< of a pool
  std::array<std::int64_t, 3> stride{1, 1, 1};
  std::array<std::int64_t, 3> padding{0, 0, 0};
  std::array<std::int64_t, 3> dilation{1, 1, 1};
  Expr groups = Expr::constant(1);
  bool transposed = false;    ///< a transposed convolution: strides spread the input
  bool count_padding = true;  ///< a mean divides by the whole kernel
  bool rounded_up = false;    ///< a last window may end beyond the padding, which no mean counts
};

struct Primitive {
  Kind kind = Kind::kApply;
  std::string out;
  std::vector<std::string> in;
  SymbolicType type;
  Formula formula = {};  ///< kApply
  std::string how = {};
  std::vector<int> axes = {};  ///< of the first input
  std::vector<Expr> offsets = {};
  Window window = {};
  double fill = 0;         ///< of a pad
  bool reverse = false;    ///< a scan from the end, a descending order
  bool exclusive = false;  ///< a scan of what is before each element
  bool transpose_a = false;
  bool transpose_b = false;
  bool apart = false;  ///< a kernel of its own, whatever could join it
  bool exact = false;  ///< kApply, kReduce: each value is computed in its own type, not in fp32
};

/// A task as primitives, in an order in which they can be computed.
struct Graph {
  const TaskSpec* task = nullptr;
  std::vector<Primitive> nodes;
  std::map<std::string, SymbolicType> types;  ///< of inputs and of every primitive's result
  std::set<std::string> iotas;  ///< values that are an index: 0, 1, ... along their one axis, not in memory
  std::map<std::string, std::string> counted;  ///< by values in memory that are such an index: itself
  /// What is written to inout tensors, by the tensors' names, which stand for what is in them
  /// before.
  std::map<std::string, std::string> written;

  std::map<std::string, std::string> dims;  ///< the task's names of dims, by their names in kernels

  const SymbolicType& type_of(const std::string& value) const { return types.at(value); }
  bool is_input(const std::string& value) const { return task->find_tensor(value) != nullptr; }
  /// The value that the task returns as `output`.
  const std::string& result_of(const std::string& output) const;
  bool is_output(const std::string& value) const;
  /// Whether the value takes an inout tensor's place in memory.
  bool overwrites(const std::string& value) const;
  /// `name`, or a longer one that no value has.
  std::string unused(std::string name) const;
  std::vector<int> consumers(const std::string& value) const;  ///< indices into nodes
};

/// What kernels call a dim. Names that a task chooses are prefixed in kernels, so that none is ever
/// taken: dims by n_, buffers by p_.
std::string name_in_code(const std::string& dim);

/// The expression with dims named as in kernels, and as in the task.
Expr to_code(const Graph& graph, const Expr& expr);
Expr to_task(const Graph& graph, const Expr& expr);

bool is_one(const Expr& extent);
bool equal(const Expr& a, const Expr& b);
Expr product(std::span<const Expr> extents);

/// Whether fp32 holds too little of the type: kernels that compute in fp32 leave it alone.
bool is_wide(DType dtype);

/// The value of a kernel's expression at the task's headline shape; 1 if there is none.
std::int64_t headline(const Graph& graph, const Expr& expr);
/// The smallest value at any scored shape.
std::int64_t least(const Graph& graph, const Expr& expr);
/// The largest value in the task's domain, as far as the ends of the dims' ranges tell.
std::int64_t most(const Graph& graph, const Expr& expr);
/// The number of elements of `shape` at the headline shape.
double headline_count(const Graph& graph, std::span<const Expr> shape);

/// The expression as a factor in C: parenthesised unless it is a name or a number.
std::string factor(const Expr& expr);

}  // namespace lathe::catalog

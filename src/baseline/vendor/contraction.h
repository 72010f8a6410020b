#pragma once

#include <optional>

#include "baseline/vendor/node_call.h"

namespace lathe::vendor {

/// A matmul-like node as strided matrices: for each batch, C (m, n) = A (m, k) * B (k, n).
struct Contraction {
  std::int64_t batch = 1;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transpose_a = false;   ///< A is stored (k, m)
  bool transpose_b = false;   ///< B is stored (n, k)
  std::int64_t a_stride = 0;  ///< elements between batches; 0 when all share one
  std::int64_t b_stride = 0;
  int bias = -1;  ///< index of the (n) bias among the node's inputs, or -1
};

/// nullopt if the node is no contraction, or if strides cannot express how its batches broadcast.
std::optional<Contraction> contraction_of(const Node& node);

/// The operand of `node` that is a bias over the n columns of node `previous`, or null.
const Operand* row_bias(const Node& node, int previous, std::int64_t n);

}  // namespace lathe::vendor

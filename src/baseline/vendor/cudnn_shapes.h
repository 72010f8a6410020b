#pragma once

#include <variant>

#include "baseline/vendor/node_call.h"

namespace lathe::vendor {

using Ints = std::vector<int>;

/// One convolution, or with `transposed` its adjoint. Tensors have a batch, channels and two or three axes;
/// the other lists have a number for each axis. Buffers are indices, -1: none.
struct ConvolutionShape {
  Ints x, weights, y;
  Ints stride, padding, dilation;
  int groups = 1;
  bool transposed = false;
  int bias = -1;  ///< the buffer of one value a channel of y
  bool relu = false;
};

struct PoolingShape {
  Ints x, y;
  Ints kernel, stride, padding;
  bool maximum = false;
  bool count_padding = true;  ///< what lies outside counts in an average's divisor
};

/// Over the second of the extents [outer, length, inner, 1].
struct SoftmaxShape {
  Ints shape;
  bool logarithm = false;
};

struct NormShape {
  Ints shape;  ///< batch, channels, the rest, 1
  double eps = 0;
};

using CudnnShape = std::variant<ConvolutionShape, PoolingShape, SoftmaxShape, NormShape>;

/// The one cuDNN call that computes all nodes of `call`. Errors: kInvalid, what does not map exactly.
Result<CudnnShape> cudnn_shape(const NodeCall& call);

}  // namespace lathe::vendor

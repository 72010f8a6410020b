#pragma once

#include <variant>

#include "baseline/vendor/node_call.h"

namespace lathe::vendor {

using Ints = std::vector<int>;

/// A convolution, or its adjoint if `transposed`. Tensors have a batch, channels and two or three
/// spatial axes; other lists have one number for each spatial axis. Buffers are indices, -1 if
/// absent.
struct ConvolutionShape {
  Ints x, weights, y;
  Ints stride, padding, dilation;
  int groups = 1;
  bool transposed = false;
  int bias = -1;  ///< the buffer of the bias over y's channels
  bool relu = false;
};

struct PoolingShape {
  Ints x, y;
  Ints kernel, stride, padding;
  bool maximum = false;
  bool count_padding = true;  ///< padding counts in an average's divisor
};

/// A softmax over the second of the extents [outer, length, inner, 1].
struct SoftmaxShape {
  Ints shape;
  bool logarithm = false;
};

struct NormShape {
  Ints shape;  ///< batch, channels, the rest, 1
  double eps = 0;
};

using CudnnShape = std::variant<ConvolutionShape, PoolingShape, SoftmaxShape, NormShape>;

/// The cuDNN call that computes all nodes of `call`. Errors: kInvalid if there is no exact
/// equivalent.
Result<CudnnShape> cudnn_shape(const NodeCall& call);

}  // namespace lathe::vendor

#pragma once

#include <functional>

#include "baseline/vendor/cudnn_api.h"
#include "baseline/vendor/cudnn_shapes.h"

namespace lathe::vendor {

/// One cuDNN implementation of a call, with its descriptors.
struct CudnnPlan {
  std::size_t workspace_bytes = 0;
  std::function<CudnnCode(void* const* buffers, void* workspace)> run;
};

/// All implementations, some of which cuDNN may refuse to run. Errors: kInvalid if cuDNN refuses
/// the shape.
Result<std::vector<CudnnPlan>> convolution_plans(const Cudnn& cudnn, CudnnHandle handle, const NodeCall& call,
                                                 const ConvolutionShape& shape);
Result<std::vector<CudnnPlan>> pooling_plans(const Cudnn& cudnn, CudnnHandle handle, const NodeCall& call,
                                             const PoolingShape& shape);
Result<std::vector<CudnnPlan>> softmax_plans(const Cudnn& cudnn, CudnnHandle handle, const NodeCall& call,
                                             const SoftmaxShape& shape);
Result<std::vector<CudnnPlan>> norm_plans(const Cudnn& cudnn, CudnnHandle handle, const NodeCall& call,
                                          const NormShape& shape);

/// A descriptor shared by several implementations.
template <class Handle>
using Shared = std::shared_ptr<std::remove_pointer_t<Handle>>;

/// Creates a descriptor and initialises it with `set`.
template <class Handle, class Set>
Result<Shared<Handle>> make_descriptor(const Cudnn& cudnn, CudnnCode (*create)(Handle*),
                                       CudnnCode (*destroy)(Handle), Set set) {
  Handle handle = nullptr;
  CudnnCode code = create(&handle);
  if (code != 0) return invalid(std::string("cuDNN cannot create a descriptor: ") + cudnn.error_string(code));
  Shared<Handle> shared(handle, destroy);
  code = set(handle);
  if (code != 0) return invalid(std::string("cuDNN refuses the shape: ") + cudnn.error_string(code));
  return shared;
}

/// A row-major fp32 tensor.
Result<Shared<CudnnTensor>> tensor_descriptor(const Cudnn& cudnn, const Ints& extents);

Result<Shared<CudnnConvolution>> convolution_descriptor(const Cudnn& cudnn, const ConvolutionShape& shape);
Result<Shared<CudnnPooling>> pooling_descriptor(const Cudnn& cudnn, const PoolingShape& shape);

inline constexpr float kCudnnOne = 1, kCudnnZero = 0;

}  // namespace lathe::vendor

#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace lathe::vendor {

// cuDNN 9's stable C interface, declared here and bound at run time.
using CudnnCode = int;  ///< cudnnStatus_t; 0 is success
using CudnnHandle = struct CudnnHandleTag*;
using CudnnTensor = struct CudnnTensorTag*;
using CudnnFilter = struct CudnnFilterTag*;
using CudnnConvolution = struct CudnnConvolutionTag*;
using CudnnPooling = struct CudnnPoolingTag*;
using CudnnActivation = struct CudnnActivationTag*;

enum CudnnNumber : int {
  kCudnnFloat = 0,
  kCudnnRowMajor = 0,          ///< CUDNN_TENSOR_NCHW
  kCudnnFmaMath = 3,           ///< no tensor cores, no TF32
  kCudnnCrossCorrelation = 1,  ///< windows are not mirrored
  kCudnnPropagateNan = 1,
  kCudnnIdentity = 5,
  kCudnnRelu = 1,
  kCudnnPoolingMax = 0,
  kCudnnPoolingAverageOfWindow = 1,
  kCudnnPoolingAverageOfInside = 2,
  kCudnnSoftmaxAccurate = 1,
  kCudnnSoftmaxLog = 2,
  kCudnnSoftmaxPerImage = 0,
  kCudnnSoftmaxPerChannel = 1,
  kCudnnNormSpatial = 1,
};

/// Algorithms that sum the same products as the definition. FFT and Winograd do not, and exceed the
/// fp32 bound; backward algorithm 0 is non-deterministic.
enum CudnnAlgorithm : int {
  kCudnnImplicitGemm = 0,
  kCudnnImplicitPrecomputedGemm = 1,
  kCudnnGemm = 2,
  kCudnnDirect = 3,
  kCudnnBackwardImplicitGemm = 1,
};

struct Cudnn {
  const char* (*error_string)(CudnnCode);
  CudnnCode (*create)(CudnnHandle*);
  CudnnCode (*set_stream)(CudnnHandle, void* stream);
  CudnnCode (*create_tensor)(CudnnTensor*);
  CudnnCode (*set_tensor)(CudnnTensor, int dtype, int rank, const int* extents, const int* strides);
  CudnnCode (*destroy_tensor)(CudnnTensor);
  CudnnCode (*create_filter)(CudnnFilter*);
  CudnnCode (*set_filter)(CudnnFilter, int dtype, int format, int rank, const int* extents);
  CudnnCode (*destroy_filter)(CudnnFilter);
  CudnnCode (*create_convolution)(CudnnConvolution*);
  CudnnCode (*set_convolution)(CudnnConvolution, int axes, const int* padding, const int* stride,
                               const int* dilation, int mode, int dtype);
  CudnnCode (*set_groups)(CudnnConvolution, int groups);
  CudnnCode (*set_math)(CudnnConvolution, int math);
  CudnnCode (*destroy_convolution)(CudnnConvolution);
  CudnnCode (*create_pooling)(CudnnPooling*);
  CudnnCode (*set_pooling)(CudnnPooling, int mode, int nan, int axes, const int* kernel, const int* padding,
                           const int* stride);
  CudnnCode (*destroy_pooling)(CudnnPooling);
  CudnnCode (*create_activation)(CudnnActivation*);
  CudnnCode (*set_activation)(CudnnActivation, int mode, int nan, double bound);
  CudnnCode (*destroy_activation)(CudnnActivation);
  CudnnCode (*forward_bytes)(CudnnHandle, CudnnTensor x, CudnnFilter, CudnnConvolution, CudnnTensor y,
                             int algorithm, std::size_t* bytes);
  CudnnCode (*forward)(CudnnHandle, const void* alpha, CudnnTensor, const void* x, CudnnFilter, const void* w,
                       CudnnConvolution, int algorithm, void* workspace, std::size_t bytes, const void* beta,
                       CudnnTensor, void* y);
  CudnnCode (*forward_fused)(CudnnHandle, const void* alpha, CudnnTensor, const void* x, CudnnFilter,
                             const void* w, CudnnConvolution, int algorithm, void* workspace,
                             std::size_t bytes, const void* beta, CudnnTensor, const void* z, CudnnTensor,
                             const void* bias, CudnnActivation, CudnnTensor, void* y);
  CudnnCode (*backward_bytes)(CudnnHandle, CudnnFilter, CudnnTensor x, CudnnConvolution, CudnnTensor y,
                              int algorithm, std::size_t* bytes);
  CudnnCode (*backward)(CudnnHandle, const void* alpha, CudnnFilter, const void* w, CudnnTensor,
                        const void* x, CudnnConvolution, int algorithm, void* workspace, std::size_t bytes,
                        const void* beta, CudnnTensor, void* y);
  CudnnCode (*add)(CudnnHandle, const void* alpha, CudnnTensor, const void* a, const void* beta, CudnnTensor,
                   void* c);
  CudnnCode (*activate)(CudnnHandle, CudnnActivation, const void* alpha, CudnnTensor, const void* x,
                        const void* beta, CudnnTensor, void* y);
  CudnnCode (*pool)(CudnnHandle, CudnnPooling, const void* alpha, CudnnTensor, const void* x,
                    const void* beta, CudnnTensor, void* y);
  CudnnCode (*softmax)(CudnnHandle, int algorithm, int mode, const void* alpha, CudnnTensor, const void* x,
                       const void* beta, CudnnTensor, void* y);
  CudnnCode (*batch_norm)(CudnnHandle, int mode, const void* alpha, const void* beta, CudnnTensor,
                          const void* x, CudnnTensor, void* y, CudnnTensor parameters, const void* gamma,
                          const void* shift, const void* mean, const void* variance, double eps);
};

/// Finds libcudnn.so.9 at `first_place` (unless empty), in the loader's path or in CUDA's folder,
/// once per process, and returns its path. Its sub-libraries are in the same folder and load at
/// their first use.
Result<std::string> find_cudnn(const std::string& first_place);

/// The bound functions; loaded once per process.
const Result<Cudnn>& cudnn();

}  // namespace lathe::vendor

#include "baseline/vendor/cudnn_api.h"

#include <dlfcn.h>
#include <link.h>

#include <vector>

#include "base/symbol_binder.h"

namespace lathe::vendor {
namespace {

struct Library {
  void* handle;
  std::string path;
};

Result<Library> open_library(const std::string& first_place) {
  std::vector<std::string> places = {"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9"};
  if (!first_place.empty()) places.insert(places.begin(), first_place);
  for (const std::string& place : places) {
    void* handle = ::dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) continue;
    const link_map* map = nullptr;
    const bool known = ::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] == '/';
    return Library{handle, known ? map->l_name : place};
  }
  return Error{ErrorCode::kUnavailable, "no cuDNN (libcudnn.so.9)",
               "install cuDNN 9 for the driver's CUDA, and name its folder in LD_LIBRARY_PATH if the loader "
               "does not know it"};
}

const Result<Library>& library(const std::string& first_place) {
  static const Result<Library> opened = open_library(first_place);
  return opened;
}

void bind_descriptors(SymbolBinder& binder, Cudnn& cudnn) {
  binder.bind(cudnn.create_tensor, "cudnnCreateTensorDescriptor");
  binder.bind(cudnn.set_tensor, "cudnnSetTensorNdDescriptor");
  binder.bind(cudnn.destroy_tensor, "cudnnDestroyTensorDescriptor");
  binder.bind(cudnn.create_filter, "cudnnCreateFilterDescriptor");
  binder.bind(cudnn.set_filter, "cudnnSetFilterNdDescriptor");
  binder.bind(cudnn.destroy_filter, "cudnnDestroyFilterDescriptor");
  binder.bind(cudnn.create_convolution, "cudnnCreateConvolutionDescriptor");
  binder.bind(cudnn.set_convolution, "cudnnSetConvolutionNdDescriptor");
  binder.bind(cudnn.set_groups, "cudnnSetConvolutionGroupCount");
  binder.bind(cudnn.set_math, "cudnnSetConvolutionMathType");
  binder.bind(cudnn.destroy_convolution, "cudnnDestroyConvolutionDescriptor");
  binder.bind(cudnn.create_pooling, "cudnnCreatePoolingDescriptor");
  binder.bind(cudnn.set_pooling, "cudnnSetPoolingNdDescriptor");
  binder.bind(cudnn.destroy_pooling, "cudnnDestroyPoolingDescriptor");
  binder.bind(cudnn.create_activation, "cudnnCreateActivationDescriptor");
  binder.bind(cudnn.set_activation, "cudnnSetActivationDescriptor");
  binder.bind(cudnn.destroy_activation, "cudnnDestroyActivationDescriptor");
}

Result<Cudnn> bind_cudnn() {
  const Result<Library>& found = library({});
  if (!found.ok()) return found.error();
  Cudnn cudnn{};
  SymbolBinder binder(found->handle);
  binder.bind(cudnn.error_string, "cudnnGetErrorString");
  binder.bind(cudnn.create, "cudnnCreate");
  binder.bind(cudnn.set_stream, "cudnnSetStream");
  bind_descriptors(binder, cudnn);
  binder.bind(cudnn.forward_bytes, "cudnnGetConvolutionForwardWorkspaceSize");
  binder.bind(cudnn.forward, "cudnnConvolutionForward");
  binder.bind(cudnn.forward_fused, "cudnnConvolutionBiasActivationForward");
  binder.bind(cudnn.backward_bytes, "cudnnGetConvolutionBackwardDataWorkspaceSize");
  binder.bind(cudnn.backward, "cudnnConvolutionBackwardData");
  binder.bind(cudnn.add, "cudnnAddTensor");
  binder.bind(cudnn.activate, "cudnnActivationForward");
  binder.bind(cudnn.pool, "cudnnPoolingForward");
  binder.bind(cudnn.softmax, "cudnnSoftmaxForward");
  binder.bind(cudnn.batch_norm, "cudnnBatchNormalizationForwardInference");
  if (binder.missing())
    return Error{ErrorCode::kUnavailable, "'" + found->path + "' has no " + binder.missing(),
                 "install cuDNN 9"};
  return cudnn;
}

}  // namespace

Result<std::string> find_cudnn(const std::string& first_place) {
  LATHE_TRY(const Library found, library(first_place));
  return found.path;
}

const Result<Cudnn>& cudnn() {
  static const Result<Cudnn> bound = bind_cudnn();
  return bound;
}

}  // namespace lathe::vendor

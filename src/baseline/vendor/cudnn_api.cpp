#include "baseline/vendor/cudnn_api.h"

#include <dlfcn.h>
#include <link.h>

#include <vector>

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

template <class Function>
void bind(void* library, Function& function, const char* name, const char*& missing) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (!function && !missing) missing = name;
}

template <class Find>
void bind_descriptors(Cudnn& cudnn, const Find& find) {
  find(cudnn.create_tensor, "cudnnCreateTensorDescriptor");
  find(cudnn.set_tensor, "cudnnSetTensorNdDescriptor");
  find(cudnn.destroy_tensor, "cudnnDestroyTensorDescriptor");
  find(cudnn.create_filter, "cudnnCreateFilterDescriptor");
  find(cudnn.set_filter, "cudnnSetFilterNdDescriptor");
  find(cudnn.destroy_filter, "cudnnDestroyFilterDescriptor");
  find(cudnn.create_convolution, "cudnnCreateConvolutionDescriptor");
  find(cudnn.set_convolution, "cudnnSetConvolutionNdDescriptor");
  find(cudnn.set_groups, "cudnnSetConvolutionGroupCount");
  find(cudnn.set_math, "cudnnSetConvolutionMathType");
  find(cudnn.destroy_convolution, "cudnnDestroyConvolutionDescriptor");
  find(cudnn.create_pooling, "cudnnCreatePoolingDescriptor");
  find(cudnn.set_pooling, "cudnnSetPoolingNdDescriptor");
  find(cudnn.destroy_pooling, "cudnnDestroyPoolingDescriptor");
  find(cudnn.create_activation, "cudnnCreateActivationDescriptor");
  find(cudnn.set_activation, "cudnnSetActivationDescriptor");
  find(cudnn.destroy_activation, "cudnnDestroyActivationDescriptor");
}

Result<Cudnn> bind_cudnn() {
  const Result<Library>& found = library({});
  if (!found.ok()) return found.error();
  Cudnn cudnn{};
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* name) { bind(found->handle, function, name, missing); };
  find(cudnn.error_string, "cudnnGetErrorString");
  find(cudnn.create, "cudnnCreate");
  find(cudnn.set_stream, "cudnnSetStream");
  bind_descriptors(cudnn, find);
  find(cudnn.forward_bytes, "cudnnGetConvolutionForwardWorkspaceSize");
  find(cudnn.forward, "cudnnConvolutionForward");
  find(cudnn.forward_fused, "cudnnConvolutionBiasActivationForward");
  find(cudnn.backward_bytes, "cudnnGetConvolutionBackwardDataWorkspaceSize");
  find(cudnn.backward, "cudnnConvolutionBackwardData");
  find(cudnn.add, "cudnnAddTensor");
  find(cudnn.activate, "cudnnActivationForward");
  find(cudnn.pool, "cudnnPoolingForward");
  find(cudnn.softmax, "cudnnSoftmaxForward");
  find(cudnn.batch_norm, "cudnnBatchNormalizationForwardInference");
  if (missing)
    return Error{ErrorCode::kUnavailable, "'" + found->path + "' has no " + missing, "install cuDNN 9"};
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

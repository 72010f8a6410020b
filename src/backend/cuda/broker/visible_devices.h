#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backend/cuda/broker/cuda_backend.h"
#include "backend/cuda/wire/device_list.h"

namespace lathe::cuda {

/// What the broker's own environment says of GPUs; null where it says nothing.
struct DeviceVariables {
  const char* visible = nullptr;  ///< CUDA_VISIBLE_DEVICES
  const char* order = nullptr;    ///< CUDA_DEVICE_ORDER

  static DeviceVariables of_process();
};

/// The environment of helper processes to which the `index`-th visible GPU is the only one. Errors:
/// kNotFound, CUDA_VISIBLE_DEVICES leaves fewer.
Result<std::vector<std::string>> environment_of(
    int index, const DeviceVariables& variables = DeviceVariables::of_process());

/// The GPUs that a user sees, in the order of their numbers. Starts a process that initialises the
/// driver. Errors: kUnavailable, no driver or none visible.
Result<std::vector<ListedDevice>> list_visible(const CudaBackendOptions& options);

/// "cuda:0 NVIDIA H200 (GPU-...), cuda:1 ..."
std::string names_of(const std::vector<ListedDevice>& devices);

/// Why a GPU could not be opened: `error`, unless there is none of that number, which is said with
/// those that there are. `list` is asked only if that may be.
Error explain_missing(const Error& error, int index,
                      const std::function<Result<std::vector<ListedDevice>>()>& list);

}  // namespace lathe::cuda

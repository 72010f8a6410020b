#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace lathe::train {

template <class T>
at::Tensor to_tensor(const std::vector<T>& values, at::Device device) {
  at::Tensor tensor =
      at::empty({static_cast<std::int64_t>(values.size())}, c10::CppTypeToScalarType<T>::value);
  std::copy(values.begin(), values.end(), tensor.template mutable_data_ptr<T>());
  return tensor.to(device);
}

}  // namespace lathe::train

#include "task/tensor.h"

#include "base/large_vector.h"
#include "base/parallel.h"

namespace lathe {

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

HostTensor HostTensor::zeros(DType dtype, Shape shape) {
  const auto bytes = static_cast<std::size_t>(element_count(shape)) * info(dtype).bytes;
  return {dtype, std::move(shape), zero_vector<std::byte>(bytes)};
}

HostTensor HostTensor::encode(DType dtype, Shape shape, std::span<const double> values) {
  assert(values.size() == static_cast<std::size_t>(element_count(shape)));
  HostTensor tensor = zeros(dtype, std::move(shape));
  info(dtype).encode(values, tensor.bytes.data());
  return tensor;
}

std::vector<double> HostTensor::decode() const {
  auto values = zero_vector<double>(static_cast<std::size_t>(element_count(shape)));
  const DTypeInfo& type = info(dtype);
  for_each_part(values.size(), [&](std::size_t begin, std::size_t end) {
    type.decode(bytes.data() + begin * type.bytes, std::span(values).subspan(begin, end - begin));
  });
  return values;
}

}  // namespace lathe

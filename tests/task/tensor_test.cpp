#include "task/tensor.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(Tensor, AScalarHasOneElement) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(HostTensor::zeros(DType::kF64, {}).bytes.size(), 8u);
}

TEST(Tensor, ShapesPrint) {
  EXPECT_EQ(to_string(Shape{}), "[]");
  EXPECT_EQ(to_string(Shape{2, 3}), "[2, 3]");
  EXPECT_EQ(element_count({2, 3}), 6);
}

TEST(Tensor, KeepsWhatItsDtypeCanHold) {
  const std::vector<double> values{1, -2.5, 0, 1e9};
  const HostTensor tensor = HostTensor::encode(DType::kF32, {2, 2}, values);
  EXPECT_EQ(tensor.bytes.size(), 16u);
  EXPECT_EQ(tensor.decode(), values);
  const std::vector<double> saturated{1, -2, 0, 127};
  EXPECT_EQ(HostTensor::encode(DType::kI8, {4}, values).decode(), saturated);
}

TEST(Tensor, ZerosDecodeToZeros) {
  for (const DTypeInfo& format : all_dtypes()) {
    const HostTensor tensor = HostTensor::zeros(format.dtype, {3});
    EXPECT_EQ(tensor.bytes.size(), 3 * format.bytes);
    EXPECT_EQ(tensor.decode(), std::vector<double>(3, 0.0)) << format.name;
  }
}

}  // namespace
}  // namespace lathe

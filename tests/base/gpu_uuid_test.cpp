#include "base/gpu_uuid.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(GpuUuidTest, IsWrittenAsNvidiaDoes) {
  const std::string bytes = "\x89\x32\xf9\x37\xd7\x2c\x41\x06\xc1\x2f\x20\xbd\x9f\xae\xd9\xf6";
  EXPECT_EQ(gpu_uuid_text(bytes), "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6");
}

}  // namespace
}  // namespace lathe

// Large matrices of a reference go to an engine where there is one; what it does not do is done here.

#include "task/products.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "task/generate_inputs.h"
#include "task/ops/support/gemm.h"
#include "task/slices.h"

namespace lathe {
namespace {

/// Says 7 of every element, or refuses.
class SevenEngine final : public ProductEngine {
 public:
  explicit SevenEngine(bool works) : works_(works) {}
  Status multiply(const MatrixProduct<double>& product) override { return fill(product); }
  Status multiply(const MatrixProduct<float>& product) override { return fill(product); }
  int calls = 0;

 private:
  template <class T>
  Status fill(const MatrixProduct<T>& product) {
    ++calls;
    std::fill_n(product.c, product.m * product.n, T(7));
    return works_ ? Status(Ok{}) : Status(Error{ErrorCode::kUnavailable, "full"});
  }
  bool works_;
};

constexpr const char* kTask = R"toml(
name = "product"
dims = ["M", "N", "K"]
tensor = [{ name = "x", shape = ["M", "K"] }, { name = "w", shape = ["K", "N"] }]
graph = "y = matmul(x, w)"
[[shape]]
name = "small"
M = 64
N = 64
K = 64
[[shape]]
name = "large"
M = 512
N = 2048
K = 2048
)toml";

/// The first element's value and the engine's calls.
struct Evaluated {
  double first = 0;
  int calls = 0;
};
Evaluated evaluate(std::size_t shape, bool sliced) {
  const TaskSpec spec = *parse_task(kTask, "product.toml");
  const auto task = lathe::bind(spec, spec.shapes[shape].dims);
  SevenEngine engine(true);
  auto reference = *make_reference(spec, &engine);
  if (sliced) reference = make_sliced(std::move(reference), spec, true);
  engine.calls = 0;
  const auto inputs = generate_inputs(*task, Distribution::kNormal, Seed::from_number(1));
  const auto expected = reference->evaluate(*task, inputs, {});
  return {(*expected)[0].value.data[0], engine.calls};
}

TEST(ProductEngine, TakesLargeProductsWholeAndLeavesSmallOnes) {
  for (const bool sliced : {false, true}) {
    SCOPED_TRACE(sliced);
    const Evaluated small = evaluate(0, sliced), large = evaluate(1, sliced);
    EXPECT_NE(small.first, 7);
    EXPECT_EQ(small.calls, 0);
    EXPECT_EQ(large.first, 7);
    EXPECT_EQ(large.calls, 2) << "the values, and the magnitudes of their bound";
  }
}

TEST(ProductEngine, IsReplacedWhereItFails) {
  SevenEngine engine(false);
  const std::size_t extent = 1024;
  const std::vector<float> ones(extent * extent, 1.0f);
  std::vector<float> sums(extent * extent);
  const MatrixView<float> all{ones.data(), extent, 1};
  ops::multiply(MatrixProduct<float>{extent, extent, extent, all, all, sums.data()}, &engine);
  EXPECT_EQ(engine.calls, 1);
  EXPECT_EQ(std::ranges::count(sums, 1024.0f), 1024 * 1024);
}

TEST(ProductEngine, IsNotWorthMovingThinMatricesFor) {
  const double square = 8192.0 * 8192;
  EXPECT_TRUE(worth_moving(square * 8192, 3 * square, 16));
  EXPECT_FALSE(worth_moving(512.0 * 512 * 512, 3 * 512.0 * 512, 1)) << "soon done anywhere";
  EXPECT_TRUE(worth_moving(square * 64, square, 1)) << "one slice of 64 rows, so one thread";
  EXPECT_FALSE(worth_moving(square * 256, square, 16)) << "mostly moving";
}

}  // namespace
}  // namespace lathe

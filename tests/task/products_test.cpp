// Large matrices of a reference go to an engine where there is one; what it does not do is done
// here.

#include "task/products.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/processors.h"
#include "task/generate_inputs.h"
#include "task/ops/support/convolve.h"
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
  Status multiply(const GatheredProduct<double>& product) override { return fill(product); }
  Status multiply(const GatheredProduct<float>& product) override { return fill(product); }
  int calls = 0;

 private:
  template <class T>
  Status fill(const MatrixProduct<T>& product) {
    return fill(product.c, product.m * product.n);
  }
  template <class T>
  Status fill(const GatheredProduct<T>& product) {
    return fill(product.c, product.image_count * product.m * product.columns.size());
  }
  template <class T>
  Status fill(T* to, std::size_t count) {
    ++calls;
    std::fill_n(to, count, T(7));
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

/// On one processor, for what is worth moving depends on how many there are.
class ProductEngineTest : public ::testing::Test {
  std::vector<int> all_ = usable_processors();
  ThreadPlacement one_{std::span(all_).first(1)};
};

TEST_F(ProductEngineTest, TakesLargeProductsWholeAndLeavesSmallOnes) {
  for (const bool sliced : {false, true}) {
    SCOPED_TRACE(sliced);
    const Evaluated small = evaluate(0, sliced), large = evaluate(1, sliced);
    EXPECT_NE(small.first, 7);
    EXPECT_EQ(small.calls, 0);
    EXPECT_EQ(large.first, 7);
    EXPECT_EQ(large.calls, 2) << "the values, and the magnitudes of their bound";
  }
}

TEST_F(ProductEngineTest, IsReplacedWhereItFails) {
  SevenEngine engine(false);
  const std::size_t extent = 1024;
  const std::vector<float> ones(extent * extent, 1.0f);
  std::vector<float> sums(extent * extent);
  const MatrixView<float> all{ones.data(), extent, 1};
  ops::multiply(MatrixProduct<float>{extent, extent, extent, all, all, sums.data()}, &engine);
  EXPECT_EQ(engine.calls, 1);
  EXPECT_EQ(std::ranges::count(sums, 1024.0f), 1024 * 1024);
}

std::vector<double> numbers(std::int64_t count) {
  std::vector<double> some(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < some.size(); ++i) some[i] = static_cast<double>(i * 7 % 23) - 11;
  return some;
}

TEST(Multiply, IsTheSameInParts) {
  constexpr std::int64_t kLong = 1300, kShort = 30, kDeep = 200;
  const auto a = numbers(kLong * kDeep), b = numbers(kLong * kDeep);
  for (const auto& [m, n] : {std::pair{kLong, kShort}, std::pair{kShort, kLong}, std::pair{kLong, kLong}}) {
    const auto rows = static_cast<std::size_t>(m), columns = static_cast<std::size_t>(n);
    const MatrixView<double> left{a.data(), kDeep, 1}, right{b.data(), 1, kDeep};
    std::vector<double> whole(rows * columns), parts(rows * columns);
    ops::gemm(rows, columns, kDeep, left, right, whole.data(), columns);
    ops::multiply(MatrixProduct<double>{rows, columns, kDeep, left, right, parts.data()}, nullptr);
    EXPECT_EQ(parts, whole);
  }
}

ops::ConvSizes sizes_of(const ops::Window& window) {
  return {.window = window, .batch = 3, .groups = 1, .inputs = 4, .outputs = 5};
}

/// By the definition.
std::vector<double> multiply(const ops::Gathered<double>& gathered) {
  std::vector<double> c;
  const GatheredProduct<double> of = gathered.product(nullptr);
  const std::size_t k = of.rows.size(), an_image = of.images.size() / of.image_count;
  for (std::size_t image = 0; image < of.image_count; ++image)
    for (std::size_t i = 0; i < of.m; ++i)
      for (const std::int64_t column : of.columns) {
        double sum = 0;
        for (std::size_t p = 0; p < k; ++p)
          sum +=
              of.a[i * k + p] * of.images[image * an_image + static_cast<std::size_t>(of.rows[p] + column)];
        c.push_back(sum);
      }
  return c;
}

TEST(GatheredProduct, IsTheConvolution) {
  const std::vector<ops::Window> windows = {
      {.in = {1, 1, 9}, .out = {1, 1, 9}, .kernel = {1, 1, 3}, .padding = {0, 0, 1}},
      {.in = {1, 1, 5}, .out = {1, 1, 7}, .kernel = {1, 1, 1}, .padding = {0, 0, 1}},
      {.in = {1, 8, 9}, .out = {1, 3, 4}, .kernel = {1, 3, 2}, .stride = {1, 3, 2}, .padding = {0, 1, 0}},
      {.in = {5, 6, 7},
       .out = {4, 4, 2},
       .kernel = {2, 3, 3},
       .stride = {1, 1, 3},
       .padding = {0, 0, 1},
       .dilation = {1, 1, 2}},
  };
  for (const ops::Window& window : windows) {
    const ops::ConvSizes sizes = sizes_of(window);
    const std::int64_t in = ops::Window::volume(window.in), out = ops::Window::volume(window.out);
    const auto x = numbers(sizes.batch * sizes.inputs * in);
    const auto w = numbers(sizes.outputs * sizes.inputs * sizes.taps());
    std::vector<double> y(static_cast<std::size_t>(sizes.batch * sizes.outputs * out));
    ops::convolve(sizes, x.data(), w.data(), y.data());
    EXPECT_EQ(multiply(ops::gather_convolution(sizes, x.data(), w.data())), y);

    const auto t = numbers(sizes.batch * sizes.outputs * out);
    std::vector<double> z(x.size());
    ops::convolve_transposed(sizes, t.data(), w.data(), z.data());
    EXPECT_EQ(multiply(ops::gather_transposed(sizes, t.data(), w.data())), z);
  }
}

TEST_F(ProductEngineTest, TakesLargeConvolutions) {
  const ops::Window window{.in = {1, 64, 64}, .out = {1, 64, 64}, .kernel = {1, 3, 3}, .padding = {0, 1, 1}};
  ops::ConvSizes sizes{.window = window, .batch = 1, .groups = 1, .inputs = 256, .outputs = 256};
  const auto x = numbers(256 * 64 * 64), w = numbers(256 * 256 * 9);
  std::vector<double> y(x.size());
  SevenEngine engine(true);
  ops::convolve_fastest(sizes, &engine, x.data(), w.data(), y.data());
  EXPECT_EQ(std::ranges::count(y, 7), static_cast<std::ptrdiff_t>(y.size()));
  ops::convolve_transposed_fastest(sizes, &engine, x.data(), w.data(), y.data());
  EXPECT_EQ(engine.calls, 2);

  sizes = {.window = window, .batch = 1, .groups = 2, .inputs = 4, .outputs = 4};
  ops::convolve_fastest(sizes, &engine, x.data(), w.data(), y.data());
  EXPECT_EQ(engine.calls, 2) << "groups, and soon done";
}

TEST_F(ProductEngineTest, IsNotWorthMovingThinMatricesFor) {
  const double square = 8192.0 * 8192;
  EXPECT_TRUE(worth_transferring(square * 8192, 3 * square, 16));
  EXPECT_FALSE(worth_transferring(512.0 * 512 * 512, 3 * 512.0 * 512, 1)) << "soon done anywhere";
  EXPECT_TRUE(worth_transferring(square * 64, square, 1)) << "one slice of 64 rows, so one thread";
  EXPECT_FALSE(worth_transferring(square * 128, square, 16)) << "mostly moving";
}

}  // namespace
}  // namespace lathe

#include <algorithm>
#include <cmath>

#include "tests/task/ops/harness.h"

namespace lathe {
namespace {

/// Reduces axis 1 of [3, 40, 2] by `f(row, summer)`.
template <class F>
OpCase middle_axis(std::string op, Attrs attrs, Draw draw, F f) {
  attrs.set("axis", std::int64_t{1});
  OpCase result =
      make_case(std::move(op), {{3, 40, 2}}, std::move(attrs), [f](const auto& in, Summer& summer) {
        auto out = in[0].data;
        out.clear();
        for (int i = 0; i < 3; ++i) {
          for (int k = 0; k < 2; ++k) {
            auto row = in[0].data;
            row.clear();
            for (int j = 0; j < 40; ++j) row.push_back(in[0].at(i, j, k));
            out.push_back(f(row, summer));
          }
        }
        return out;
      });
  result.draws = {draw};
  return result;
}

/// Reduces axis 1 of masks [3, 4, 2] by `f(elements that hold, elements)`.
template <class F>
OpCase masks(std::string op, Attrs attrs, F f) {
  attrs.set("axis", std::int64_t{1});
  OpCase result = make_case(std::move(op), {{3, 4, 2}}, std::move(attrs), [f](const auto& in, Summer&) {
    auto out = in[0].data;
    out.clear();
    for (int i = 0; i < 3; ++i)
      for (int k = 0; k < 2; ++k) {
        int held = 0;
        for (int j = 0; j < 4; ++j) held += in[0].at(i, j, k) != 0;
        out.push_back(f(held, 4));
      }
    return out;
  });
  result.draws = {Draw{.binary = true}};
  return result;
}

template <class Row>
auto variance(const Row& row, Summer& summer) {
  using T = typename Row::value_type;
  const T n = static_cast<T>(row.size());
  const T mean = summer.sum(row) / n;
  Row squares;
  for (const T x : row) squares.push_back((x - mean) * (x - mean));
  return summer.sum(squares) / n;
}

/// Welford's, over the sorted row: its running mean's errors then go along with the deviations.
template <class Row>
auto sorted_welford(Row row) {
  using T = typename Row::value_type;
  std::ranges::sort(row);
  T mean = 0;
  T squares = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const T before = row[i] - mean;
    mean += before / static_cast<T>(i + 1);
    squares += before * (row[i] - mean);
  }
  return squares / static_cast<T>(row.size());
}

template <class Row>
auto logsumexp(const Row& row, Summer& summer) {
  const auto top = *std::max_element(row.begin(), row.end());
  Row terms;
  for (const auto x : row) terms.push_back(std::exp(x - top));
  return top + std::log(summer.sum(terms));
}

/// Along axis 1 of [3, 40, 2], or along the last of [5, 17].
OpCase cosine_similarity(bool middle) {
  const Shape shape = middle ? Shape{3, 40, 2} : Shape{5, 17};
  const Attrs given = middle ? attrs({{"axis", 1}, {"keepdims", true}}) : Attrs{};
  OpCase result = make_case("cosine_similarity", {shape, shape}, given, [=](const auto& in, Summer& summer) {
    auto out = in[0].data;
    out.clear();
    const std::int64_t inner = middle ? 2 : 1, length = shape[1];
    for (std::int64_t line = 0; line < shape[0] * inner; ++line) {
      const auto sum_of = [&](std::size_t a, std::size_t b) {
        auto products = in[0].data;
        products.clear();
        for (std::int64_t i = 0; i < length; ++i) {
          const std::int64_t at = (line / inner * length + i) * inner + line % inner;
          products.push_back(in[a][at] * in[b][at]);
        }
        return summer.sum(products);
      };
      out.push_back(sum_of(0, 1) / std::sqrt(sum_of(0, 0)) / std::sqrt(sum_of(1, 1)));
    }
    return out;
  });
  result.draws = {Draw{0.1, 4}};
  return result;
}

}  // namespace

std::vector<OpCase> reduction_cases() {
  const Draw positive{0.1, 4};
  const Draw any{-4, 4};
  std::vector<OpCase> cases = {
      middle_axis("sum", {}, positive, [](const auto& row, Summer& summer) { return summer.sum(row); }),
      middle_axis("sum", {}, any, [](const auto& row, Summer& summer) { return summer.sum(row); }),
      middle_axis("mean", attrs({{"keepdims", true}}), positive,
                  [](const auto& row, Summer& summer) { return summer.sum(row) / 40; }),
      middle_axis("prod", {}, Draw{0.6, 1.6},
                  [](const auto& row, Summer&) {
                    return std::accumulate(row.rbegin(), row.rend(),
                                           typename std::decay_t<decltype(row)>::value_type(1),
                                           std::multiplies<>());
                  }),
      cosine_similarity(true),
      cosine_similarity(false),
      masks("any", {}, [](int held, int) { return held > 0; }),
      masks("all", attrs({{"keepdims", true}}), [](int held, int all) { return held == all; }),
      middle_axis("reduce_max", {}, any,
                  [](const auto& row, Summer&) { return *std::ranges::max_element(row); }),
      middle_axis("reduce_min", {}, any,
                  [](const auto& row, Summer&) { return *std::ranges::min_element(row); }),
      middle_axis("var", {}, Draw{3, 9},
                  [](const auto& row, Summer& summer) { return variance(row, summer); }),
      middle_axis("var", {}, Draw{1000, 1003}, [](const auto& row, Summer&) { return sorted_welford(row); }),
      middle_axis("var", attrs({{"unbiased", true}}), any,
                  [](const auto& row, Summer& summer) { return variance(row, summer) * 40 / 39; }),
      middle_axis("std", {}, any,
                  [](const auto& row, Summer& summer) { return std::sqrt(variance(row, summer)); }),
      middle_axis("l1_norm", {}, any,
                  [](auto row, Summer& summer) {
                    for (auto& x : row) x = std::abs(x);
                    return summer.sum(row);
                  }),
      middle_axis("norm", {}, any,
                  [](auto row, Summer& summer) {
                    for (auto& x : row) x = x * x;
                    return std::sqrt(summer.sum(row));
                  }),
      middle_axis("logsumexp", {}, any,
                  [](const auto& row, Summer& summer) { return logsumexp(row, summer); }),
      middle_axis("argmax", {}, any,
                  [](const auto& row, Summer&) {
                    const auto at = std::ranges::max_element(row) - row.begin();
                    return static_cast<typename std::decay_t<decltype(row)>::value_type>(at);
                  }),
      middle_axis("argmin", attrs({{"keepdims", true}}), any,
                  [](const auto& row, Summer&) {
                    const auto at = std::ranges::min_element(row) - row.begin();
                    return static_cast<typename std::decay_t<decltype(row)>::value_type>(at);
                  }),
  };
  cases[1].ill_conditioned = true;
  cases[7].ill_conditioned = true;
  cases.push_back(make_case("sum", {{3, 4, 5}}, attrs({{"axes", std::vector<std::int64_t>{0, -1}}}),
                            [](const auto& in, Summer& summer) {
                              auto out = in[0].data;
                              out.clear();
                              for (int j = 0; j < 4; ++j) {
                                auto row = in[0].data;
                                row.clear();
                                for (int i = 0; i < 3; ++i) {
                                  for (int k = 0; k < 5; ++k) row.push_back(in[0].at(i, j, k));
                                }
                                out.push_back(summer.sum(row));
                              }
                              return out;
                            }));
  cases.back().draws = {positive};
  cases.push_back(make_case("sum", {{1 << 15}}, {}, [](const auto& in, Summer& summer) {
    auto out = in[0].data;
    const auto total = summer.sum(out);
    out.assign(1, total);
    return out;
  }));
  cases.back().draws = {positive};
  cases.push_back(make_case("mean", {{6, 7}}, {}, [](const auto& in, Summer& summer) {
    auto out = in[0].data;
    const auto mean = summer.sum(out) / 42;
    out.assign(1, mean);
    return out;
  }));
  cases.back().draws = {positive};
  return cases;
}

}  // namespace lathe

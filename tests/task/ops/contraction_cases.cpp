#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/task/ops/harness.h"

namespace lathe {
namespace {

OpCase matmul(bool transpose_a, bool transpose_b) {
  const Shape a = transpose_a ? Shape{19, 7} : Shape{7, 19};
  const Shape b = transpose_b ? Shape{13, 19} : Shape{19, 13};
  OpCase result =
      make_case("matmul", {a, b}, attrs({{"transpose_a", transpose_a}, {"transpose_b", transpose_b}}),
                [=](const auto& in, Summer& summer) {
                  auto out = in[0].data;
                  out.clear();
                  for (int i = 0; i < 7; ++i) {
                    for (int j = 0; j < 13; ++j) {
                      auto terms = in[0].data;
                      terms.clear();
                      for (int k = 0; k < 19; ++k) {
                        terms.push_back((transpose_a ? in[0].at(k, i) : in[0].at(i, k)) *
                                        (transpose_b ? in[1].at(j, k) : in[1].at(k, j)));
                      }
                      out.push_back(summer.sum(terms));
                    }
                  }
                  return out;
                });
  result.draws = {kPositive};
  return result;
}

/// [2, 1, 3, 8] times [4, 8, 5].
OpCase batched_matmul() {
  return make_case("matmul", {{2, 1, 3, 8}, {4, 8, 5}}, {}, [](const auto& in, Summer& summer) {
    auto out = in[0].data;
    out.clear();
    for (int n = 0; n < 2; ++n) {
      for (int h = 0; h < 4; ++h) {
        for (int i = 0; i < 3; ++i) {
          for (int j = 0; j < 5; ++j) {
            auto terms = in[0].data;
            terms.clear();
            for (int k = 0; k < 8; ++k) terms.push_back(in[0].at(n, 0, i, k) * in[1].at(h, k, j));
            out.push_back(summer.sum(terms));
          }
        }
      }
    }
    return out;
  });
}

OpCase stacked_matmul() {
  return make_case("matmul", {{2, 3, 8}, {8, 5}}, {}, [](const auto& in, Summer& summer) {
    auto out = in[0].data;
    out.clear();
    for (std::size_t row = 0; row < 6; ++row) {
      for (std::size_t j = 0; j < 5; ++j) {
        auto terms = in[0].data;
        terms.clear();
        for (std::size_t k = 0; k < 8; ++k) terms.push_back(in[0].data[row * 8 + k] * in[1].data[k * 5 + j]);
        out.push_back(summer.sum(terms));
      }
    }
    return out;
  });
}

/// Rows [23, 8] in 4 groups.
OpCase grouped_matmul(bool transposed) {
  OpCase result = make_case("grouped_matmul", {{23, 8}, transposed ? Shape{4, 5, 8} : Shape{4, 8, 5}, {5}},
                            attrs({{"transpose_b", transposed}}), [=](const auto& in, Summer& summer) {
                              auto out = in[0].data;
                              out.clear();
                              for (int row = 0, group = 0; row < 23; ++row) {
                                while (static_cast<int>(in[2][group + 1]) <= row) ++group;
                                for (int j = 0; j < 5; ++j) {
                                  auto terms = in[0].data;
                                  terms.clear();
                                  for (int k = 0; k < 8; ++k)
                                    terms.push_back(in[0].at(row, k) * (transposed ? in[1].at(group, j, k)
                                                                                   : in[1].at(group, k, j)));
                                  out.push_back(summer.sum(terms));
                                }
                              }
                              return out;
                            });
  result.draws = {kPositive, kPositive, Draw{.index_limit = 24, .order = Order::kOffsets}};
  return result;
}

OpCase linear() {
  return make_case("linear", {{2, 3, 24}, {10, 24}, {10}}, {}, [](const auto& in, Summer& summer) {
    auto out = in[0].data;
    out.clear();
    for (std::size_t row = 0; row < 6; ++row) {
      for (std::size_t j = 0; j < 10; ++j) {
        auto terms = in[0].data;
        terms.clear();
        for (std::size_t k = 0; k < 24; ++k)
          terms.push_back(in[0].data[row * 24 + k] * in[1].data[j * 24 + k]);
        terms.push_back(in[2].data[j]);
        out.push_back(summer.sum(terms));
      }
    }
    return out;
  });
}

OpCase attention(bool causal) {
  return make_case("attention", {{2, 5, 8}, {2, 9, 8}, {2, 9, 6}}, attrs({{"causal", causal}}),
                   [causal](const auto& in, Summer& summer) {
                     using T = std::decay_t<decltype(in[0][0])>;
                     std::vector<T> out;
                     for (int h = 0; h < 2; ++h) {
                       for (int i = 0; i < 5; ++i) {
                         const int keys = causal ? i + 5 : 9;
                         std::vector<T> weights;
                         for (int j = 0; j < keys; ++j) {
                           std::vector<T> terms;
                           for (int d = 0; d < 8; ++d) terms.push_back(in[0].at(h, i, d) * in[1].at(h, j, d));
                           weights.push_back(summer.sum(terms) / std::sqrt(T(8)));
                         }
                         const T top = *std::ranges::max_element(weights);
                         for (T& w : weights) w = std::exp(w - top);
                         const T total = summer.sum(weights);
                         for (int e = 0; e < 6; ++e) {
                           std::vector<T> terms;
                           for (int j = 0; j < keys; ++j)
                             terms.push_back(weights[static_cast<std::size_t>(j)] * in[2].at(h, j, e));
                           out.push_back(summer.sum(terms) / total);
                         }
                       }
                     }
                     return out;
                   });
}

/// Two heads read one head's keys, of which each sequence has a number of its own.
OpCase ragged_attention(bool causal) {
  OpCase result =
      make_case("attention", {{2, 4, 3, 8}, {2, 2, 9, 8}, {2, 2, 9, 6}, {2}}, attrs({{"causal", causal}}),
                [causal](const auto& in, Summer& summer) {
                  using T = std::decay_t<decltype(in[0][0])>;
                  std::vector<T> out;
                  for (int row = 0; row < 24; ++row) {
                    const int b = row / 12, h = row / 3 % 4, i = row % 3;
                    const int keys = static_cast<int>(in[3][b]) + 1 - (causal ? 2 - i : 0);
                    std::vector<T> weights;
                    for (int j = 0; j < keys; ++j) {
                      std::vector<T> terms;
                      for (int d = 0; d < 8; ++d)
                        terms.push_back(in[0].at(b, h, i, d) * in[1].at(b, h / 2, j, d));
                      weights.push_back(summer.sum(terms) / std::sqrt(T(8)));
                    }
                    const T top = weights.empty() ? T(0) : *std::ranges::max_element(weights);
                    for (T& w : weights) w = std::exp(w - top);
                    const T total = weights.empty() ? T(1) : summer.sum(weights);
                    for (int e = 0; e < 6; ++e) {
                      std::vector<T> terms;
                      for (int j = 0; j < keys; ++j)
                        terms.push_back(weights[static_cast<std::size_t>(j)] * in[2].at(b, h / 2, j, e));
                      out.push_back(summer.sum(terms) / total);
                    }
                  }
                  return out;
                });
  result.draws = {Draw{}, Draw{}, Draw{}, Draw{.index_limit = 9}};
  return result;
}

}  // namespace

std::vector<OpCase> contraction_cases() {
  std::vector<OpCase> cases = {matmul(false, false),
                               matmul(true, false),
                               matmul(false, true),
                               matmul(true, true),
                               batched_matmul(),
                               stacked_matmul(),
                               linear(),
                               attention(false),
                               attention(true)};
  for (std::size_t i = 4; i < 7; ++i) cases[i].draws = {kPositive};
  for (const bool causal : {false, true}) cases.push_back(ragged_attention(causal));
  for (const bool transposed : {false, true}) cases.push_back(grouped_matmul(transposed));
  cases.push_back(make_case("outer", {{6}, {7}}, {}, [](const auto& in, Summer&) {
    auto out = in[0].data;
    out.clear();
    for (const auto a : in[0].data) {
      for (const auto b : in[1].data) out.push_back(a * b);
    }
    return out;
  }));
  return cases;
}

}  // namespace lathe

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "tests/task/ops/harness.h"

namespace lathe {
namespace {

/// Applies `f(row, summer) -> row` to rows of `length` contiguous elements.
template <class Data, class F>
Data each_row(Data data, std::size_t length, Summer& summer, F f) {
  for (std::size_t first = 0; first < data.size(); first += length) {
    const auto begin = data.begin() + static_cast<std::ptrdiff_t>(first);
    const Data row = f(Data(begin, begin + static_cast<std::ptrdiff_t>(length)), summer);
    std::copy(row.begin(), row.end(), begin);
  }
  return data;
}

template <class Row>
Row softmax(Row row, Summer& summer) {
  const auto top = *std::ranges::max_element(row);
  for (auto& x : row) x = std::exp(x - top);
  const auto total = summer.sum(row);
  for (auto& x : row) x /= total;
  return row;
}

template <class Row>
Row log_softmax(Row row, Summer& summer) {
  const auto top = *std::ranges::max_element(row);
  Row terms = row;
  for (auto& x : terms) x = std::exp(x - top);
  const auto lse = top + std::log(summer.sum(terms));
  for (auto& x : row) x -= lse;
  return row;
}

/// Two passes.
template <class Row>
Row standardise(Row row, Summer& summer, double eps) {
  using T = typename Row::value_type;
  const T n = static_cast<T>(row.size());
  const T mean = summer.sum(row) / n;
  Row squares = row;
  for (auto& x : squares) x = (x - mean) * (x - mean);
  const T scale = 1 / std::sqrt(summer.sum(squares) / n + static_cast<T>(eps));
  for (auto& x : row) x = (x - mean) * scale;
  return row;
}

/// One pass, in order.
template <class Row>
Row welford(Row row, Summer&, double eps) {
  using T = typename Row::value_type;
  T mean = 0;
  T squares = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const T before = row[i] - mean;
    mean += before / static_cast<T>(i + 1);
    squares += before * (row[i] - mean);
  }
  const T scale = 1 / std::sqrt(squares / static_cast<T>(row.size()) + static_cast<T>(eps));
  for (auto& x : row) x = (x - mean) * scale;
  return row;
}

OpCase layer_norm(Draw draw, std::int64_t length, bool by_welford) {
  OpCase result = make_case("layer_norm", {{3, length}, {length}, {length}}, attrs({{"eps", 1e-5}}),
                            [=](const auto& in, Summer& summer) {
                              const auto n = static_cast<std::size_t>(length);
                              auto out = each_row(in[0].data, n, summer, [&](auto row, Summer& s) {
                                return by_welford ? welford(row, s, 1e-5) : standardise(row, s, 1e-5);
                              });
                              for (std::size_t i = 0; i < out.size(); ++i) {
                                out[i] = out[i] * in[1].data[i % n] + in[2].data[i % n];
                              }
                              return out;
                            });
  result.draws = {draw, Draw{}};
  result.looseness = 500;  // a random order of long rows loses far less than the worst
  result.ill_conditioned = draw.low > 10;
  return result;
}

OpCase softmax_rows(Draw draw, std::int64_t length) {
  OpCase result = make_case("softmax", {{5, length}}, {}, [length](const auto& in, Summer& summer) {
    return each_row(in[0].data, static_cast<std::size_t>(length), summer,
                    [](auto row, Summer& s) { return softmax(row, s); });
  });
  result.draws = {draw};
  return result;
}

template <class F>
OpCase along_columns(std::string op, F f) {
  return make_case(std::move(op), {{30, 4}}, attrs({{"axis", 0}}), [f](const auto& in, Summer& summer) {
    auto out = in[0].data;
    for (std::size_t column = 0; column < 4; ++column) {
      auto row = in[0].data;
      row.clear();
      for (std::size_t i = 0; i < 30; ++i) row.push_back(in[0].data[i * 4 + column]);
      row = f(row, summer);
      for (std::size_t i = 0; i < 30; ++i) out[i * 4 + column] = row[i];
    }
    return out;
  });
}

std::vector<OpCase> scan_cases() {
  std::vector<OpCase> cases;
  for (const bool product : {false, true}) {
    cases.push_back(
        make_case(product ? "cumprod" : "cumsum", {{3, 50}}, {}, [product](const auto& in, Summer& summer) {
          return each_row(in[0].data, 50, summer, [product](auto row, Summer&) {
            for (std::size_t i = 1; i < row.size(); ++i)
              row[i] = product ? row[i] * row[i - 1] : row[i] + row[i - 1];
            return row;
          });
        }));
    cases.back().draws = {Draw{0.7, 1.4}};
  }
  cases.push_back(make_case("cumsum", {{4, 6}}, attrs({{"exclusive", true}, {"reverse", true}}),
                            [](const auto& in, Summer&) {
                              auto out = in[0].data;
                              for (std::size_t i = out.size(); i-- > 0;)
                                out[i] = i % 6 == 5 ? 0 : out[i + 1] + in[0].data[i + 1];
                              return out;
                            }));
  cases.push_back(make_case("cumprod", {{4, 6}}, attrs({{"exclusive", true}}), [](const auto& in, Summer&) {
    auto out = in[0].data;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = i % 6 == 0 ? 1 : out[i - 1] * in[0].data[i - 1];
    return out;
  }));
  cases.push_back(make_case("cummax", {{5, 4}}, attrs({{"axis", 0}}), [](const auto& in, Summer&) {
    auto out = in[0].data;
    for (std::size_t i = 4; i < out.size(); ++i) out[i] = std::max(out[i], out[i - 4]);
    return out;
  }));
  cases.push_back(make_case("sort", {{5, 4}}, attrs({{"axis", 0}}), [](const auto& in, Summer&) {
    auto out = in[0].data;
    for (std::size_t column = 0; column < 4; ++column)
      for (std::size_t i = column; i < out.size(); i += 4)
        for (std::size_t j = column; j < i; j += 4)
          if (out[i] < out[j]) std::swap(out[i], out[j]);
    return out;
  }));
  cases.push_back(
      make_case("sort", {{3, 7}}, attrs({{"descending", true}}), [](const auto& in, Summer& summer) {
        return each_row(in[0].data, 7, summer, [](auto row, Summer&) {
          std::ranges::sort(row, std::greater());
          return row;
        });
      }));
  const auto ranks = [](const auto& x, std::size_t length, std::size_t stride, auto before) {
    auto out = x.data;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t start = i / (length * stride) * length * stride + i % stride;
      std::size_t rank = 0;
      for (std::size_t j = start; j < start + length * stride; j += stride)
        rank += before(x.data[j], x.data[i]) || (x.data[j] == x.data[i] && j < i) ? 1 : 0;
      out[start + rank * stride] = static_cast<std::decay_t<decltype(out[0])>>((i - start) / stride);
    }
    return out;
  };
  cases.push_back(make_case("argsort", {{5, 4}}, attrs({{"axis", 0}}),
                            [ranks](const auto& in, Summer&) { return ranks(in[0], 5, 4, std::less()); }));
  cases.push_back(make_case("argsort", {{3, 7}}, attrs({{"descending", true}}),
                            [ranks](const auto& in, Summer&) { return ranks(in[0], 7, 1, std::greater()); }));
  cases.push_back(make_case("argsort", {{3, 9}}, {},
                            [ranks](const auto& in, Summer&) { return ranks(in[0], 9, 1, std::less()); }));
  cases.back().draws = {Draw{.index_limit = 3}};  // with ties
  cases.push_back(make_case("cummin", {{4, 6}}, attrs({{"reverse", true}}), [](const auto& in, Summer&) {
    auto out = in[0].data;
    for (std::size_t i = out.size() - 1; i-- > 0;)
      if (i % 6 != 5) out[i] = std::min(out[i], out[i + 1]);
    return out;
  }));
  for (const bool reverse : {false, true})
    cases.push_back(make_case(
        "logcumsumexp", {{3, 60}}, attrs({{"reverse", reverse}}), [reverse](const auto& in, Summer&) {
          auto out = in[0].data;
          using T = typename decltype(out)::value_type;
          for (std::size_t row = 0; row < 3; ++row) {
            T running = -std::numeric_limits<T>::infinity();
            for (std::size_t k = 0; k < 60; ++k) {
              T& here = out[row * 60 + (reverse ? 59 - k : k)];
              const T larger = std::max(running, here), smaller = std::min(running, here);
              here = running = larger + std::log1p(std::exp(smaller - larger));
            }
          }
          return out;
        }));
  cases.push_back(make_case("cumsum", {{4, 5}}, attrs({{"axis", 0}}), [](const auto& in, Summer&) {
    auto out = in[0].data;
    for (std::size_t i = 5; i < out.size(); ++i) out[i] += out[i - 5];
    return out;
  }));
  const auto recurrence = [](std::size_t length, std::size_t stride, bool reverse) {
    return [=](const auto& in, Summer&) {
      auto out = in[1].data;
      for (std::size_t k = 0; k < out.size(); ++k) {
        const std::size_t i = reverse ? out.size() - 1 - k : k, place = i / stride % length;
        if (place == (reverse ? length - 1 : 0)) continue;
        out[i] += in[0].data[i] * out[reverse ? i + stride : i - stride];
      }
      return out;
    };
  };
  cases.push_back(make_case("linear_scan", {{3, 50}, {3, 50}}, {}, recurrence(50, 1, false)));
  cases.back().draws = {Draw{-1, 1}, Draw{}};
  cases.push_back(make_case("linear_scan", {{4, 5}, {4, 5}}, attrs({{"axis", 0}, {"reverse", true}}),
                            recurrence(4, 5, true)));
  cases.back().draws = {Draw{-1, 1}, Draw{}};
  return cases;
}

std::vector<OpCase> group_cases() {
  std::vector<OpCase> cases;
  for (const std::size_t groups : {2u, 6u}) {
    const std::size_t length = 6 / groups * 8;
    Attrs given;
    if (groups == 2) given.set("groups", std::int64_t{2});
    cases.push_back(make_case(groups == 2 ? "group_norm" : "instance_norm", {{2, 6, 4, 2}, {6}, {6}}, given,
                              [length](const auto& in, Summer& summer) {
                                auto out = each_row(in[0].data, length, summer, [](auto row, Summer& s) {
                                  return standardise(row, s, 1e-5);
                                });
                                for (std::size_t i = 0; i < out.size(); ++i) {
                                  out[i] = out[i] * in[1].data[i / 8 % 6] + in[2].data[i / 8 % 6];
                                }
                                return out;
                              }));
  }
  return cases;
}

}  // namespace

std::vector<OpCase> rowwise_cases() {
  std::vector<OpCase> cases = {
      softmax_rows(Draw{-8, 8}, 70),
      softmax_rows(Draw{-0.01, 0.01}, 8192),
      along_columns("softmax", [](auto row, Summer& s) { return softmax(row, s); }),
      make_case("log_softmax", {{5, 70}}, {},
                [](const auto& in, Summer& summer) {
                  return each_row(in[0].data, 70, summer,
                                  [](auto row, Summer& s) { return log_softmax(row, s); });
                }),
      layer_norm(Draw{}, 64, false),
      layer_norm(Draw{}, 8192, false),
      layer_norm(Draw{}, 8192, true),
      layer_norm(Draw{50, 53}, 64, false),
      layer_norm(Draw{50, 53}, 64, true),
      layer_norm(Draw{1000, 1003}, 8192, false),
      layer_norm(Draw{1000, 1003}, 8192, true),
      make_case("layer_norm", {{2, 3, 20}}, attrs({{"axis", 1}}),
                [](const auto& in, Summer& summer) {
                  return each_row(in[0].data, 60, summer,
                                  [](auto row, Summer& s) { return standardise(row, s, 1e-5); });
                }),
      make_case("rms_norm", {{5, 64}, {64}}, {},
                [](const auto& in, Summer& summer) {
                  auto out = each_row(in[0].data, 64, summer, [](auto row, Summer& s) {
                    auto squares = row;
                    for (auto& x : squares) x *= x;
                    const auto mean = s.sum(squares) / 64;
                    for (auto& x : row) x /= std::sqrt(mean + static_cast<std::decay_t<decltype(x)>>(1e-5));
                    return row;
                  });
                  for (std::size_t i = 0; i < out.size(); ++i) out[i] *= in[1].data[i % 64];
                  return out;
                }),
      make_case("l2_normalize", {{5, 64}}, {},
                [](const auto& in, Summer& summer) {
                  return each_row(in[0].data, 64, summer, [](auto row, Summer& s) {
                    auto squares = row;
                    for (auto& x : squares) x *= x;
                    const auto norm = std::sqrt(s.sum(squares));
                    for (auto& x : row) x /= std::max(norm, static_cast<std::decay_t<decltype(x)>>(1e-12));
                    return row;
                  });
                }),
  };
  for (auto make : {group_cases, scan_cases}) {
    for (OpCase& op_case : make()) cases.push_back(std::move(op_case));
  }
  return cases;
}

}  // namespace lathe

#include <algorithm>
#include <array>

#include "tests/task/ops/harness.h"

namespace lathe {
namespace {

/// An op that copies: out[i] = in[0][source(i)], or 0 where source is negative.
template <class Source>
OpCase copy(std::string op, Shape in, Attrs given, std::int64_t count, Source source) {
  return make_case(std::move(op), {std::move(in)}, std::move(given), [=](const auto& arrays, Summer&) {
    auto out = arrays[0].data;
    out.clear();
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t from = source(i);
      out.push_back(from < 0 ? 0 : arrays[0][from]);
    }
    return out;
  });
}

OpCase gather(std::string op, Attrs given, bool middle) {
  OpCase result =
      make_case(std::move(op), {{5, 6, 4}, {2, 3}}, std::move(given), [middle](const auto& in, Summer&) {
        auto out = in[0].data;
        out.clear();
        for (std::int64_t outer = 0; outer < (middle ? 5 : 1); ++outer) {
          for (const auto index : in[1].data) {
            const auto row = static_cast<std::int64_t>(index);
            const std::int64_t length = middle ? 4 : 24;
            const std::int64_t first = middle ? (outer * 6 + row) * 4 : row * 24;
            for (std::int64_t i = 0; i < length; ++i) out.push_back(in[0][first + i]);
          }
        }
        return out;
      });
  result.draws = {Draw{}, Draw{.index_limit = 5}};
  return result;
}

OpCase scatter_add(Shape base, Shape index, Shape x) {
  const std::int64_t limit = base[0], width = element_count(base) / limit;
  OpCase result = make_case("scatter_add", {std::move(base), std::move(index), std::move(x)}, {},
                            [=](const auto& in, Summer& summer) {
                              auto out = in[0].data;
                              for (std::int64_t at = 0; at < in[0].size(); ++at) {
                                auto terms = out;
                                terms.assign(1, in[0][at]);
                                for (std::int64_t i = 0; i < in[1].size(); ++i)
                                  if (static_cast<std::int64_t>(in[1][i]) == at / width)
                                    terms.push_back(in[2][i * width + at % width]);
                                out[static_cast<std::size_t>(at)] = summer.sum(terms);
                              }
                              return out;
                            });
  result.draws = {Draw{}, Draw{.index_limit = limit}, Draw{}};
  return result;
}

OpCase scatter(Shape base, std::int64_t items) {
  Shape x = base;
  x[0] = items;
  const std::int64_t limit = base[0], width = element_count(base) / limit;
  OpCase result =
      make_case("scatter", {std::move(base), {items}, std::move(x)}, {}, [=](const auto& in, Summer&) {
        auto out = in[0].data;
        for (std::int64_t i = 0; i < items * width; ++i)
          out[static_cast<std::size_t>(static_cast<std::int64_t>(in[1][i / width]) * width + i % width)] =
              in[2][i];
        return out;
      });
  result.draws = {Draw{}, Draw{.index_limit = limit, .order = Order::kDistinct}, Draw{}};
  return result;
}

OpCase segment_sum(Shape x, std::int64_t segments) {
  const std::int64_t rows = x[0], width = element_count(x) / rows;
  OpCase result =
      make_case("segment_sum", {std::move(x), {segments + 1}}, {}, [=](const auto& in, Summer& summer) {
        auto out = in[0].data;
        out.clear();
        for (std::int64_t i = 0; i < segments * width; ++i) {
          auto terms = out;
          terms.clear();
          const auto offset = [&](std::int64_t at) { return static_cast<std::int64_t>(in[1][at]); };
          for (std::int64_t row = 0; row < rows; ++row)
            if (row >= offset(i / width) && row < offset(i / width + 1))
              terms.push_back(in[0][row * width + i % width]);
          out.push_back(summer.sum(terms));
        }
        return out;
      });
  result.draws = {Draw{0.1, 2}, Draw{.index_limit = rows + 1, .order = Order::kOffsets}};
  return result;
}

OpCase segment_extremum(const char* op, Shape x, std::int64_t segments) {
  const bool largest = std::string(op) == "segment_max";
  const std::int64_t rows = x[0], width = element_count(x) / rows;
  OpCase result = make_case(op, {std::move(x), {segments + 1}}, {}, [=](const auto& in, Summer&) {
    auto out = in[0].data;
    out.clear();
    for (std::int64_t i = 0; i < segments * width; ++i) {
      auto line = out;
      line.clear();
      const auto offset = [&](std::int64_t at) { return static_cast<std::int64_t>(in[1][at]); };
      for (std::int64_t row = offset(i / width); row < offset(i / width + 1); ++row)
        line.push_back(in[0][row * width + i % width]);
      out.push_back(line.empty() ? 0
                    : largest    ? *std::ranges::max_element(line)
                                 : *std::ranges::min_element(line));
    }
    return out;
  });
  result.draws = {Draw{}, Draw{.index_limit = rows + 1, .order = Order::kOffsets}};
  return result;
}

OpCase scatter_extremum(const char* op, Shape base, Shape index, Shape x) {
  const bool largest = std::string(op) == "scatter_max";
  const std::int64_t limit = base[0], width = element_count(base) / limit;
  OpCase result =
      make_case(op, {std::move(base), std::move(index), std::move(x)}, {}, [=](const auto& in, Summer&) {
        auto out = in[0].data;
        for (std::int64_t i = 0; i < in[2].size(); ++i) {
          const auto row = static_cast<std::int64_t>(in[1][i / width]);
          auto& there = out[static_cast<std::size_t>(row * width + i % width)];
          there = largest ? std::max(there, in[2][i]) : std::min(there, in[2][i]);
        }
        return out;
      });
  result.draws = {Draw{}, Draw{.index_limit = limit}, Draw{}};
  return result;
}

OpCase bincount(Shape index, int bins) {
  OpCase result =
      make_case("bincount", {std::move(index)}, attrs({{"bins", bins}}), [bins](const auto& in, Summer&) {
        auto out = in[0].data;
        out.assign(static_cast<std::size_t>(bins), 0);
        for (const auto value : in[0].data) out[static_cast<std::size_t>(value)] += 1;
        return out;
      });
  result.draws = {Draw{.index_limit = bins}};
  return result;
}

/// Of x [5, 6, 4], along the middle axis or along the last.
OpCase take_along(bool middle) {
  const std::int64_t extent = middle ? 6 : 4;
  OpCase result = make_case("take_along", {{5, 6, 4}, middle ? Shape{5, 3, 4} : Shape{5, 6, 7}},
                            middle ? attrs({{"axis", 1}}) : Attrs{}, [middle](const auto& in, Summer&) {
                              auto out = in[0].data;
                              out.clear();
                              for (std::int64_t a = 0; a < in[1].extent(0); ++a)
                                for (std::int64_t b = 0; b < in[1].extent(1); ++b)
                                  for (std::int64_t c = 0; c < in[1].extent(2); ++c) {
                                    const auto at = static_cast<std::int64_t>(in[1].at(a, b, c));
                                    out.push_back(middle ? in[0].at(a, at, c) : in[0].at(a, b, at));
                                  }
                              return out;
                            });
  result.draws = {Draw{}, Draw{.index_limit = extent}};
  return result;
}

/// An op without inputs: out[i] = value(i).
template <class Value>
OpCase constant(std::string op, Attrs given, std::int64_t count, Value value) {
  OpCase result;
  result.label = op;
  result.op = std::move(op);
  result.attrs = std::move(given);
  const auto fill = [=](auto out) {
    for (std::int64_t i = 0; i < count; ++i)
      out.push_back(static_cast<typename decltype(out)::value_type>(value(i)));
    return out;
  };
  result.truth = [=](const auto&, Summer&) { return fill(std::vector<double>()); };
  result.kernel = [=](const auto&, Summer&) { return fill(std::vector<float>()); };
  return result;
}

}  // namespace

std::vector<OpCase> move_cases() {
  const auto same = [](std::int64_t i) { return i; };
  std::vector<OpCase> cases = {
      copy("transpose", {3, 4, 5}, {}, 60,
           [](std::int64_t i) { return i / 20 * 20 + i % 4 * 5 + i / 4 % 5; }),
      copy("transpose", {3, 4, 5}, attrs({{"perm", std::vector<std::int64_t>{2, 0, 1}}}), 60,
           [](std::int64_t i) { return i / 4 % 3 * 20 + i % 4 * 5 + i / 12; }),
      copy("reshape", {3, 4, 5}, attrs({{"shape", std::vector<std::int64_t>{6, -1}}}), 60, same),
      copy("reshape", {3, 4, 5}, attrs({{"shape", std::vector<std::string>{"3*2", "10"}}}), 60, same),
      copy("flatten", {3, 4, 5}, {}, 60, same),
      copy("slice", {3, 8}, attrs({{"start", 2}, {"stop", 7}}), 15,
           [](std::int64_t i) { return i / 5 * 8 + i % 5 + 2; }),
      copy("slice", {6, 4}, attrs({{"axis", 0}, {"start", 4}}), 8, [](std::int64_t i) { return i + 16; }),
      copy("pad", {3, 4}, attrs({{"before", 2}, {"after", 1}}), 21,
           [](std::int64_t i) { return i % 7 < 2 || i % 7 > 5 ? -1 : i / 7 * 4 + i % 7 - 2; }),
      copy("pad", {3, 4}, attrs({{"before", 3}, {"after", 2}, {"mode", "reflect"}}), 27,
           [](std::int64_t i) { return i / 9 * 4 + std::array{3, 2, 1, 0, 1, 2, 3, 2, 1}[i % 9]; }),
      copy("pad", {3, 4}, attrs({{"before", 2}, {"after", 3}, {"mode", "replicate"}}), 27,
           [](std::int64_t i) { return i / 9 * 4 + std::array{0, 0, 0, 1, 2, 3, 3, 3, 3}[i % 9]; }),
      copy("pad", {3, 4}, attrs({{"before", 2}, {"after", 4}, {"mode", "circular"}}), 30,
           [](std::int64_t i) { return i / 10 * 4 + (i % 10 + 2) % 4; }),
      copy("pad", {4, 3}, attrs({{"axis", 0}, {"after", 1}, {"mode", "reflect"}}), 15,
           [](std::int64_t i) { return i < 12 ? i : i - 6; }),
      copy("flip", {3, 4, 2}, attrs({{"axis", 1}}), 24,
           [](std::int64_t i) { return i / 8 * 8 + (3 - i / 2 % 4) * 2 + i % 2; }),
      copy("diag", {2, 5}, {}, 50,
           [](std::int64_t i) { return i / 5 % 5 == i % 5 ? i / 25 * 5 + i % 5 : -1; }),
      copy("triu", {2, 4, 5}, {}, 40, [](std::int64_t i) { return i % 5 >= i / 5 % 4 ? i : -1; }),
      copy("tril", {4, 5}, attrs({{"diagonal", 1}}), 20,
           [](std::int64_t i) { return i % 5 <= i / 5 + 1 ? i : -1; }),
      gather("gather", attrs({{"axis", 1}}), true),
      gather("gather", {}, false),
      gather("embedding", {}, false),
      scatter_add({5, 3}, {9}, {9, 3}),
      scatter_add({3, 2, 4}, {4, 5}, {4, 5, 2, 4}),
      scatter_add({4}, {200}, {200}),
      bincount({40}, 7),
      scatter({7, 3}, 4),
      scatter({5, 2, 3}, 5),
      scatter({9}, 1),
      segment_sum({23, 4}, 5),
      segment_sum({60}, 3),
      segment_extremum("segment_max", {23, 4}, 5),
      segment_extremum("segment_min", {9}, 30),
      scatter_extremum("scatter_max", {5, 3}, {9}, {9, 3}),
      scatter_extremum("scatter_min", {3, 2, 4}, {4, 5}, {4, 5, 2, 4}),
      bincount({4, 6}, 30),
      copy("roll", {3, 5}, attrs({{"shift", 2}}), 15,
           [](std::int64_t i) { return i / 5 * 5 + (i % 5 + 3) % 5; }),
      copy("roll", {2, 5, 3}, attrs({{"shift", -11}, {"axis", 1}}), 30,
           [](std::int64_t i) { return i / 15 * 15 + (i / 3 + 1) % 5 * 3 + i % 3; }),
      copy("tile", {3, 4}, attrs({{"times", 3}}), 36, [](std::int64_t i) { return i / 12 * 4 + i % 4; }),
      copy("tile", {3, 4}, attrs({{"times", "2 * 1"}, {"axis", 0}}), 24,
           [](std::int64_t i) { return i % 12; }),
      copy("repeat_interleave", {3, 4}, attrs({{"times", 3}}), 36, [](std::int64_t i) { return i / 3; }),
      copy("repeat_interleave", {3, 4, 2}, attrs({{"times", 2}, {"axis", 1}}), 48,
           [](std::int64_t i) { return i / 16 * 8 + i / 4 % 4 * 2 + i % 2; }),
      constant("iota", attrs({{"shape", std::vector<std::int64_t>{3, 7}}}), 21,
               [](std::int64_t i) { return i % 7; }),
      constant("iota",
               attrs({{"shape", std::vector<std::string>{"5", "2*2", "1"}}, {"axis", 1}, {"dtype", "int32"}}),
               20, [](std::int64_t i) { return i % 4; }),
      constant("full", attrs({{"shape", std::vector<std::int64_t>{3, 2}}, {"value", 0.375}}), 6,
               [](std::int64_t) { return 0.375; }),
      take_along(true),
      take_along(false),
  };
  cases.push_back(make_case("concat", {{3, 2, 4}, {3, 5, 4}, {3, 1, 4}}, attrs({{"axis", 1}}),
                            [](const auto& in, Summer&) {
                              auto out = in[0].data;
                              out.clear();
                              for (std::size_t i = 0; i < 3; ++i) {
                                for (const auto& part : in) {
                                  const std::size_t length = part.data.size() / 3;
                                  for (std::size_t k = 0; k < length; ++k)
                                    out.push_back(part.data[i * length + k]);
                                }
                              }
                              return out;
                            }));
  return cases;
}

}  // namespace lathe

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tests/task/ops/harness.h"

namespace lathe {
namespace {

struct Geometry {
  int stride = 1;
  int padding = 0;
  int dilation = 1;
  int groups = 1;
};

Attrs attrs_of(const Geometry& g) {
  return attrs(
      {{"stride", g.stride}, {"padding", g.padding}, {"dilation", g.dilation}, {"groups", g.groups}});
}

/// Every product of an output: calls visit(output index, product) for x [N, C, H, W] and w [O, C/g,
/// k, k].
template <class T, class Visit>
void conv2d_products(const Array<T>& x, const Array<T>& w, const Geometry& g, std::int64_t oh,
                     std::int64_t ow, Visit visit) {
  const std::int64_t per_group = w.extent(0) / g.groups;
  for (std::int64_t n = 0; n < x.extent(0); ++n) {
    for (std::int64_t o = 0; o < w.extent(0); ++o) {
      for (std::int64_t p = 0; p < oh * ow; ++p) {
        for (std::int64_t c = 0; c < w.extent(1); ++c) {
          for (std::int64_t t = 0; t < w.extent(2) * w.extent(3); ++t) {
            const std::int64_t a = t / w.extent(3);
            const std::int64_t b = t % w.extent(3);
            const std::int64_t i = p / ow * g.stride - g.padding + a * g.dilation;
            const std::int64_t j = p % ow * g.stride - g.padding + b * g.dilation;
            if (i < 0 || j < 0 || i >= x.extent(2) || j >= x.extent(3)) continue;
            visit((n * w.extent(0) + o) * oh * ow + p,
                  x.at(n, o / per_group * w.extent(1) + c, i, j) * w.at(o, c, a, b));
          }
        }
      }
    }
  }
}

/// Bounds have room for algorithms that compute whole tiles, which lose far more than these.
constexpr double kTiledLooseness = 2000;

OpCase conv2d(const Geometry& g, Shape x, Shape w, std::int64_t oh, std::int64_t ow) {
  OpCase result = make_case("conv2d", {x, w, {w[0]}}, attrs_of(g), [=](const auto& in, Summer& summer) {
    auto out = in[0].data;
    std::vector<decltype(out)> terms(static_cast<std::size_t>(in[0].extent(0) * in[1].extent(0) * oh * ow));
    conv2d_products(in[0], in[1], g, oh, ow, [&](std::int64_t at, auto product) {
      terms[static_cast<std::size_t>(at)].push_back(product);
    });
    out.clear();
    for (std::size_t i = 0; i < terms.size(); ++i) {
      const std::size_t channel =
          i / static_cast<std::size_t>(oh * ow) % static_cast<std::size_t>(in[1].extent(0));
      out.push_back(summer.sum(terms[i]) + in[2].data[channel]);
    }
    return out;
  });
  result.looseness = kTiledLooseness;
  result.draws = {kPositive};
  return result;
}

/// One spatial axis, by the definition; also serves as axis 2 of conv3d with extents of 1 before
/// it.
OpCase conv1d(std::string op, Shape x, Shape w) {
  OpCase result =
      make_case(std::move(op), {x, w}, attrs({{"padding", std::vector<std::int64_t>(x.size() - 2, 0)}}),
                [](const auto& in, Summer& summer) {
                  auto out = in[0].data;
                  out.clear();
                  const std::int64_t channels = in[0].extent(1);
                  const std::int64_t length = in[0].extent(-1);
                  const std::int64_t kernel = in[1].extent(-1);
                  for (std::int64_t o = 0; o < in[1].extent(0); ++o) {
                    for (std::int64_t p = 0; p + kernel <= length; ++p) {
                      auto terms = in[0].data;
                      terms.clear();
                      for (std::int64_t c = 0; c < channels; ++c) {
                        for (std::int64_t t = 0; t < kernel; ++t) {
                          terms.push_back(in[0][c * length + p + t] * in[1][(o * channels + c) * kernel + t]);
                        }
                      }
                      out.push_back(summer.sum(terms));
                    }
                  }
                  return out;
                });
  result.looseness = kTiledLooseness;
  result.draws = {kPositive};
  return result;
}

/// Scatters x [1, C, 1.., L] through w [C, O, 1.., k] with stride 2.
OpCase conv_transpose_line(std::string op, Shape x, Shape w) {
  Attrs given = attrs({{"stride", 2}, {"output_padding", std::vector<std::int64_t>(x.size() - 2, 0)}});
  OpCase result = make_case(std::move(op), {x, w}, given, [](const auto& in, Summer& summer) {
    const std::int64_t channels = in[0].extent(1);
    const std::int64_t length = in[0].extent(-1);
    const std::int64_t outputs = in[1].extent(1);
    const std::int64_t kernel = in[1].extent(-1);
    const std::int64_t wide = (length - 1) * 2 + kernel;
    auto out = in[0].data;
    std::vector<decltype(out)> terms(static_cast<std::size_t>(outputs * wide));
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t i = 0; i < length; ++i) {
        for (std::int64_t o = 0; o < outputs; ++o) {
          for (std::int64_t t = 0; t < kernel; ++t) {
            terms[static_cast<std::size_t>(o * wide + 2 * i + t)].push_back(
                in[0][c * length + i] * in[1][(c * outputs + o) * kernel + t]);
          }
        }
      }
    }
    out.clear();
    for (const auto& term : terms) out.push_back(summer.sum(term));
    return out;
  });
  result.draws = {kPositive};
  return result;
}

/// Grouped, padded, dilated and with output padding: by the adjoint of conv2d's products.
OpCase conv_transpose2d(const Geometry& g) {
  const Shape x{2, 4, 3, 4};
  const Shape w{4, 3, 3, 3};
  Attrs given = attrs_of(g);
  given.set("output_padding", std::int64_t{1});
  const std::int64_t height = 2 * g.stride - 2 * g.padding + 2 * g.dilation + 2;
  const std::int64_t width = 3 * g.stride - 2 * g.padding + 2 * g.dilation + 2;
  OpCase result =
      make_case("conv_transpose2d", {x, w, {3 * g.groups}}, given, [=](const auto& in, Summer& summer) {
        auto out = in[0].data;
        const std::int64_t outputs = 3 * g.groups;
        std::vector<decltype(out)> terms(static_cast<std::size_t>(2 * outputs * height * width));
        for (std::int64_t flat = 0; flat < in[0].size(); ++flat) {
          const std::int64_t n = flat / 48, c = flat / 12 % 4, i = flat / 4 % 3, j = flat % 4;
          for (std::int64_t o = 0; o < 3; ++o) {
            for (std::int64_t t = 0; t < 9; ++t) {
              const std::int64_t y = i * g.stride - g.padding + t / 3 * g.dilation;
              const std::int64_t z = j * g.stride - g.padding + t % 3 * g.dilation;
              if (y < 0 || z < 0 || y >= height || z >= width) continue;
              const std::int64_t channel = c / (4 / g.groups) * 3 + o;
              terms[static_cast<std::size_t>(((n * outputs + channel) * height + y) * width + z)].push_back(
                  in[0][flat] * in[1].at(c, o, t / 3, t % 3));
            }
          }
        }
        out.clear();
        for (std::size_t i = 0; i < terms.size(); ++i) {
          const std::size_t channel =
              i / static_cast<std::size_t>(height * width) % static_cast<std::size_t>(outputs);
          out.push_back(summer.sum(terms[i]) + in[2].data[channel]);
        }
        return out;
      });
  result.draws = {kPositive};
  return result;
}

/// Kernel 3, stride 2, padding 1 over the last axis of x, and a dilation.
OpCase pool_line(std::string op, Shape x, Attrs given) {
  const bool maximum = op.starts_with("max");
  const bool count_padding = given.flag("count_padding", true), ceil = given.flag("ceil_mode", false);
  const std::int64_t dilation = given.integers("dilation", {1}).back();
  OpCase result = make_case(std::move(op), {x}, std::move(given), [=](const auto& in, Summer& summer) {
    auto out = in[0].data;
    out.clear();
    const std::int64_t length = in[0].extent(-1);
    for (std::int64_t line = 0; line < in[0].size() / length; ++line) {
      const std::int64_t room = length + 1 - 2 * dilation + (ceil ? 1 : 0);
      for (std::int64_t p = 0; p < room / 2 + 1 && 2 * p - 1 < length; ++p) {
        auto taps = in[0].data;
        taps.clear();
        for (std::int64_t t = 0; t < 3; ++t) {
          const std::int64_t i = 2 * p - 1 + t * dilation;
          if (i >= 0 && i < length) taps.push_back(in[0][line * length + i]);
        }
        using T = std::decay_t<decltype(taps[0])>;
        const std::int64_t padded = std::min<std::int64_t>(3, length + 1 - (2 * p - 1));
        const T count = static_cast<T>(count_padding ? padded : static_cast<std::int64_t>(taps.size()));
        out.push_back(maximum ? *std::ranges::max_element(taps) : summer.sum(taps) / count);
      }
    }
    return out;
  });
  result.draws = {kPositive};
  return result;
}

Attrs pool_attrs(std::size_t axes) {
  std::vector<std::int64_t> kernel(axes, 1), stride(axes, 1), padding(axes, 0);
  kernel.back() = 3;
  stride.back() = 2;
  padding.back() = 1;
  return attrs({{"kernel", kernel}, {"stride", stride}, {"padding", padding}});
}

/// 2 x 2 windows side by side, as by default.
OpCase pool_square(std::string op) {
  const bool maximum = op.starts_with("max");
  OpCase result =
      make_case(std::move(op), {{2, 3, 6, 8}}, attrs({{"kernel", 2}}), [=](const auto& in, Summer& summer) {
        auto out = in[0].data;
        out.clear();
        for (int n = 0; n < 2; ++n) {
          for (int c = 0; c < 3; ++c) {
            for (int i = 0; i < 3; ++i) {
              for (int j = 0; j < 4; ++j) {
                auto taps = in[0].data;
                taps.clear();
                for (int t = 0; t < 4; ++t) taps.push_back(in[0].at(n, c, 2 * i + t / 2, 2 * j + t % 2));
                out.push_back(maximum ? *std::ranges::max_element(taps) : summer.sum(taps) / 4);
              }
            }
          }
        }
        return out;
      });
  result.draws = {kPositive};
  return result;
}

/// x [2, 3, ...] as planes of three axes, and the extents of the result.
struct Planes {
  std::int64_t in[3] = {1, 1, 1};
  std::int64_t out[3] = {1, 1, 1};

  Planes(const Shape& x, const std::vector<std::int64_t>& size) {
    std::copy(x.begin() + 2, x.end(), in + 5 - x.size());
    std::copy(size.begin(), size.end(), out + 3 - size.size());
  }
  /// Calls visit(offset of x's plane, position along each axis) for each element of the result.
  template <class Visit>
  void visit(Visit visit_position) const {
    for (std::int64_t plane = 0; plane < 6; ++plane)
      for (std::int64_t a = 0; a < out[0]; ++a)
        for (std::int64_t b = 0; b < out[1]; ++b)
          for (std::int64_t c = 0; c < out[2]; ++c)
            visit_position(plane * in[0] * in[1] * in[2], std::array<std::int64_t, 3>{a, b, c});
  }
  std::int64_t at(std::int64_t a, std::int64_t b, std::int64_t c) const {
    return (a * in[1] + b) * in[2] + c;
  }
};

OpCase adaptive(std::string op, const Shape& x, const std::vector<std::int64_t>& size) {
  const bool largest = op.find("max") != std::string::npos;
  const Planes planes(x, size);
  return make_case(std::move(op), {x}, attrs({{"size", size}}), [=](const auto& in, Summer& summer) {
    auto out = in[0].data;
    out.clear();
    planes.visit([&](std::int64_t first, const std::array<std::int64_t, 3>& position) {
      std::int64_t begin[3], end[3];
      for (std::size_t axis = 0; axis < 3; ++axis) {
        const double step = static_cast<double>(planes.in[axis]) / static_cast<double>(planes.out[axis]);
        begin[axis] = std::lround(std::floor(static_cast<double>(position[axis]) * step + 1e-9));
        end[axis] = std::lround(std::ceil(static_cast<double>(position[axis] + 1) * step - 1e-9));
      }
      auto window = out;
      window.clear();
      for (std::int64_t a = begin[0]; a < end[0]; ++a)
        for (std::int64_t b = begin[1]; b < end[1]; ++b)
          for (std::int64_t c = begin[2]; c < end[2]; ++c)
            window.push_back(in[0][first + planes.at(a, b, c)]);
      using T = typename decltype(out)::value_type;
      out.push_back(largest ? *std::ranges::max_element(window)
                            : summer.sum(window) / static_cast<T>(window.size()));
    });
    return out;
  });
}

OpCase nearest(std::string op, const Shape& x, const std::vector<std::int64_t>& size) {
  const Planes planes(x, size);
  return make_case(std::move(op), {x}, attrs({{"size", size}}), [=](const auto& in, Summer&) {
    auto out = in[0].data;
    out.clear();
    planes.visit([&](std::int64_t first, const std::array<std::int64_t, 3>& position) {
      std::int64_t from[3];
      for (std::size_t axis = 0; axis < 3; ++axis) {
        from[axis] = 0;
        while ((from[axis] + 1) * planes.out[axis] <= position[axis] * planes.in[axis]) ++from[axis];
      }
      out.push_back(in[0][first + planes.at(from[0], from[1], from[2])]);
    });
    return out;
  });
}

/// As frameworks do: a scale, a place and its weights in the arithmetic of the values.
OpCase linear_between(std::string op, const Shape& x, const std::vector<std::int64_t>& size, bool corners) {
  const Planes planes(x, size);
  const Attrs given = corners ? attrs({{"size", size}, {"align_corners", true}}) : attrs({{"size", size}});
  return make_case(std::move(op), {x}, given, [=](const auto& in, Summer&) {
    auto out = in[0].data;
    using T = typename decltype(out)::value_type;
    out.clear();
    planes.visit([&](std::int64_t first, const std::array<std::int64_t, 3>& position) {
      std::int64_t low[3], high[3];
      T weight[3];
      for (std::size_t axis = 0; axis < 3; ++axis) {
        const T from = static_cast<T>(planes.in[axis]), to = static_cast<T>(planes.out[axis]);
        const T i = static_cast<T>(position[axis]);
        const T place = corners ? (to > 1 ? i * ((from - 1) / (to - 1)) : T(0))
                                : std::max(T(0), (i + T(0.5)) * (from / to) - T(0.5));
        low[axis] = std::min(static_cast<std::int64_t>(place), planes.in[axis] - 1);
        high[axis] = std::min(low[axis] + 1, planes.in[axis] - 1);
        weight[axis] = place - static_cast<T>(low[axis]);
      }
      const auto along = [&](std::int64_t a, std::int64_t b) {
        const T below = in[0][first + planes.at(a, b, low[2])],
                above = in[0][first + planes.at(a, b, high[2])];
        return below + weight[2] * (above - below);
      };
      const auto across = [&](std::int64_t a) {
        return (1 - weight[1]) * along(a, low[1]) + weight[1] * along(a, high[1]);
      };
      out.push_back((1 - weight[0]) * across(low[0]) + weight[0] * across(high[0]));
    });
    return out;
  });
}

void add_resampling(std::vector<OpCase>& cases) {
  for (const char* kind : {"avg", "max"}) {
    const auto name = [&](const char* axes) { return "adaptive_" + std::string(kind) + "_pool" + axes; };
    cases.push_back(adaptive(name("1d"), {2, 3, 17}, {5}));
    cases.push_back(adaptive(name("1d"), {2, 3, 5}, {7}));
    cases.push_back(adaptive(name("2d"), {2, 3, 7, 9}, {3, 9}));
    cases.push_back(adaptive(name("2d"), {2, 3, 6, 8}, {1, 4}));
    cases.push_back(adaptive(name("3d"), {2, 3, 4, 5, 7}, {2, 3, 4}));
  }
  cases.push_back(nearest("upsample_nearest1d", {2, 3, 5}, {13}));
  cases.push_back(nearest("upsample_nearest2d", {2, 3, 4, 5}, {8, 15}));
  cases.push_back(nearest("upsample_nearest2d", {2, 3, 7, 5}, {3, 5}));
  cases.push_back(nearest("upsample_nearest3d", {2, 3, 2, 3, 4}, {3, 4, 5}));
  for (const bool corners : {false, true}) {
    cases.push_back(linear_between("upsample_linear1d", {2, 3, 7}, {19}, corners));
    cases.push_back(linear_between("upsample_linear1d", {2, 3, 11}, {4}, corners));
    cases.push_back(linear_between("upsample_bilinear2d", {2, 3, 4, 5}, {8, 15}, corners));
    cases.push_back(linear_between("upsample_bilinear2d", {2, 3, 1, 5}, {3, 4}, corners));
    cases.push_back(linear_between("upsample_trilinear3d", {2, 3, 2, 3, 4}, {3, 5, 7}, corners));
  }
}

}  // namespace

namespace {

/// The columns [2, 3 * 6, 20] of an image [2, 3, 6, 9], or the image of such columns.
OpCase columns_of_an_image(bool fold) {
  const Shape image = {2, 3, 6, 9}, columns = {2, 18, 20};
  Attrs given = attrs({{"kernel", std::vector<std::int64_t>{2, 3}},
                       {"stride", std::vector<std::int64_t>{2, 2}},
                       {"padding", std::vector<std::int64_t>{1, 2}},
                       {"dilation", std::vector<std::int64_t>{1, 2}}});
  if (fold) given.set("size", std::vector<std::int64_t>{6, 9});
  return make_case(fold ? "fold" : "unfold", {fold ? columns : image}, given, [=](const auto& in, Summer&) {
    auto out = in[0].data;
    out.assign(static_cast<std::size_t>(element_count(fold ? image : columns)), 0);
    std::size_t column = 0;
    for (int plane = 0; plane < 6; ++plane)
      for (int a = 0; a < 2; ++a)
        for (int b = 0; b < 3; ++b)
          for (int p = 0; p < 4; ++p)
            for (int q = 0; q < 5; ++q, ++column) {
              const int h = 2 * p - 1 + a, w = 2 * q - 2 + 2 * b;
              if (h < 0 || h >= 6 || w < 0 || w >= 9) continue;
              const auto at = static_cast<std::size_t>((plane * 6 + h) * 9 + w);
              fold ? out[at] += in[0].data[column] : out[column] = in[0].data[at];
            }
    return out;
  });
}

/// As frameworks do: a scale, a place, polynomials of it and the sums in the arithmetic of the
/// values.
OpCase bicubic(const Shape& x, const std::vector<std::int64_t>& size, bool corners) {
  const Planes planes(x, {1, size[0], size[1]});
  const Attrs given = corners ? attrs({{"size", size}, {"align_corners", true}}) : attrs({{"size", size}});
  OpCase result = make_case("upsample_bicubic2d", {x}, given, [=](const auto& in, Summer&) {
    auto out = in[0].data;
    using T = typename decltype(out)::value_type;
    out.clear();
    planes.visit([&](std::int64_t first, const std::array<std::int64_t, 3>& position) {
      std::int64_t taps[3][4];
      T weights[3][4];
      for (std::size_t axis = 1; axis < 3; ++axis) {
        const T from = static_cast<T>(planes.in[axis]), to = static_cast<T>(planes.out[axis]);
        const T i = static_cast<T>(position[axis]);
        const T place =
            corners ? (to > 1 ? i * ((from - 1) / (to - 1)) : T(0)) : (i + T(0.5)) * (from / to) - T(0.5);
        const T low = std::floor(place);
        for (int tap = 0; tap < 4; ++tap) {
          taps[axis][tap] =
              std::clamp<std::int64_t>(static_cast<std::int64_t>(low) + tap - 1, 0, planes.in[axis] - 1);
          const T d = std::fabs(place - (low + static_cast<T>(tap - 1)));
          weights[axis][tap] =
              d <= 1 ? (T(1.25) * d - T(2.25)) * d * d + 1 : ((T(-0.75) * d + T(3.75)) * d - 6) * d + 3;
        }
      }
      T sum = 0;
      for (int a = 0; a < 4; ++a)
        for (int b = 0; b < 4; ++b)
          sum += weights[1][a] * weights[2][b] * in[0][first + planes.at(0, taps[1][a], taps[2][b])];
      out.push_back(sum);
    });
    return out;
  });
  result.looseness = 2000;
  return result;
}

/// As PyTorch's kernels do: places in the arithmetic of the values, four corners of which those
/// outside count as zeros, or are those at the edge.
OpCase sampled(const char* mode, const char* padding, bool corners) {
  const bool nearest = std::string(mode) == "nearest", border = std::string(padding) == "border";
  const Attrs given = attrs({{"mode", mode}, {"padding", padding}, {"align_corners", corners}});
  OpCase result = make_case("grid_sample", {{2, 3, 4, 7}, {2, 5, 3, 2}}, given, [=](const auto& in, Summer&) {
    auto out = in[0].data;
    using T = typename decltype(out)::value_type;
    out.clear();
    const auto place = [&](T g, int extent) {
      const T n = static_cast<T>(extent);
      const T at = corners ? (g + 1) * T(0.5) * (n - 1) : ((g + 1) * n - 1) * T(0.5);
      return border ? std::min(std::max(at, T(0)), n - 1) : at;
    };
    for (int n = 0; n < 2; ++n)
      for (int c = 0; c < 3; ++c)
        for (int i = 0; i < 15; ++i) {
          const T x = place(in[1].at(n, i / 3, i % 3, 0), 7), y = place(in[1].at(n, i / 3, i % 3, 1), 4);
          const auto at = [&](T row, T column) {
            const bool inside = row >= 0 && row < 4 && column >= 0 && column < 7;
            return inside ? in[0].at(n, c, row, column) : T(0);
          };
          const T left = std::floor(x), top = std::floor(y);
          out.push_back(
              nearest ? at(std::nearbyint(y), std::nearbyint(x))
                      : (top + 1 - y) * ((left + 1 - x) * at(top, left) + (x - left) * at(top, left + 1)) +
                            (y - top) *
                                ((left + 1 - x) * at(top + 1, left) + (x - left) * at(top + 1, left + 1)));
        }
    return out;
  });
  result.draws = {{}, {-1.2, 1.2}};
  return result;
}

}  // namespace

std::vector<OpCase> stencil_cases() {
  Attrs uncounted = pool_attrs(1);
  uncounted.set("count_padding", false);
  Attrs rounded_up = pool_attrs(1), uncounted_rounded_up = uncounted;
  rounded_up.set("ceil_mode", true);
  uncounted_rounded_up.set("ceil_mode", true);
  Attrs dilated = pool_attrs(1);
  dilated.set("dilation", 3);
  std::vector<OpCase> cases = {
      conv2d({}, {2, 3, 6, 7}, {4, 3, 3, 2}, 4, 6),
      conv2d({.stride = 2, .padding = 1}, {1, 2, 7, 8}, {3, 2, 3, 3}, 4, 4),
      conv2d({.padding = 2, .dilation = 2, .groups = 2}, {2, 4, 6, 6}, {6, 2, 3, 3}, 6, 6),
      conv2d({.padding = 1, .groups = 4}, {2, 4, 5, 5}, {4, 1, 3, 3}, 5, 5),
      conv1d("conv1d", {1, 3, 20}, {5, 3, 4}),
      conv1d("conv3d", {1, 3, 1, 1, 12}, {5, 3, 1, 1, 4}),
      conv_transpose_line("conv_transpose1d", {1, 3, 9}, {3, 4, 5}),
      conv_transpose_line("conv_transpose2d", {1, 3, 1, 9}, {3, 4, 1, 5}),
      conv_transpose_line("conv_transpose3d", {1, 3, 1, 1, 9}, {3, 4, 1, 1, 5}),
      conv_transpose2d({.stride = 2, .padding = 1}),
      conv_transpose2d({.stride = 2, .padding = 2, .dilation = 2, .groups = 2}),
      columns_of_an_image(false),
      columns_of_an_image(true),
      bicubic({2, 3, 4, 5}, {8, 15}, false),
      bicubic({2, 3, 7, 5}, {3, 4}, true),
      sampled("bilinear", "zeros", false),
      sampled("bilinear", "zeros", true),
      sampled("bilinear", "border", false),
      sampled("nearest", "zeros", false),
      sampled("nearest", "border", true),
      pool_line("max_pool1d", {2, 3, 9}, pool_attrs(1)),
      pool_line("max_pool1d", {2, 3, 17}, dilated),
      pool_line("max_pool3d", {2, 3, 1, 2, 9}, pool_attrs(3)),
      pool_line("avg_pool1d", {2, 3, 9}, pool_attrs(1)),
      pool_line("avg_pool1d", {2, 3, 9}, uncounted),
      pool_line("avg_pool1d", {2, 3, 10}, rounded_up),
      pool_line("avg_pool1d", {2, 3, 10}, uncounted_rounded_up),
      pool_line("max_pool1d", {2, 3, 10}, rounded_up),
      pool_line("avg_pool3d", {2, 3, 1, 2, 9}, pool_attrs(3)),
      pool_square("max_pool2d"),
      pool_square("avg_pool2d"),
  };
  add_resampling(cases);
  return cases;
}

}  // namespace lathe

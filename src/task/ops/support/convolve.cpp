#include "task/ops/support/convolve.h"

#include <algorithm>
#include <utility>

#include "base/large_vector.h"
#include "base/parallel.h"
#include "base/processors.h"

namespace lathe::ops {
namespace {

using Extents = Window::Extents;

/// A channel padded with zeros around and between its elements: coordinate i of an axis moves to
/// before + i * spread, if that is inside.
struct Frame {
  Extents extents, before, spread;

  std::int64_t offset(const Extents& at) const { return (at[0] * extents[1] + at[1]) * extents[2] + at[2]; }
};

/// The operands of either direction; positions are `step` apart in a frame.
struct Sides {
  std::int64_t channels, outputs;  ///< channels of an image and of its result
  Extents read, written, step;
  Frame frame;
};

Sides convolution_sides(const ConvSizes& sizes) {
  const Window& window = sizes.window;
  Sides sides{sizes.inputs, sizes.outputs, window.in,
              window.out,   window.stride, {{}, window.padding, {1, 1, 1}}};
  for (std::size_t axis = 0; axis < 3; ++axis)
    sides.frame.extents[axis] =
        (window.out[axis] - 1) * window.stride[axis] + (window.kernel[axis] - 1) * window.dilation[axis] + 1;
  return sides;
}

Sides transposed_sides(const ConvSizes& sizes) {
  const Window& window = sizes.window;
  Sides sides{sizes.outputs, sizes.inputs, window.out, window.in, {1, 1, 1}, {{}, {}, window.stride}};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::int64_t reach = (window.kernel[axis] - 1) * window.dilation[axis];
    sides.frame.extents[axis] = window.in[axis] + reach;
    sides.frame.before[axis] = reach - window.padding[axis];
  }
  return sides;
}

template <class T>
std::vector<T> place(const T* x, std::int64_t channels, const Extents& in, const Frame& frame) {
  const std::int64_t plane = Window::volume(frame.extents);
  auto placed = zero_vector<T>(static_cast<std::size_t>(channels * plane));
  for_each_job(channels, static_cast<double>(placed.size()), [&](std::int64_t channel) {
    const T* from = x + channel * Window::volume(in);
    T* const to = placed.data() + channel * plane;
    Extents at;
    const auto inside = [&](std::size_t axis, std::int64_t i) {
      at[axis] = frame.before[axis] + i * frame.spread[axis];
      return at[axis] >= 0 && at[axis] < frame.extents[axis];
    };
    for (std::int64_t i = 0; i < in[0]; ++i)
      for (std::int64_t j = 0; j < in[1]; ++j, from += in[2]) {
        if (!inside(0, i) || !inside(1, j)) continue;
        for (std::int64_t l = 0; l < in[2]; ++l)
          if (inside(2, l)) to[frame.offset(at)] = from[l];
      }
  });
  return placed;
}

/// Offsets of the points at multiples of `step` in a frame, for each channel.
std::vector<std::int64_t> offsets(const Extents& count, const Extents& step, const Frame& frame,
                                  std::int64_t channels = 1) {
  std::vector<std::int64_t> all;
  for (std::int64_t channel = 0; channel < channels; ++channel)
    for (std::int64_t i = 0; i < count[0]; ++i)
      for (std::int64_t j = 0; j < count[1]; ++j)
        for (std::int64_t l = 0; l < count[2]; ++l)
          all.push_back(channel * Window::volume(frame.extents) +
                        frame.offset({i * step[0], j * step[1], l * step[2]}));
  return all;
}

template <class T>
Gathered<T> gather(const ConvSizes& sizes, const Sides& sides, const T* x, std::vector<T> a) {
  return {.m = static_cast<std::size_t>(sides.outputs),
          .a = std::move(a),
          .images = place(x, sizes.batch * sides.channels, sides.read, sides.frame),
          .image_count = static_cast<std::size_t>(sizes.batch),
          .rows = offsets(sizes.window.kernel, sizes.window.dilation, sides.frame, sides.channels),
          .columns = offsets(sides.written, sides.step, sides.frame)};
}

bool pays(const ConvSizes& sizes, const Sides& sides, std::size_t threads) {
  const auto a = static_cast<double>(sizes.inputs * sizes.outputs * sizes.taps());
  const auto an_image = static_cast<double>(sides.channels * Window::volume(sides.frame.extents) +
                                            sides.outputs * Window::volume(sides.written));
  return worth_transferring(engine_multiplications(sizes), a + static_cast<double>(sizes.batch) * an_image,
                            threads);
}

}  // namespace

template <class T>
Gathered<T> gather_convolution(const ConvSizes& sizes, const T* x, const T* w) {
  return gather(sizes, convolution_sides(sizes), x,
                std::vector<T>(w, w + sizes.outputs * sizes.inputs * sizes.taps()));
}

template <class T>
Gathered<T> gather_transposed(const ConvSizes& sizes, const T* x, const T* w) {
  const std::int64_t taps = sizes.taps();
  std::vector<T> a;
  for (std::int64_t input = 0; input < sizes.inputs; ++input)
    for (std::int64_t output = 0; output < sizes.outputs; ++output) {
      const T* const kernel = w + (output * sizes.inputs + input) * taps;
      a.insert(a.end(), std::reverse_iterator(kernel + taps), std::reverse_iterator(kernel));
    }
  return gather(sizes, transposed_sides(sizes), x, std::move(a));
}

template <class T>
void convolve_fastest(const ConvSizes& sizes, ProductEngine* engine, const T* x, const T* w, T* y) {
  const bool done = engine != nullptr && pays(sizes, convolution_sides(sizes), usable_processors().size()) &&
                    engine->multiply(gather_convolution(sizes, x, w).product(y)).ok();
  if (!done) convolve(sizes, x, w, y);
}

template <class T>
void convolve_transposed_fastest(const ConvSizes& sizes, ProductEngine* engine, const T* x, const T* w,
                                 T* y) {
  const auto threads = std::min(static_cast<std::size_t>(sizes.batch), usable_processors().size());
  const bool done = engine != nullptr && pays(sizes, transposed_sides(sizes), threads) &&
                    engine->multiply(gather_transposed(sizes, x, w).product(y)).ok();
  if (!done) convolve_transposed(sizes, x, w, y);
}

double engine_multiplications(const ConvSizes& sizes) {
  return sizes.groups == 1 ? multiplications(sizes) : 0;
}

template Gathered<double> gather_convolution(const ConvSizes&, const double*, const double*);
template Gathered<float> gather_convolution(const ConvSizes&, const float*, const float*);
template Gathered<double> gather_transposed(const ConvSizes&, const double*, const double*);
template Gathered<float> gather_transposed(const ConvSizes&, const float*, const float*);
template void convolve_fastest(const ConvSizes&, ProductEngine*, const double*, const double*, double*);
template void convolve_fastest(const ConvSizes&, ProductEngine*, const float*, const float*, float*);
template void convolve_transposed_fastest(const ConvSizes&, ProductEngine*, const double*, const double*,
                                          double*);
template void convolve_transposed_fastest(const ConvSizes&, ProductEngine*, const float*, const float*,
                                          float*);

}  // namespace lathe::ops

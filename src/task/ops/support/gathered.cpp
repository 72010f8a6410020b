#include "task/ops/support/gathered.h"

#include <algorithm>

#include "base/large_vector.h"
#include "base/parallel.h"
#include "base/processors.h"

namespace lathe::ops {
namespace {

using Extents = Window::Extents;

/// Zeros around and between a channel's elements: coordinate i of an axis lies at before + i * spread, if
/// that is inside.
struct Frame {
  Extents extents, before, spread;

  std::int64_t offset(const Extents& at) const { return (at[0] * extents[1] + at[1]) * extents[2] + at[2]; }
};

Frame frame_of(const Window& window) {
  Frame frame{{}, window.padding, {1, 1, 1}};
  for (std::size_t axis = 0; axis < 3; ++axis)
    frame.extents[axis] =
        (window.out[axis] - 1) * window.stride[axis] + (window.kernel[axis] - 1) * window.dilation[axis] + 1;
  return frame;
}

Frame transposed_frame_of(const Window& window) {
  Frame frame{{}, {}, window.stride};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::int64_t reach = (window.kernel[axis] - 1) * window.dilation[axis];
    frame.extents[axis] = window.in[axis] + reach;
    frame.before[axis] = reach - window.padding[axis];
  }
  return frame;
}

template <class T>
std::vector<T> place(const T* x, std::int64_t channels, const Extents& in, const Frame& frame) {
  const std::int64_t plane = Window::volume(frame.extents);
  auto placed = zero_vector<T>(static_cast<std::size_t>(channels * plane));
  (void)for_each_index(static_cast<int>(channels), [&](int channel) -> Status {
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
    return Ok{};
  });
  return placed;
}

/// Of the points at multiples of `step`, in a frame; for each channel.
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

struct Moved {
  std::int64_t channels, outputs;  ///< of an image and of its part of the result
  std::int64_t positions;
};

bool pays(const ConvSizes& sizes, const Frame& frame, const Moved& moved, std::size_t threads) {
  const auto a = static_cast<double>(sizes.inputs * sizes.outputs * sizes.taps());
  const auto an_image =
      static_cast<double>(moved.channels * Window::volume(frame.extents) + moved.outputs * moved.positions);
  return worth_moving(engine_multiplications(sizes), a + static_cast<double>(sizes.batch) * an_image,
                      threads);
}

}  // namespace

template <class T>
Gathered<T> gather_convolution(const ConvSizes& sizes, const T* x, const T* w) {
  const Window& window = sizes.window;
  const Frame frame = frame_of(window);
  return {.m = static_cast<std::size_t>(sizes.outputs),
          .a = std::vector<T>(w, w + sizes.outputs * sizes.inputs * sizes.taps()),
          .images = place(x, sizes.batch * sizes.inputs, window.in, frame),
          .image_count = static_cast<std::size_t>(sizes.batch),
          .rows = offsets(window.kernel, window.dilation, frame, sizes.inputs),
          .columns = offsets(window.out, window.stride, frame)};
}

template <class T>
Gathered<T> gather_transposed(const ConvSizes& sizes, const T* x, const T* w) {
  const Window& window = sizes.window;
  const Frame frame = transposed_frame_of(window);
  const std::int64_t taps = sizes.taps();
  Gathered<T> gathered{.m = static_cast<std::size_t>(sizes.inputs),
                       .a = {},
                       .images = place(x, sizes.batch * sizes.outputs, window.out, frame),
                       .image_count = static_cast<std::size_t>(sizes.batch),
                       .rows = offsets(window.kernel, window.dilation, frame, sizes.outputs),
                       .columns = offsets(window.in, {1, 1, 1}, frame)};
  for (std::int64_t input = 0; input < sizes.inputs; ++input)
    for (std::int64_t output = 0; output < sizes.outputs; ++output) {
      const T* const kernel = w + (output * sizes.inputs + input) * taps;
      gathered.a.insert(gathered.a.end(), std::reverse_iterator(kernel + taps),
                        std::reverse_iterator(kernel));
    }
  return gathered;
}

template <class T>
void convolve_anywhere(const ConvSizes& sizes, ProductEngine* engine, const T* x, const T* w, T* y) {
  const Window& window = sizes.window;
  const Moved moved{sizes.inputs, sizes.outputs, Window::volume(window.out)};
  const bool done = engine != nullptr && pays(sizes, frame_of(window), moved, usable_processors().size()) &&
                    engine->multiply(gather_convolution(sizes, x, w).product(y)).ok();
  if (!done) convolve(sizes, x, w, y);
}

template <class T>
void convolve_transposed_anywhere(const ConvSizes& sizes, ProductEngine* engine, const T* x, const T* w,
                                  T* y) {
  const Window& window = sizes.window;
  const Moved moved{sizes.outputs, sizes.inputs, Window::volume(window.in)};
  const auto threads = std::min(static_cast<std::size_t>(sizes.batch), usable_processors().size());
  const bool done = engine != nullptr && pays(sizes, transposed_frame_of(window), moved, threads) &&
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
template void convolve_anywhere(const ConvSizes&, ProductEngine*, const double*, const double*, double*);
template void convolve_anywhere(const ConvSizes&, ProductEngine*, const float*, const float*, float*);
template void convolve_transposed_anywhere(const ConvSizes&, ProductEngine*, const double*, const double*,
                                           double*);
template void convolve_transposed_anywhere(const ConvSizes&, ProductEngine*, const float*, const float*,
                                           float*);

}  // namespace lathe::ops

#pragma once

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "task/ops/support/gemm.h"
#include "task/ops/support/window.h"
#include "task/products.h"

namespace lathe::ops {

/// Sizes of a convolution x [batch, groups * inputs, ...] by w [groups * outputs, inputs,
/// kernel...].
struct ConvSizes {
  Window window;
  std::int64_t batch = 1;
  std::int64_t groups = 1;
  std::int64_t inputs = 1;   ///< input channels of a group
  std::int64_t outputs = 1;  ///< output channels of a group

  std::int64_t taps() const { return Window::volume(window.kernel); }
};

/// Visits every (tap, position, input element) of one channel for the rows [first, last) of
/// positions, a row being the innermost axis: visit(tap, index of the position within those rows,
/// offset in the input).
template <class Visit>
void for_each_tap(const Window& window, std::int64_t first, std::int64_t last, Visit visit) {
  const Window::Extents& k = window.kernel;
  std::int64_t tap = 0;
  for (std::int64_t a = 0; a < k[0]; ++a) {
    for (std::int64_t b = 0; b < k[1]; ++b) {
      for (std::int64_t c = 0; c < k[2]; ++c, ++tap) {
        for (std::int64_t row = first; row < last; ++row) {
          const std::int64_t x = window.source(0, row / window.out[1], a);
          const std::int64_t y = window.source(1, row % window.out[1], b);
          if (!window.inside(0, x) || !window.inside(1, y)) continue;
          const std::int64_t line = (x * window.in[1] + y) * window.in[2];
          for (std::int64_t i = 0; i < window.out[2]; ++i) {
            const std::int64_t z = window.source(2, i, c);
            if (window.inside(2, z)) visit(tap, (row - first) * window.out[2] + i, line + z);
          }
        }
      }
    }
  }
}

/// The number of rows of positions whose unrolled columns take about 16 MB.
inline std::int64_t rows_per_chunk(const Window& window, std::int64_t column_height) {
  const std::int64_t rows = window.out[0] * window.out[1];
  return std::clamp<std::int64_t>((std::int64_t{1} << 21) / (column_height * window.out[2]), 1, rows);
}

/// The number of multiplications of either direction.
inline double multiplications(const ConvSizes& sizes) {
  return static_cast<double>(sizes.batch * sizes.groups * Window::volume(sizes.window.out)) *
         static_cast<double>(sizes.inputs * sizes.outputs * sizes.taps());
}

/// y[o, p] = sum over channels c and taps t of w[o, c, t] x[c, tap t of p]: unrolls columns
/// (im2col) and multiplies, parts of images in parallel.
template <class T>
void convolve(const ConvSizes& sizes, const T* x, const T* w, T* y) {
  const Window& window = sizes.window;
  const std::int64_t height = sizes.inputs * sizes.taps();
  const std::int64_t plane = Window::volume(window.in);
  const std::int64_t positions = Window::volume(window.out);
  const std::int64_t rows = window.out[0] * window.out[1];
  const std::int64_t chunk = rows_per_chunk(window, height), chunks = (rows + chunk - 1) / chunk;
  for_each_job(sizes.batch * sizes.groups * chunks, multiplications(sizes), [&](std::int64_t job) {
    const std::int64_t image = job / chunks, group = image % sizes.groups;
    const std::int64_t first = job % chunks * chunk, last = std::min(rows, first + chunk);
    const std::int64_t width = (last - first) * window.out[2];
    std::vector<T> columns(static_cast<std::size_t>(height * width));
    for (std::int64_t c = 0; c < sizes.inputs; ++c) {
      const T* channel = x + (image * sizes.inputs + c) * plane;
      T* to = columns.data() + c * sizes.taps() * width;
      for_each_tap(window, first, last, [&](std::int64_t tap, std::int64_t position, std::int64_t offset) {
        to[tap * width + position] = channel[offset];
      });
    }
    gemm(static_cast<std::size_t>(sizes.outputs), static_cast<std::size_t>(width),
         static_cast<std::size_t>(height),
         MatrixView<T>{w + group * sizes.outputs * height, static_cast<std::size_t>(height), 1},
         MatrixView<T>{columns.data(), static_cast<std::size_t>(width), 1},
         y + image * sizes.outputs * positions + first * window.out[2], static_cast<std::size_t>(positions));
  });
}

/// The adjoint with respect to x: scatters x [batch, groups * outputs, positions] through w [groups
/// * outputs, inputs, ...] into y [batch, groups * inputs, in...], images in parallel. The window
/// is that of the forward convolution.
template <class T>
void convolve_transposed(const ConvSizes& sizes, const T* x, const T* w, T* y) {
  const Window& window = sizes.window;
  const std::int64_t height = sizes.inputs * sizes.taps();
  const std::int64_t plane = Window::volume(window.in);
  const std::int64_t positions = Window::volume(window.out);
  const std::int64_t rows = window.out[0] * window.out[1];
  const std::int64_t chunk = rows_per_chunk(window, height);
  for_each_job(sizes.batch * sizes.groups, multiplications(sizes), [&](std::int64_t image) {
    const std::int64_t group = image % sizes.groups;
    std::fill_n(y + image * sizes.inputs * plane, sizes.inputs * plane, T(0));
    std::vector<T> columns;
    for (std::int64_t first = 0; first < rows; first += chunk) {
      const std::int64_t last = std::min(rows, first + chunk);
      const std::int64_t width = (last - first) * window.out[2];
      columns.resize(static_cast<std::size_t>(height * width));
      gemm(static_cast<std::size_t>(height), static_cast<std::size_t>(width),
           static_cast<std::size_t>(sizes.outputs),
           MatrixView<T>{w + group * sizes.outputs * height, 1, static_cast<std::size_t>(height)},
           MatrixView<T>{x + image * sizes.outputs * positions + first * window.out[2],
                         static_cast<std::size_t>(positions), 1},
           columns.data(), static_cast<std::size_t>(width));
      for (std::int64_t c = 0; c < sizes.inputs; ++c) {
        T* channel = y + (image * sizes.inputs + c) * plane;
        const T* from = columns.data() + c * sizes.taps() * width;
        for_each_tap(window, first, last, [&](std::int64_t tap, std::int64_t position, std::int64_t offset) {
          channel[offset] += from[tap * width + position];
        });
      }
    }
  });
}

/// The buffers of a GatheredProduct.
template <class T>
struct Gathered {
  std::size_t m;
  std::vector<T> a, images;
  std::size_t image_count;
  std::vector<std::int64_t> rows, columns;

  GatheredProduct<T> product(T* c) const { return {m, a.data(), images, image_count, rows, columns, c}; }
};

/// convolve() of one group as a product.
template <class T>
Gathered<T> gather_convolution(const ConvSizes& sizes, const T* x, const T* w);
/// convolve_transposed() of one group: a convolution of the input with zeros between its elements.
template <class T>
Gathered<T> gather_transposed(const ConvSizes& sizes, const T* x, const T* w);

/// convolve() and convolve_transposed(), on the engine if there is one and it pays off; on its
/// failure and otherwise on this machine's processors.
template <class T>
void convolve_fastest(const ConvSizes& sizes, ProductEngine* engine, const T* x, const T* w, T* y);
template <class T>
void convolve_transposed_fastest(const ConvSizes& sizes, ProductEngine* engine, const T* x, const T* w, T* y);

/// The number of multiplications that an engine would take over; may be 0.
double engine_multiplications(const ConvSizes& sizes);

}  // namespace lathe::ops

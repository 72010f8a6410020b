#pragma once

#include <vector>

#include "task/ops/support/convolve.h"
#include "task/products.h"

namespace lathe::ops {

/// What a GatheredProduct is made of.
template <class T>
struct Gathered {
  std::size_t m;
  std::vector<T> a, images;
  std::size_t image_count;
  std::vector<std::int64_t> rows, columns;

  GatheredProduct<T> product(T* c) const { return {m, a.data(), images, image_count, rows, columns, c}; }
};

/// convolve() of one group.
template <class T>
Gathered<T> gather_convolution(const ConvSizes& sizes, const T* x, const T* w);
/// convolve_transposed() of one group: a convolution of the input with zeros between its elements.
template <class T>
Gathered<T> gather_transposed(const ConvSizes& sizes, const T* x, const T* w);

/// As convolve() and convolve_transposed() do, by the engine where there is one, it pays and it works.
template <class T>
void convolve_anywhere(const ConvSizes& sizes, ProductEngine* engine, const T* x, const T* w, T* y);
template <class T>
void convolve_transposed_anywhere(const ConvSizes& sizes, ProductEngine* engine, const T* x, const T* w,
                                  T* y);

/// Multiplications that an engine takes over, if any.
double engine_multiplications(const ConvSizes& sizes);

}  // namespace lathe::ops

#pragma once

#include "policy/catalog/emit/program.h"
#include "policy/catalog/emit/site.h"

namespace lathe::catalog {

/// Loops over elements and, in passes, reductions over the same axes: maps, softmax, norms, sums,
/// argmax.
Status emit_nest(const Site& site, Program& program);
/// Sliding maxima and means, lanes along the output's rows.
Status emit_pool(const Site& site, Program& program);
/// Running sums and products.
Status emit_scan(const Site& site, Program& program);
/// Copies: concat, slice, pad, flip, gather.
Status emit_move(const Site& site, Program& program);
Status emit_unfold(const Site& site, Program& program);
Status emit_cpu_fold(const Site& site, Program& program);

/// Linear interpolation along the axes behind the second, lanes along the output's rows.
Status emit_resample(const Site& site, Program& program);
/// Rows that go where an index says, and sums of neighbouring rows between offsets.
Status emit_segments(const Site& site, Program& program);

/// Lines in order, many side by side or one by its digits.
Status emit_cpu_sort(const Site& site, Program& program);
/// Means, maxima or first elements of windows that differ in length, one axis at a time.
Status emit_cpu_windows(const Site& site, Program& program);
/// Transpositions and other permutations of axes, through registers.
Status emit_cpu_permute(const Site& site, Program& program);
/// Packed, register-tiled matrix products with an elementwise epilogue.
Status emit_cpu_contraction(const Site& site, Program& program);
/// The same of fp64 and whole numbers, without an epilogue, and of rows by group.
Status emit_exact_contraction(const Site& site, Program& program);
Status emit_grouped_contraction(const Site& site, Program& program);
/// Direct convolutions and transposed ones on register tiles, with an elementwise epilogue.
Status emit_cpu_convolution(const Site& site, Program& program);

/// Transpositions and other permutations of axes, through shared memory.
Status emit_cuda_permute(const Site& site, Program& program);
/// Matrix products on tensor cores: one block, or one cluster of blocks, a tile of the result.
Status emit_cuda_contraction(const Site& site, Program& program);
/// A convolution, one thread an element of the result.
Status emit_cuda_convolution(const Site& site, Program& program);

}  // namespace lathe::catalog

#pragma once

#include <span>

#include "gym/bench_shape.h"

namespace lathe {

/// About how many bytes it takes to prepare the shapes: the trials that stay, and what as many
/// references need on the way as `threads` evaluate at a time.
double preparation_bytes(const Reference& reference, std::span<const BenchShape> shapes, int threads);

/// An error where preparing the shapes would need more than `available` bytes: it names the scored
/// shape that needs most, and what to do.
Status check_preparation_memory(const Reference& reference, std::span<const BenchShape> shapes, int threads,
                                std::int64_t available);

}  // namespace lathe

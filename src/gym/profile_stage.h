#pragma once

#include "gym/bench_shape.h"

namespace lathe {

/// Counts what one call does at a shape that was timed, and names its bottlenecks. What cannot be
/// had is a note: a profile never decides about a candidate.
ShapeProfile profile_shape(Backend& backend, const Candidate& candidate, const Artifact& artifact,
                           const BenchShape& shape, double call_ns);

}  // namespace lathe

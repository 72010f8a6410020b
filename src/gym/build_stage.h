#pragma once

#include <span>

#include "gym/verify.h"

namespace lathe {

/// A candidate compiled for every shape it will meet.
struct BuiltCandidate {
  Candidate candidate;
  Finding finding;  ///< of the build
  BuildFacts facts;
  std::vector<Artifact> artifacts;  ///< one a shape; equal where no constant differs
};

/// Checks the plan and compiles for each shape. Runs on a build worker; never times anything.
BuiltCandidate build_for_shapes(Backend& backend, const Candidate& candidate,
                                std::span<const BenchShape> shapes);

}  // namespace lathe

#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"
#include "candidate/candidate.h"
#include "candidate/dialect.h"

namespace lathe {

/// A peer that every claim is made against. It is an ordinary candidate, so it is built, verified and timed
/// by the same machinery as everything else.
struct Baseline {
  std::string name;  ///< "naive" or a library's: "onednn", "cudnn"
  Candidate candidate;
};

/// One loop nest a node, intermediates in scratch buffers, compiled with -O3 -march=native: what a careful
/// but unambitious person would write. Every op has an emitter. The text is parametric in the task's dims.
/// For a GPU each work item becomes a thread.
Result<Candidate> naive_candidate(const TaskSpec& task, Dialect dialect = Dialect::kCpu);

/// The naive build and, for each library that implements at least one node of the task, a candidate whose
/// `node` steps use it (fused where the library has the fused primitive) and whose other nodes are naive.
/// Restricted to task.baselines if that is not empty; the naive build is always there and comes first.
Result<std::vector<Baseline>> make_baselines(const TaskSpec& task, Dialect dialect = Dialect::kCpu);

}  // namespace lathe

#pragma once

#include <span>

#include "baseline/vendor_groups.h"
#include "candidate/candidate.h"

namespace lathe {

/// A candidate that computes `groups` by library calls and every other node by its naive kernel.
/// Errors: an op without a naive emitter.
Result<Candidate> compose_candidate(const TaskSpec& task, std::span<const VendorGroup> groups,
                                    const std::string& name, Dialect dialect = Dialect::kCpu);

}  // namespace lathe

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/random.h"
#include "record/experience.h"

namespace lathe {

/// A candidate text and where it came from.
struct Proposal {
  std::string text;
  Lineage lineage;
  double predicted_ns = 0;  ///< by the policy's cost model; 0 when it has none
};

/// What a policy may look at. `exemplars` are passed candidates, best first.
struct PolicyContext {
  const TaskSpec& task;
  const DeviceInfo& device;
  const DevicePeaks& peaks;
};

/// Proposes kernels. Stateless between calls except for its configuration: all memory is in the arguments, so
/// a resumed run proposes what the uninterrupted one would have. Calls may be slow; they are thread-safe.
class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::string name() const = 0;
  /// `count` fresh proposals, most promising first; fewer if the policy has no more.
  virtual Result<std::vector<Proposal>> propose(const PolicyContext& context, int count, Rng& rng) = 0;
  /// One proposal at random, independent of all others: what a search is compared with.
  virtual Result<Proposal> draw(const PolicyContext& context, Rng& rng) = 0;
  /// A changed version of `parent`; of `parent` and `mate` together if mate is not null.
  virtual Result<Proposal> vary(const PolicyContext& context, const Experience& parent,
                                const Experience* mate, Rng& rng) = 0;
  /// The behaviour cell of a candidate for MAP-Elites: small integers, equal for kernels of one kind.
  virtual std::vector<int> behaviour(const PolicyContext& context, const Candidate& candidate) = 0;
};

}  // namespace lathe

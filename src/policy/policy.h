#pragma once

#include <functional>
#include <memory>
#include <optional>
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
  double predicted_ns = 0;                    ///< by the policy's cost model; 0 when it has none
  std::optional<Generation> generation = {};  ///< where a model wrote the text
  /// Why its author knows that the text is no candidate.
  std::optional<Error> unreadable = {};
};

/// What kernels are proposed for.
struct PolicyContext {
  std::shared_ptr<const TaskSpec> task;
  DeviceInfo device;
  DevicePeaks peaks;
};

struct ProposalRequest {
  PolicyContext context;
  History history = {};  ///< what the author may know, in the order of evaluation
  HistoryUse use = HistoryUse::kBest;
  int count = 1;
  bool independent = false;  ///< each is drawn without regard to the others and to the history: a control
  Seed seed = {};
  std::optional<double> temperature = {};  ///< of a model's sampling, instead of the policy's own
  std::int64_t group = 0;                  ///< of the proposals, as in Generation
  std::int64_t turn = 0;
  CancelToken cancel = {};  ///< once raised, the answer does not matter any more
};

/// Names a request of one policy.
using ProposalTicket = std::int64_t;

/// At most `count` proposals, most promising first; none: the policy has no more.
struct Proposed {
  ProposalTicket ticket = 0;
  Result<std::vector<Proposal>> proposals;
};

/// Changes kernels, which only a policy can that knows how they were made.
class Variation {
 public:
  virtual ~Variation() = default;
  virtual Result<Proposal> mutate(const PolicyContext& context, const Experience& parent, Rng& rng) = 0;
  virtual Result<Proposal> cross(const PolicyContext& context, const Experience& parent,
                                 const Experience& mate, Rng& rng) = 0;
  /// The behaviour cell of a candidate for MAP-Elites: small integers, equal for kernels of one
  /// kind.
  virtual std::vector<int> cell(const Candidate& candidate) = 0;
};

/// A kernel of one to three changes of `first`, made one after another.
Result<Proposal> vary(Variation& variation, const PolicyContext& context, const Experience& first, Rng& rng);

/// Proposes kernels. Writing one may take minutes, so requests are asked and answers polled, by one
/// owner. Stateless between requests except for its configuration: all memory is in the request, so
/// a resumed run proposes what the uninterrupted one would have.
class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::string name() const = 0;
  virtual ProposalTicket ask(ProposalRequest request) = 0;
  /// The next answer; waits at most so long. nullopt: none came in time, or none is under way.
  virtual std::optional<Proposed> poll(double timeout_seconds) = 0;
  /// nullptr: it only writes afresh.
  virtual Variation* variation() { return nullptr; }
};

using ProposeFunction = std::function<Result<std::vector<Proposal>>(const ProposalRequest&)>;

enum class RunsOn {
  kCaller,  ///< within ask(): for what takes milliseconds
  kThread   ///< on one thread of the policy's own, request by request
};

/// Makes a policy of a function. With kThread its destructor raises the cancel tokens of requests
/// under way and waits for the one that is being answered.
std::unique_ptr<Policy> make_policy(std::string name, ProposeFunction propose, RunsOn where,
                                    std::shared_ptr<Variation> variation = nullptr);

/// Asks a policy that has nothing else to answer, and waits.
Result<std::vector<Proposal>> propose_now(Policy& policy, ProposalRequest request);

}  // namespace lathe

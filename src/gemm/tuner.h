#pragma once

#include <future>
#include <map>

#include "base/cancel.h"
#include "base/events.h"
#include "gemm/journal.h"
#include "gemm/kernel_builder.h"

namespace lathe::gemm {

struct TuneOptions {
  std::vector<Size> sizes;
  Track track;
  double seconds = 0;           ///< no new size is begun after that; 0: no limit
  std::size_t screened = 36;    ///< kernels that the model proposes for a size
  std::size_t winners = 8;      ///< choices of the most similar sizes that are screened besides
  std::size_t neighbours = 20;  ///< kernels near the best of those
  std::size_t finals = 4;       ///< kernels, and candidates of cuBLASLt, that meet in the end
  int repeats = 200;            ///< runs of the winner whose bits are compared
  bool vendors = true;          ///< choose among cuBLASLt's candidates too, in the same rounds
  std::vector<Choice> learned;  ///< of earlier runs, of any GPU: `winners` come from these too
};

struct TuneReport {
  int tuned = 0, known = 0, kernels_built = 0, kernels_refused = 0;
  double seconds = 0;
  double waited_seconds = 0;  ///< for the compiler; else kernels are built while others are measured
  double verified_seconds = 0;
};

/// For each size: what the model ranks highest and what won at similar sizes is screened in few
/// short rounds, then what lies near the best of those; few meet the fastest of cuBLASLt's
/// candidates in longer rounds; the fastest that passes every check is the choice. Sizes that the
/// journal knows are skipped. They are taken in an order of which each beginning is spread over
/// all, so that a run whose time ends has some of each kind.
class Tuner {
 public:
  Tuner(Device& device, Compile compile, Journal& journal, EventSink& events);

  /// Errors are the device's: the journal has what was found before.
  Result<TuneReport> run(const TuneOptions& options, const CancelToken& cancel);

 private:
  struct Entrant {
    Plan plan;
    std::string name;
    Contender id = 0;
    double ns = 0;
    std::future<Result<Build>> inspected = {};  ///< of those in the finals
  };

  /// A size between its two screenings.
  struct Screened {
    Size size;
    std::vector<Entrant> entrants;  ///< the fastest first
    std::vector<Plan> near;         ///< to be screened next, and being built
    int tried = 0;
    double seconds = 0;
  };

  std::vector<Plan> proposals(const Size& size, const TuneOptions& options) const;
  /// Of the choices made so far and learned, the nearest size's first.
  std::vector<Plan> winners_near(const Size& size, const TuneOptions& options) const;
  Result<Screened> screen_proposals(const Size& size, const TuneOptions& options);
  /// Of a size whose choices were all wrong, a new screening has what they hid.
  Result<Choice> choose(Screened screened, const TuneOptions& options);
  Result<Choice> choose_once(Screened screened, const TuneOptions& options);
  /// As many of cuBLASLt's as meet the kernels in the finals.
  Result<std::vector<VendorContender>> screen_vendors(const Size& size, const TuneOptions& options);
  Status keep(const Result<Choice>& choice);
  void build_ahead(const std::vector<Plan>& plans, KernelBuilder::Urgency urgency);
  Status load(const std::vector<Plan>& plans);
  Result<Build> wait_for(const Plan& plan);
  /// Disassembles it while others are measured.
  std::future<Result<Build>> inspect(const Entrant& one) const;
  /// The machine code, then the results.
  Status verify(const Size& size, Entrant& one, int repeats);
  /// Those of `plans` that build and run, timed.
  Result<std::vector<Entrant>> screen(const Size& size, const std::vector<Plan>& plans);

  Device& device_;
  Compile compile_;
  Journal& journal_;
  EventSink& events_;
  KernelBuilder builder_;
  std::map<std::string, Contender> loaded_;
  TuneReport report_;
};

/// Whether a build may be used, from its facts. Errors: kInvalid with the reason "wrong_code" for
/// spills, a stack and products that wait for one another, "tampered" for sums in fp16 under a name
/// that claims fp32.
Status check_code(const Build& build, const Plan& plan);

/// In how many knobs two plans differ.
int distance(const Plan& a, const Plan& b);

}  // namespace lathe::gemm

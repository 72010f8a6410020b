#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/statistics.h"
#include "task/expr.h"

namespace lathe {

enum class Outcome { kPass, kBuildFailed, kWrong, kCrash, kTimeout, kTampered, kSuspect, kInfra };
std::string_view name(Outcome outcome);  ///< "PASS", "BUILD_FAILED", ...
Result<Outcome> parse_outcome(std::string_view name);

enum class Depth { kBuild, kVerify, kScreen, kFinal, kProfile };
std::string_view name(Depth depth);
Result<Depth> parse_depth(std::string_view name);

/// The compiled form of a candidate for one set of constants.
struct Artifact {
  Digest key;         ///< of source, constants, compiler version, flags, target
  std::string bytes;  ///< ELF shared object or cubin; empty for a plan of library nodes only
};

/// What the compiler and the static checks said.
struct BuildFacts {
  std::string log;  ///< warnings and errors, at most 16 KiB
  double seconds = 0;
  std::int64_t code_bytes = 0;
  std::map<std::string, double> facts = {};  ///< "spills", "vector_width", "fma_share", ...
};

/// One verification case: a shape and a distribution.
struct CaseEvidence {
  std::string shape;  ///< "rows=4096,cols=1024"; "hidden" shapes are named after the verdict is made
  std::string distribution;
  bool hidden = false;
  bool pass = true;
  std::string reason;
  double worst_ratio = 0;  ///< error / tolerance
  double rms_error = 0;
};

struct Evidence {
  std::vector<CaseEvidence> cases;
};

/// Time of a kernel at one scored shape.
struct Timing {
  std::string shape;
  double median_ns = 0;
  double spread = 0;  ///< relative median absolute deviation
  int pairs = 0;
  int processes = 0;  ///< fresh processes and allocations that contributed
};

/// Speedup against one named baseline at one shape: t_baseline / t_candidate.
struct Speedup {
  std::string baseline;
  std::string shape;
  Interval ratio;
  bool ambiguous = false;  ///< the interval is wider than the depth promises; never touches correctness
  /// What the least time that the device's measured peaks allow would gain over the baseline: the
  /// roof's own speedup. 0: not known.
  double roof = 0;
};

/// What holds a kernel back: a roof that it is near, or a reason why it is near none.
struct Bottleneck {
  std::string name;  ///< "dram_bound", "latency_bound", ... (docs/cuda.md)
  double share = 0;  ///< of the roof that is reached, or of the time that is lost
  std::string detail;
};

/// What one call does to the device at one scored shape. Information about a kernel, never a
/// judgement: the candidate's own context was asked.
struct ShapeProfile {
  std::string shape;
  std::map<std::string, double> counters;  ///< by the names of docs/cuda.md
  std::vector<Bottleneck> bottlenecks;     ///< the strongest first
  std::vector<std::string> notes;          ///< what could not be had, and what would help
};

/// What a verdict was reached with. Fields that are not known are empty, as in records of older
/// versions.
struct Provenance {
  std::string device_kind;  ///< "cpu", "cuda", "host:cpu", "fake"
  std::string device_name;
  std::string device_uuid;  ///< of one GPU; empty for a device that has none
  std::string driver;
  std::string compiler;
  std::string gym_version;
  std::string jail;  ///< "full", or "reduced": without namespaces; empty in older verdicts
  /// "DEV", or "HOST": the candidate brought its own host code; empty in older verdicts.
  std::string tier = {};

  bool operator==(const Provenance&) const = default;
};

/// What the gym concluded about a candidate. Only the broker makes one. It holds no reward.
struct Verdict {
  Outcome outcome = Outcome::kInfra;
  std::string reason;  ///< a stable code: "ok", "bound", "input_written", "undefined_symbol", ...
  std::string detail;  ///< for people and policies: what, where, how far
  Depth depth = Depth::kVerify;
  Digest candidate;
  Digest task;
  std::int64_t text_bytes = 0;  ///< of the candidate; 0: not known
  BuildFacts build;
  Evidence evidence;
  std::vector<Timing> timings;
  std::vector<Speedup> speedups;
  /// Scored shapes that the candidate's `requires` leaves out. Its speedups there are those of the
  /// best peer, to which the library falls back.
  std::vector<std::string> uncovered = {};
  std::map<std::string, double> profile;        ///< the device while it was timed: clock_mhz, power_w, ...
  std::vector<ShapeProfile> profiles = {};      ///< at depth `profile`
  std::map<std::string, double> stage_seconds;  ///< queue, prepare, build, verify, time, reverify, profile
  Provenance provenance = {};
  std::vector<std::string> unchecked = {};  ///< checks that the tier cannot make, by name

  bool passed() const { return outcome == Outcome::kPass; }
  /// Composed over the scored shapes by geometric mean; nullopt if not timed against `baseline`.
  std::optional<Interval> speedup(std::string_view baseline) const;
  /// The same over the shapes that the candidate covers.
  std::optional<Interval> covered_speedup(std::string_view baseline) const;
  /// Geometric mean over shapes; 0 if not timed.
  double median_ns() const;
};

}  // namespace lathe

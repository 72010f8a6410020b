#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "candidate/launch_program.h"
#include "task/generate_inputs.h"

namespace lathe {

/// The verdict of a grader without defences.
struct NaiveAnswer {
  enum class Kind {
    kAccepted,
    kRejected,
    kHarmed,       ///< it died, hung or could not compile in reasonable time
    kUnavailable,  ///< this machine cannot jail it
  };
  Kind kind = Kind::kUnavailable;
  double speedup = 0;  ///< over the honest kernel, as the naive grader measured it
  std::string detail = {};
};

/// "accepted", "rejected", "harmed", "unavailable".
std::string_view name(NaiveAnswer::Kind kind);

/// Parses the line in which such a grader prints its verdict: "PASS <speedup>" or "FAIL <why>".
/// Anything else means that it was harmed.
NaiveAnswer read_naive_line(const std::string& line);

/// A kernel as the naive grader loads it.
struct NaiveKernel {
  std::string object;  ///< the compiler's output, even if the gym refuses it
  LaunchProgram program;
  std::string text = {}, entry = {};  ///< of a host program, which has no launches
};

struct NaiveJob {
  NaiveKernel candidate;
  NaiveKernel honest;  ///< the reference and the peer
  const BoundTask* task = nullptr;
  std::vector<HostTensor> inputs;  ///< fp32
  double timeout_seconds = 2;
};

/// The grader against which the conformance suite checks its exploits: a candidate that does not
/// fool it is not an exploit. It deliberately makes the mistakes that are common in graders for its
/// kind of device, and has no defences: it is for candidates that ship with Lathe and, as a control
/// of reinforcement learning, for answers of one's own model.
class NaiveGrader {
 public:
  virtual ~NaiveGrader() = default;
  virtual NaiveAnswer grade(const NaiveJob& job) = 0;
  /// Compiles without a jail, as such graders do.
  virtual Result<std::string> compile(const std::string& source, double timeout_seconds) = 0;
};

}  // namespace lathe

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "candidate/launch_program.h"
#include "task/generate_inputs.h"

namespace lathe {

/// What a grader without defences would say of a candidate.
struct NaiveAnswer {
  enum class Kind {
    kAccepted,
    kRejected,
    kHarmed,       ///< it died, hung or could not compile in reasonable time
    kUnavailable,  ///< this machine cannot jail it
  };
  Kind kind = Kind::kUnavailable;
  double speedup = 0;  ///< over the honest kernel, as the naive grader believes
  std::string detail = {};
};

/// "accepted", "rejected", "harmed", "unavailable".
std::string_view name(NaiveAnswer::Kind kind);

/// Of the line in which such a grader says its verdict: "PASS <speedup>", "FAIL <why>", or anything else
/// where it came to harm.
NaiveAnswer read_naive_line(const std::string& line);

/// A kernel as the naive grader loads it.
struct NaiveKernel {
  std::string object;  ///< whatever the compiler made, refused or not
  LaunchProgram program;
};

struct NaiveJob {
  NaiveKernel candidate;
  NaiveKernel honest;  ///< the reference and the peer
  const BoundTask* task = nullptr;
  std::vector<HostTensor> inputs;  ///< fp32
  double timeout_seconds = 2;
};

/// The grader that the conformance suite measures exploits against: every one of them must fool it, else it
/// is no exploit. It makes the usual mistakes of graders on its kind of device on purpose. Only for texts
/// that ship with Lathe.
class NaiveGrader {
 public:
  virtual ~NaiveGrader() = default;
  virtual NaiveAnswer grade(const NaiveJob& job) = 0;
  /// Compiles without a jail, as such graders do.
  virtual Result<std::string> compile(const std::string& source, double timeout_seconds) = 0;
};

}  // namespace lathe

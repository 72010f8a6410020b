#pragma once

#include <string>
#include <vector>

#include "candidate/launch_program.h"

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

/// A kernel as the naive grader loads it.
struct NaiveKernel {
  std::string object;  ///< a shared object, constructors and all
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
/// is no exploit. It makes the usual mistakes on purpose: one process, one set of inputs, memory that keeps
/// the reference's answer, the process's own clock, a reference computed from the buffers that the candidate
/// had, rtol = atol = 0.01 on 99% of the values, and a verdict that is read from standard output. Runs in
/// namespaces with limits, as nobody; safe for the host.
NaiveAnswer grade_naively(const NaiveJob& job);

/// Compiles without a jail, as such graders do. Only for texts that ship with Lathe.
Result<std::string> compile_naively(const std::string& source, double timeout_seconds);

/// "accepted", "rejected", "harmed", "unavailable".
std::string_view name(NaiveAnswer::Kind kind);

}  // namespace lathe

#pragma once

#include <span>
#include <string>
#include <vector>

#include "candidate/launch_program.h"
#include "task/bound_task.h"

namespace lathe {

/// Compiles candidates as the harness does, all into one library for speed, and runs their plans
/// in-process.
class CandidateLibrary {
 public:
  /// Aborts the test program with the compiler's log if the texts do not compile.
  explicit CandidateLibrary(std::vector<Candidate> candidates);
  ~CandidateLibrary();
  CandidateLibrary(const CandidateLibrary&) = delete;
  CandidateLibrary& operator=(const CandidateLibrary&) = delete;

  const Candidate& candidate(std::size_t index) const { return candidates_[index]; }

  /// The outputs' bytes, in the task's order. Each launch is cut into three uneven ranges of items;
  /// outputs and scratch are poisoned and 64-byte aligned.
  Result<std::vector<std::vector<std::byte>>> run(std::size_t index, const BoundTask& task,
                                                  std::span<const HostTensor> inputs) const;

 private:
  std::vector<Candidate> candidates_;
  void* handle_ = nullptr;
};

}  // namespace lathe

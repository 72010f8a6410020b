#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "candidate/launch_program.h"
#include "task/reference.h"
#include "tests/policy/shared_object.h"

namespace lathe {

/// Integers and pointers travel apart from floats in the System V ABI, and a float is the lower
/// half of a double's place, so one type calls every kernel.
using AnyKernel = void(double, double, double, double, double, double, double, double, std::int64_t,
                       std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                       std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                       std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                       std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                       std::int64_t);

/// Candidates compiled together, since the compiler's start costs more than a kernel.
class CandidateRunner {
 public:
  int add(const Candidate& candidate);
  void build();
  /// Runs the whole plan with one call a launch, split in `threads` ranges. Buffers end at a page
  /// that faults; writes outside the outputs abort. Returns the outputs' bytes in order.
  std::vector<std::vector<std::byte>> run(int index, const BoundTask& task,
                                          const std::vector<HostTensor>& inputs, int threads = 1) const;

  /// The least time of one call among blocks of about 1 ms, on one thread with warm caches.
  double best_ns(int index, const BoundTask& task, const std::vector<HostTensor>& inputs,
                 double seconds) const;

 private:
  AnyKernel* find(int index, const std::string& kernel) const;
  std::vector<Candidate> candidates_;
  std::string text_;
  std::unique_ptr<SharedObject> library_;
};

}  // namespace lathe

#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/naive_grading.h"

namespace lathe {

/// What a naive grader is asked of a task's candidates, at the first scored shape and on one set of
/// inputs, as such graders do. May be used by several threads at once, each with its own grader.
class NaiveExam {
 public:
  /// Builds the kernel that speedups are over and answers are compared with. Task and backend must
  /// outlive it.
  static Result<NaiveExam> create(const TaskSpec& task, Backend& backend, const Candidate& honest);

  /// `object` is what the gym's compiler made of the candidate; empty where it refused: then the
  /// grader compiles, without a jail, and the object is kept there.
  NaiveAnswer ask(NaiveGrader& grader, const Candidate& candidate, std::string& object) const;

 private:
  NaiveExam(Backend& backend, BoundTask bound);
  Result<NaiveKernel> kernel(const Candidate& candidate, std::string object) const;

  Backend* backend_;
  std::unique_ptr<const BoundTask> bound_;
  NaiveJob job_;  ///< without a candidate
};

}  // namespace lathe

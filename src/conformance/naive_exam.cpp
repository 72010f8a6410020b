#include "conformance/naive_exam.h"

#include "candidate/launch_program.h"

namespace lathe {
namespace {

constexpr double kCompileSeconds = 3;

}  // namespace

NaiveExam::NaiveExam(Backend& backend, BoundTask bound)
    : backend_(&backend), bound_(std::make_unique<const BoundTask>(std::move(bound))) {}

Result<NaiveExam> NaiveExam::create(const TaskSpec& task, Backend& backend, const Candidate& honest) {
  LATHE_TRY(BoundTask bound, lathe::bind(task, task.shapes.front().dims));
  NaiveExam exam(backend, std::move(bound));
  exam.job_.task = exam.bound_.get();
  exam.job_.inputs = generate_inputs(*exam.bound_, Distribution::kNormal, Seed::from_number(1));
  LATHE_TRY(BuildResult built, backend.build(honest, *exam.bound_));
  LATHE_TRY(exam.job_.honest, exam.kernel(honest, std::move(built.artifact.bytes)));
  return exam;
}

NaiveAnswer NaiveExam::ask(NaiveGrader& grader, const Candidate& candidate, std::string& object) const {
  if (object.empty() && candidate.has_plan()) {
    auto compiled = grader.compile(candidate.text, kCompileSeconds);
    if (!compiled.ok()) return {NaiveAnswer::Kind::kHarmed, 0, compiled.error().message};
    object = *std::move(compiled);
  }
  auto mine = kernel(candidate, object);
  if (!mine.ok()) return {NaiveAnswer::Kind::kRejected, 0, mine.error().message};
  NaiveJob job = job_;
  job.candidate = *std::move(mine);
  return grader.grade(job);
}

Result<NaiveKernel> NaiveExam::kernel(const Candidate& candidate, std::string object) const {
  NaiveKernel kernel{std::move(object)};
  if (!candidate.has_plan()) {
    kernel.text = candidate.text;
    kernel.entry = candidate.host_program().entry;
    return kernel;
  }
  LATHE_TRY(kernel.program, compile_plan(candidate, *bound_, backend_->device().facts));
  return kernel;
}

}  // namespace lathe

#include <cstdio>

#include "base/fd.h"
#include "baseline/baseline.h"
#include "library/export.h"

// export_kernel TASK DEVICE_HEADERS OUT [CANDIDATE]: exports the candidate, with the naive build
// for what it does not serve; without one the naive build. The verdict is only said to have passed.
namespace lathe {
namespace {

Status export_named(const char* task_file, const char* headers, const char* out, const char* candidate_file) {
  LATHE_TRY(const TaskSpec task, load_task(task_file));
  LATHE_TRY(const Candidate naive, naive_candidate(task));
  Candidate candidate = naive;
  if (candidate_file) {
    LATHE_TRY(const std::string text, read_file(candidate_file));
    LATHE_TRY(candidate, parse_candidate(text, candidate_file));
  }
  Verdict verdict;
  verdict.outcome = Outcome::kPass;
  verdict.candidate = candidate.digest;
  return export_kernel({.task = &task,
                        .candidate = &candidate,
                        .verdict = &verdict,
                        .fallback = serves_whole_domain(candidate) ? nullptr : &naive,
                        .device_headers = headers},
                       out);
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) {
  if (argc < 4) return 64;
  const auto done = lathe::export_named(argv[1], argv[2], argv[3], argc > 4 ? argv[4] : nullptr);
  if (!done.ok()) std::fprintf(stderr, "%s\n", done.error().to_string().c_str());
  return done.ok() ? 0 : 1;
}

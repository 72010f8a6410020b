#include "serve/evaluation.h"

namespace lathe::serve {

Digest EvaluationKey::id() const {
  return Hasher()
      .add("lathe.evaluation")
      .add(task.hex())
      .add(candidate.hex())
      .add(lathe::name(depth))
      .add(device_kind)
      .add(gym_version)
      .finish();
}

Report own_report(const NamedReport& named, std::int64_t now_unix_ms) {
  Report report = named.report;
  report.submitted_unix_ms = named.submitted_unix_ms;
  const auto end_at = [&](State state, std::int64_t unix_ms) {
    report.state = state;
    report.finished_unix_ms = unix_ms;
    report.verdict.clear();
    report.error.clear();
  };
  const std::int64_t until = is_final(report.state) ? report.finished_unix_ms : now_unix_ms;
  if (named.cancelled_unix_ms > 0)
    end_at(State::kCancelled, named.cancelled_unix_ms);
  else if (named.deadline_unix_ms > 0 && until > named.deadline_unix_ms)
    end_at(State::kExpired, named.deadline_unix_ms);
  return report;
}

std::string_view name(State state) {
  switch (state) {
    case State::kQueued:
      return "queued";
    case State::kRunning:
      return "running";
    case State::kDone:
      return "done";
    case State::kFailed:
      return "failed";
    case State::kCancelled:
      return "cancelled";
    case State::kExpired:
      return "expired";
  }
  return "";
}

}  // namespace lathe::serve

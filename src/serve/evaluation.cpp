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

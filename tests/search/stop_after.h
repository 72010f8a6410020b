#pragma once

#include "base/cancel.h"
#include "base/events.h"

namespace lathe {

/// Raises the token once so many evaluations are stored.
class StopAfter final : public EventSink {
 public:
  StopAfter(CancelToken stop, int evaluations) : stop_(stop), evaluations_(evaluations) {}
  void on_event(const Event& event) override {
    if (event.kind == "search.progress" && --evaluations_ == 0) stop_.cancel();
  }

 private:
  CancelToken stop_;
  int evaluations_;
};

}  // namespace lathe

#pragma once

#include <atomic>
#include <memory>

namespace lathe {

/// A flag that, once raised, stays raised. Copies share it. Thread-safe and async-signal-safe.
class CancelToken {
 public:
  void cancel() const { state_->raised.store(true, std::memory_order_relaxed); }
  bool cancelled() const {
    for (const State* state = state_.get(); state; state = state->parent.get())
      if (state->raised.load(std::memory_order_relaxed)) return true;
    return false;
  }
  /// A token that is cancelled together with this one, or alone.
  CancelToken child() const {
    CancelToken token;
    token.state_->parent = state_;
    return token;
  }

 private:
  struct State {
    std::atomic<bool> raised{false};
    std::shared_ptr<const State> parent;
  };
  static_assert(std::atomic<bool>::is_always_lock_free);

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace lathe

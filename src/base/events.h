#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

enum class Severity { kDebug, kInfo, kWarning, kError };

/// A progress or log event. `kind` is a stable dotted name ("eval.done"); `fields` are
/// machine-readable, `text` is for display.
struct Event {
  Severity severity = Severity::kInfo;
  std::string kind;
  std::string text;
  std::map<std::string, std::string> fields = {};
};

/// Receives the progress and logs of libraries, which never print; the CLI decides what to show.
/// Implementations must be thread-safe and return quickly.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_event(const Event& event) = 0;
};

class NullSink final : public EventSink {
 public:
  void on_event(const Event&) override {}
};

class RecordingSink final : public EventSink {
 public:
  void on_event(const Event& event) override {
    std::lock_guard lock(mutex_);
    events_.push_back(event);
  }
  std::vector<Event> events() const {
    std::lock_guard lock(mutex_);
    return events_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Event> events_;
};

inline EventSink& null_sink() {
  static NullSink sink;
  return sink;
}

}  // namespace lathe

#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "base/events.h"

namespace lathe::cli {

/// Shows events: on a terminal one line that renews itself, elsewhere a line every few seconds.
/// Warnings get lines of their own. Goes to standard error, so that standard output stays for
/// results. Events belong to the title, but for those whose field "task" names another.
class ProgressLine final : public EventSink {
 public:
  explicit ProgressLine(std::string title = "lathe");
  ~ProgressLine() override;
  void on_event(const Event& event) override;
  /// Ends the line, so that what follows stays below it, and goes on under another title.
  void begin(std::string title);

 private:
  void end_line();
  void show(const std::string& line);
  std::string title_;
  bool terminal_;
  std::mutex mutex_;
  bool line_open_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace lathe::cli

#pragma once

#include <string>

#include "base/events.h"

namespace lathe::cli {

/// Events as lines of JSON in ASCII on standard error, for programs that run unattended.
class JsonLog final : public EventSink {
 public:
  /// `process` stands in every line; events below `least` are left out.
  explicit JsonLog(std::string process, Severity least = Severity::kInfo)
      : process_(std::move(process)), least_(least) {}
  void on_event(const Event& event) override;

 private:
  const std::string process_;
  const Severity least_;
};

}  // namespace lathe::cli

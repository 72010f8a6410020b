#pragma once

#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "base/events.h"

namespace lathe {

/// Prints each case when it ends, because a suite that takes minutes should not be silent.
class PrintingSink final : public EventSink {
 public:
  void on_event(const Event& event) override {
    std::printf("%s\n", event.text.c_str());
    std::fflush(stdout);
  }
};

/// LATHE_CONFORMANCE_ONLY="late_write zeros" runs two cases; without it all of them run.
inline std::vector<std::string> chosen_cases() {
  const char* const text = std::getenv("LATHE_CONFORMANCE_ONLY");
  std::istringstream words(text ? text : "");
  return {std::istream_iterator<std::string>(words), {}};
}

}  // namespace lathe

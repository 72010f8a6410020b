#include "base/events.h"

#include <gtest/gtest.h>

#include <thread>

namespace lathe {
namespace {

TEST(RecordingSink, KeepsEveryEventOfEveryThread) {
  RecordingSink sink;
  const auto report = [&](const char* kind) {
    for (int i = 0; i < 500; ++i) sink.on_event({Severity::kInfo, kind, "text"});
  };
  std::thread other(report, "b");
  report("a");
  other.join();
  std::map<std::string, int> counts;
  for (const Event& event : sink.events()) ++counts[event.kind];
  EXPECT_EQ(counts, (std::map<std::string, int>{{"a", 500}, {"b", 500}}));
}

TEST(NullSink, TakesEvents) { null_sink().on_event({Severity::kError, "x", "nobody hears"}); }

}  // namespace
}  // namespace lathe

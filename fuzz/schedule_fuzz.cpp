#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "candidate/candidate.h"
#include "policy/catalog/schedule_language.h"

/// Whatever a model answers in the schedule language is a candidate, or an error with a place.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto task = std::make_shared<const lathe::TaskSpec>(*lathe::parse_task(R"toml(
name = "softmax"
dims = { rows = [1, 512], cols = [1, 512] }
tensor = [{ name = "x", shape = ["rows", "cols"] }]
graph = "y = softmax(x)"
shape = [{ rows = 64, cols = 96 }]
)toml",
                                                                                      "softmax.toml"));
  static const auto language = lathe::make_schedule_language();
  const std::string_view answer(reinterpret_cast<const char*>(data), size);
  const auto text = language->candidate({task, {}, {}}, answer);
  if (!text.ok() && text.error().message.empty()) std::abort();
  if (text.ok() && !lathe::parse_candidate(*text, "schedule").ok()) std::abort();
  return 0;
}

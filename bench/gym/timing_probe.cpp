#include "bench/gym/timing_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "baseline/baseline.h"

namespace lathe {
namespace {

constexpr const char* kTask = R"toml(
name = "timing_probe"
description = "The naive build against itself."
dims = {{ rows = [1, 4096], cols = [1, 4096] }}
tensor = [{{ name = "x", shape = ["rows", "cols"] }}]
graph = "y = gelu(x)"
baselines = ["naive"]
[[shape]]
name = "timed"
rows = {}
cols = {}
)toml";

}  // namespace

Result<TaskSpec> timing_task(Dialect dialect) {
  const bool gpu = dialect == Dialect::kCuda;
  return parse_task(gpu ? fmt::format(kTask, 2048, 1024) : fmt::format(kTask, 100, 256), "timing_probe.toml");
}

Result<std::string> timing_probe(const TaskSpec& task, Dialect dialect, int extra_percent, int copy) {
  LATHE_TRY(const Candidate naive, naive_candidate(task, dialect));
  std::string text = naive.text + fmt::format("// copy {}\n", copy);
  if (extra_percent == 0) return text;
  const std::string begins = "extern \"C\" void naive_y(";
  const std::size_t at = text.find(begins), end = text.find(')', at);
  if (at == std::string::npos || end == std::string::npos)
    return invalid("the naive build has another signature");
  const std::string parameters = text.substr(at + begins.size(), end - at - begins.size());
  std::vector<std::string> arguments;
  for (std::size_t from = 0; from < parameters.size();) {
    const std::size_t comma = std::min(parameters.find(',', from), parameters.size());
    const std::size_t name = parameters.find_last_of(" *", comma - 1) + 1;
    arguments.push_back(parameters.substr(name, comma - name));
    from = comma + 1;
  }
  if (arguments.size() != 4) return invalid("the naive build has another signature: " + parameters);
  text.replace(at, begins.size(), "__attribute__((noinline)) static void once(");
  text +=
      fmt::format("{}{}) {{\n  once({}, {}, {}, {});\n  once({}, {}, {}, {} + ({} - {}) * {} / 100);\n}}\n",
                  begins, parameters, arguments[0], arguments[1], arguments[2], arguments[3], arguments[0],
                  arguments[1], arguments[2], arguments[2], arguments[3], arguments[2], extra_percent);
  return text;
}

}  // namespace lathe

#include "task/generate/generate.h"

#include <fmt/format.h>

#include "task/generate/task_builder.h"
#include "task/lint/lint.h"

namespace lathe {
namespace {

constexpr std::uint64_t kAttempts = 200;

/// Lint draws random inputs; a second independent run makes passing by luck unlikely.
bool is_sound(const TaskSpec& spec, const Seed& seed) {
  for (std::uint64_t i = 0; i < 2; ++i) {
    const Result<LintReport> report = lint(spec, seed.derive("lint", i));
    if (!report.ok() || !report->sound()) return false;
  }
  return true;
}

}  // namespace

Result<std::string> generate_task(std::uint64_t seed, const GenerateOptions& options) {
  if (options.min_nodes < 1 || options.max_nodes < options.min_nodes || options.max_nodes > 64 ||
      options.max_elements < 4096) {
    return invalid("impossible generator options", "1 <= min_nodes <= max_nodes <= 64, max_elements >= 4096");
  }
  const Seed root = Seed::from_number(seed).derive("task generator");
  const std::string name = fmt::format("generated_{}", seed);
  Error last;
  for (std::uint64_t attempt = 0; attempt < kAttempts; ++attempt) {
    const Seed own = root.derive("attempt", attempt);
    Rng rng(own);
    std::string text = sample_task(rng, options).to_toml(name);
    const Result<TaskSpec> spec = parse_task(text, name + ".toml");
    if (!spec.ok()) {
      last = spec.error();
      continue;
    }
    if (is_sound(*spec, own)) return text;
  }
  return Error{ErrorCode::kInternal, fmt::format("no sound task in {} attempts", kAttempts),
               last.to_string()};
}

}  // namespace lathe

#include "train/naive_witness.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/process.h"
#include "record/json.h"
#include "record/json_lines.h"

namespace lathe::train {
namespace {

using nlohmann::json;

constexpr double kSeconds = 600;
constexpr std::size_t kMostBytes = std::size_t{64} << 20;

/// The numbers of lines that `lathe policy naive` wrote; none where it could not ask.
Result<std::vector<std::optional<double>>> read_speedups(std::string_view lines) {
  std::vector<std::optional<double>> speedups;
  LATHE_CHECK_OK(for_each_json_line(lines, "lathe policy naive", [&](const json& line) -> Status {
    speedups.emplace_back();
    if (line.value("naive", "") != "unavailable") speedups.back() = line.value("naive_speedup", 0.0);
    return Ok{};
  }));
  return speedups;
}

}  // namespace

NaiveWitness::NaiveWitness(rl::Gym& gym, NaiveWitnessOptions options)
    : gym_(gym), options_(std::move(options)) {}

Result<std::vector<Verdict>> NaiveWitness::judge(std::span<const Question> questions, const Seed& seed) {
  LATHE_TRY(std::vector<Verdict> verdicts, gym_.judge(questions, seed));
  std::string lines;
  std::vector<std::size_t> asked;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    if (questions[i].unreadable != nullptr) {
      verdicts[i].profile[rl::kNaiveSpeedup] = 0;
      continue;
    }
    lines += json_text({{"task", gym_.task_name(questions[i].task)}, {"text", questions[i].text}}) + "\n";
    asked.push_back(i);
  }
  if (asked.empty()) return verdicts;
  const Command command{{options_.program, "policy", "naive", "-", "--tasks", options_.tasks, "--device",
                         options_.device, "--out", "-"}};
  LATHE_TRY(const Completed done, run_command(command, lines, kSeconds, kMostBytes));
  if (!done.status.ok())
    return Error{ErrorCode::kUnavailable,
                 fmt::format("lathe policy naive ended with {}: {}", done.status.to_string(), done.errors),
                 "naive = \"off\" trains without it"};
  LATHE_TRY(const std::vector<std::optional<double>> speedups, read_speedups(done.output));
  if (speedups.size() != asked.size())
    return Error{ErrorCode::kInternal, fmt::format("lathe policy naive answered {} of {} questions",
                                                   speedups.size(), asked.size())};
  for (std::size_t i = 0; i < asked.size(); ++i)
    if (speedups[i]) verdicts[asked[i]].profile[rl::kNaiveSpeedup] = *speedups[i];
  return verdicts;
}

}  // namespace lathe::train

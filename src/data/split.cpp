#include "data/split.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "task/lint/lint.h"

namespace lathe {
namespace {

constexpr std::uint64_t kHeldOutPercent = 15;
constexpr int kMaxTries = 8;

/// "M = 512" with another extent, where `line` gives one to a dim.
std::string with_other_extent(std::string_view line, const TaskSpec& task, Rng& rng) {
  const std::size_t equals = line.find(" = ");
  if (equals == std::string_view::npos) return std::string(line);
  const std::string dim(line.substr(0, equals));
  const auto range = task.dim_ranges.find(dim);
  const auto scored = task.shapes.front().dims.find(dim);
  if (range == task.dim_ranges.end() || scored == task.shapes.front().dims.end()) return std::string(line);
  const std::int64_t least = std::max(range->second.low, scored->second / 8);
  const std::int64_t extent =
      least + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(scored->second - least + 1)));
  return fmt::format("{} = {}", dim, extent);
}

}  // namespace

std::string_view name(Split split) {
  switch (split) {
    case Split::kTrain:
      return "train";
    case Split::kShapes:
      return "shapes";
    case Split::kCompositions:
      return "compositions";
  }
  return "train";
}

std::string composition_of(const TaskSpec& task) {
  std::vector<std::string> operations;
  for (const NodeDecl& node : task.nodes) operations.push_back(node.op_name);
  std::ranges::sort(operations);
  return fmt::format("{}", fmt::join(operations, "+"));
}

bool is_held_out(std::string_view composition) {
  const Digest digest = Hasher().add("data.composition").add(composition).finish();
  return Rng(Seed{digest.bytes}).below(100) < kHeldOutPercent;
}

Result<std::string> reshape(const TaskSpec& task, Rng& rng, const std::string& name) {
  for (int i = 0; i < kMaxTries; ++i) {
    std::string text;
    bool in_shape = false;
    for (std::size_t at = 0; at < task.text.size();) {
      const std::size_t end = std::min(task.text.find('\n', at), task.text.size());
      const std::string_view line = std::string_view(task.text).substr(at, end - at);
      at = end + 1;
      in_shape |= line == "[[shape]]";
      if (line.starts_with("name = ") && !in_shape)
        text += fmt::format("name = \"{}\"", name);
      else
        text += in_shape ? with_other_extent(line, task, rng) : std::string(line);
      text += '\n';
    }
    const auto reshaped = parse_task(text, name + ".toml");
    if (!reshaped.ok() || reshaped->shapes.front().dims == task.shapes.front().dims) continue;
    const auto report = lint(*reshaped, Seed::from_number(rng.below(1u << 30)));
    if (report.ok() && report->sound()) return text;
  }
  return invalid("no other extents were found for task " + task.name);
}

Result<std::string> reshape_for_exam(const TaskSpec& task, std::uint64_t seed, int index) {
  Rng rng(Seed::from_number(seed).derive("data.exam", static_cast<std::uint64_t>(index)));
  return reshape(task, rng, task.name + "_reshaped");
}

}  // namespace lathe

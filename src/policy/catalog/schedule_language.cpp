#include "policy/catalog/schedule_language.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "policy/catalog/device_target.h"
#include "policy/catalog/schedule_grammar.h"
#include "policy/catalog/schedule_text.h"

namespace lathe {
namespace {

using catalog::Emission;
using catalog::Graph;
using catalog::Slot;

struct Meaning {
  std::string_view knob, text;
};
constexpr std::array kMeanings = std::to_array<Meaning>({
    {"fuse", "1 joins operations into few kernels, 0 keeps each in a kernel of its own"},
    {"fixed", "1 compiles the dims in"},
    {"team", "threads that share an item of work"},
    {"vector", "neighbouring elements of a thread"},
    {"chain", "1 starts a kernel's blocks while the one before ends"},
    {"unroll", "vectors that are computed at once"},
    {"stream", "stores, or loads too, pass by the caches"},
    {"cache", "1 keeps costly values of a row between its passes"},
    {"keep", "vectors of a row that stay in registers between passes"},
    {"early", "1 reads all that is kept before anything is computed"},
    {"online", "1 takes maximum and sum in one pass over the row"},
    {"depth", "teams that share a reduction"},
    {"warps", "warps of a block that shares columns"},
    {"join", "how shares of a reduction are joined"},
    {"rows", "rows of a block or of a thread"},
    {"ahead", "rows that are read before they are needed"},
    {"tile", "rows and columns of a tile"},
    {"warpgroups", "1 multiplies by warpgroups what maps can describe"},
    {"flat", "1 gives each element a thread, whatever its row"},
    {"split", "blocks that share the inner dimension"},
    {"kc", "depth of a block of the product"},
    {"mc", "register tiles of a block of rows"},
    {"nc", "output channels of a block"},
    {"pack_a", "1 copies A into panels first"},
    {"pack_b", "1 copies B into panels first"},
    {"few_rows", "up to so many rows B is read in place"},
    {"few_columns", "up to so many columns are dot products"},
    {"loop_epilogue", "1 applies what follows the product in a loop of its own"},
    {"block", "size of the block that is transposed at once"},
    {"order", "1 walks columns first"},
    {"threads", "threads of a block"},
    {"copy", "how stretches of memory are copied"},
});

/// "row_reduce cache=0|1* unroll=1|2|4*|8". Of `given` knobs the value alone.
std::string listed(const Emission& emission, const catalog::Schedule& given, std::set<std::string>& names) {
  std::string text;
  for (const auto& line : catalog::schedule_lines(emission)) {
    std::string row = line.pattern;
    for (const Slot& slot : line.slots) {
      row += (row.empty() ? "" : " ") + slot.name + "=";
      if (given.contains(slot.knob)) row += std::to_string(slot.value);
      for (std::size_t i = 0; i < slot.allowed.size() && !given.contains(slot.knob); ++i)
        row += fmt::format("{}{}{}", i > 0 ? "|" : "", slot.allowed[i],
                           slot.allowed[i] == slot.value ? "*" : "");
      names.insert(slot.name);
    }
    text += row + "\n";
  }
  return text;
}

/// The text of the last fenced block, or all of it.
std::string_view unfenced(std::string_view answer) {
  constexpr std::string_view kFence = "```";
  std::size_t close = answer.rfind(kFence);
  if (close == std::string_view::npos) return answer;
  std::size_t open = close == 0 ? std::string_view::npos : answer.rfind(kFence, close - 1);
  if (open == std::string_view::npos) open = std::exchange(close, answer.size());  // it is not closed
  const std::size_t line = answer.find('\n', open);
  return line < close ? answer.substr(line + 1, close - line - 1) : std::string_view();
}

class ScheduleLanguage final : public ActionLanguage {
 public:
  std::string_view name() const override { return "schedule"; }

  Result<std::optional<Wording>> wording(const PolicyContext& context) const override {
    const catalog::Target target = catalog::target_of(context.device);
    LATHE_TRY(const Graph graph, catalog::lower_for(*context.task, target));
    LATHE_TRY(const Emission usual, catalog::compile(graph, {}, nullptr, target));
    std::set<std::string> names;
    std::string space = "```\n" + listed(usual, {}, names) + "```\n";
    if (usual.space.contains("fuse")) {
      const catalog::Schedule given = {{"fuse", 0}};
      LATHE_TRY(const Emission apart, catalog::compile(graph, given, nullptr, target));
      space += "With fuse=0 instead:\n```\n" + listed(apart, given, names) + "```\n";
    }
    std::string meanings;
    for (const auto& [knob, text] : kMeanings)
      if (names.contains(std::string(knob))) meanings += fmt::format("- {}: {}\n", knob, text);
    Wording wording{.variant = "schedule"};
    wording.format = {{"space", space}, {"meanings", meanings}, {"example", catalog::schedule_text(usual)}};
    wording.shown = [graph = std::make_shared<const Graph>(graph), task = context.task,
                     target](const Experience& experience) { return shown(*graph, target, experience); };
    return std::optional(std::move(wording));
  }

  Result<std::string> candidate(const PolicyContext& context, std::string_view answer) const override {
    const catalog::Target target = catalog::target_of(context.device);
    LATHE_TRY(const Graph graph, catalog::lower_for(*context.task, target));
    LATHE_TRY(Emission emission, catalog::read_schedule(graph, unfenced(answer), target));
    return std::move(emission.text);
  }

  Result<std::string> carry_over(const PolicyContext& context, const TaskSpec&,
                                 std::string_view answer) const override {
    const catalog::Target target = catalog::target_of(context.device);
    LATHE_TRY(const Graph graph, catalog::lower_for(*context.task, target));
    LATHE_TRY(const Emission emission, catalog::adapt_schedule(graph, unfenced(answer), target));
    return catalog::schedule_text(emission);
  }

  Result<std::shared_ptr<const TextGrammar>> grammar(const PolicyContext& context) const override {
    const catalog::Target target = catalog::target_of(context.device);
    LATHE_TRY(const Graph graph, catalog::lower_for(*context.task, target));
    LATHE_TRY(TextGrammar grammar, catalog::schedule_grammar(graph, target));
    return std::make_shared<const TextGrammar>(std::move(grammar));
  }

  std::vector<std::string> stop_texts() const override { return {}; }

 private:
  /// Of a kernel of the catalogue its schedule; of any other text the text.
  static std::string shown(const Graph& graph, const catalog::Target& target, const Experience& experience) {
    const auto candidate = parse_candidate(experience.candidate_text, "attempt");
    if (!candidate.ok() || !candidate->has_plan()) return experience.candidate_text;
    const auto emission =
        catalog::compile(graph, catalog::parse_schedule(candidate->plan().knobs), nullptr, target);
    return emission.ok() ? catalog::schedule_text(*emission) : experience.candidate_text;
  }
};

}  // namespace

std::shared_ptr<const ActionLanguage> make_schedule_language() {
  return std::make_shared<ScheduleLanguage>();
}

}  // namespace lathe

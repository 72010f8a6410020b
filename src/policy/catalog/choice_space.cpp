#include "policy/catalog/choice_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "candidate/candidate.h"
#include "policy/catalog/compile.h"
#include "policy/catalog/device_target.h"

namespace lathe {
namespace {

using catalog::Emission;
using catalog::Graph;
using catalog::Schedule;

constexpr const char* kFuse = "fuse";

float log_of(double amount) { return static_cast<float>(std::log2(1 + amount)); }

KernelTraits traits_of(const catalog::Work& work) {
  return {log_of(work.bytes), log_of(work.flops), log_of(work.special)};
}

class ScheduleSpace final : public ChoiceSpace {
 public:
  ScheduleSpace(std::shared_ptr<const TaskSpec> task, Graph graph, const catalog::Target& target)
      : task_(std::move(task)), graph_(std::move(graph)), target_(target) {}

  /// The sizes of kernels by the usual schedule, for each way to split the task into kernels.
  Status measure() {
    for (const int fuse : {0, 1}) {
      LATHE_TRY(const Emission usual, emit({{kFuse, fuse}}));
      for (const catalog::Work& work : usual.work) traits_[fuse].push_back(traits_of(work));
    }
    return Ok{};
  }

  Result<std::optional<ChoiceSite>> next(std::span<const int> taken) const override {
    LATHE_TRY(const Walk walk, follow(taken));
    return site_of(walk.emission, walk.at);
  }

  Result<std::string> text(std::span<const int> taken) const override {
    LATHE_TRY(Walk walk, follow(taken));
    return std::move(walk.emission.text);
  }

  Result<std::vector<int>> choices_of(const std::string& text) const override {
    LATHE_TRY(const Candidate candidate, parse_candidate(text, "kernel"));
    if (!candidate.has_plan() || candidate.plan().knobs.empty())
      return invalid("the kernel does not say its knobs", "only the catalogue's kernels are choices");
    LATHE_TRY(const Emission emission, emit(catalog::parse_schedule(candidate.plan().knobs)));
    std::vector<int> taken;
    for (const std::string& knob : emission.order)
      if (emission.space.at(knob).size() > 1) taken.push_back(emission.schedule.at(knob));
    return taken;
  }

 private:
  /// An emission, of whose knobs those before `at` are decided.
  struct Walk {
    Emission emission;
    std::size_t at = 0;
  };

  Result<Emission> emit(const Schedule& schedule) const {
    return catalog::compile(graph_, schedule, nullptr, target_);
  }

  static std::size_t next_open(const Emission& emission, std::size_t at) {
    while (at < emission.order.size() && emission.space.at(emission.order[at]).size() < 2) ++at;
    return at;
  }

  Result<Walk> follow(std::span<const int> taken) const {
    Schedule schedule;
    LATHE_TRY(Emission emission, emit(schedule));
    std::size_t at = next_open(emission, 0);
    for (const int value : taken) {
      if (at == emission.order.size()) return invalid("more choices than there are decisions");
      const std::string knob = emission.order[at];
      if (std::ranges::find(emission.space.at(knob), value) == emission.space.at(knob).end())
        return invalid(fmt::format("{} cannot be {}", knob, value));
      schedule[knob] = value;
      if (emission.schedule.at(knob) != value) {
        LATHE_TRY(emission, emit(schedule));
      }
      at = next_open(emission, at + 1);
    }
    return Walk{std::move(emission), at};
  }

  std::optional<ChoiceSite> site_of(const Emission& emission, std::size_t at) const {
    if (at == emission.order.size()) return std::nullopt;
    const std::string& knob = emission.order[at];
    ChoiceSite site{.knob = knob, .allowed = emission.space.at(knob), .usual = emission.schedule.at(knob)};
    const std::size_t dot = knob.find('.');
    int kernel = 0;
    if (knob.starts_with('g') && dot != std::string::npos &&
        std::from_chars(knob.data() + 1, knob.data() + dot, kernel).ptr == knob.data() + dot) {
      const auto fuse = emission.schedule.find(kFuse);
      const auto& sizes = traits_[fuse == emission.schedule.end() ? 1 : fuse->second];
      const auto index = static_cast<std::size_t>(kernel);
      site.kernel = kernel;
      site.knob = knob.substr(dot + 1);
      site.pattern = emission.patterns[index];
      if (index < sizes.size()) site.traits = sizes[index];
    }
    return site;
  }

  std::shared_ptr<const TaskSpec> task_;  // the graph refers to it
  Graph graph_;
  catalog::Target target_;
  std::array<std::vector<KernelTraits>, 2> traits_;  ///< [fuse][kernel]
};

}  // namespace

Result<std::unique_ptr<ChoiceSpace>> make_schedule_space(const PolicyContext& context) {
  LATHE_TRY(Graph graph, catalog::lower(*context.task));
  auto space =
      std::make_unique<ScheduleSpace>(context.task, std::move(graph), catalog::target_of(context.device));
  LATHE_CHECK_OK(space->measure());
  return std::unique_ptr<ChoiceSpace>(std::move(space));
}

}  // namespace lathe

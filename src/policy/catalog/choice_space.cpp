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

/// What the catalogue makes of a task's schedules.
class Schedules {
 public:
  Schedules(std::shared_ptr<const TaskSpec> task, Graph graph, const catalog::Target& target)
      : task_(std::move(task)), graph_(std::move(graph)), target_(target) {}

  Result<Emission> emit(const Schedule& schedule) const {
    return catalog::compile(graph_, schedule, nullptr, target_);
  }

  /// The usual schedule; notes the sizes of its kernels, for each way to split the task into
  /// kernels.
  Result<Emission> measure() {
    for (const int fuse : {0, 1}) {
      LATHE_TRY(const Emission usual, emit({{kFuse, fuse}}));
      for (const catalog::Work& work : usual.work) traits_[fuse].push_back(traits_of(work));
    }
    return emit({});
  }

  /// The decision about `knob`, which has two values or more.
  ChoiceSite site_of(const Emission& emission, const std::string& knob) const {
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

 private:
  std::shared_ptr<const TaskSpec> task_;  // the graph refers to it
  Graph graph_;
  catalog::Target target_;
  std::array<std::vector<KernelTraits>, 2> traits_;  ///< [fuse][kernel]
};

class ScheduleWalk final : public ChoiceWalk {
 public:
  ScheduleWalk(const Schedules& schedules, Emission usual)
      : schedules_(schedules), emission_(std::move(usual)) {
    open_next();
  }

  std::unique_ptr<ChoiceWalk> clone() const override { return std::make_unique<ScheduleWalk>(*this); }
  const std::optional<ChoiceSite>& site() const override { return site_; }
  const std::string& text() const override { return emission_.text; }
  /// The open decision's, as a schedule names it.
  const std::string& knob() const { return emission_.order[at_]; }

  Status take(int value) override {
    if (!site_) return invalid("more choices than there are decisions");
    const std::string knob = emission_.order[at_];
    if (std::ranges::find(site_->allowed, value) == site_->allowed.end())
      return invalid(fmt::format("{} cannot be {}", knob, value));
    schedule_[knob] = value;
    if (emission_.schedule.at(knob) != value) {
      LATHE_TRY(emission_, schedules_.emit(schedule_));
    }
    ++at_;
    open_next();
    return Ok{};
  }

 private:
  void open_next() {
    while (at_ < emission_.order.size() && emission_.space.at(emission_.order[at_]).size() < 2) ++at_;
    site_.reset();
    if (at_ < emission_.order.size()) site_ = schedules_.site_of(emission_, emission_.order[at_]);
  }

  const Schedules& schedules_;
  Schedule schedule_;  ///< what is decided
  Emission emission_;
  std::size_t at_ = 0;  ///< the knobs before it are decided
  std::optional<ChoiceSite> site_;
};

class ScheduleSpace final : public ChoiceSpace {
 public:
  ScheduleSpace(Schedules schedules, Emission usual)
      : schedules_(std::move(schedules)), usual_(std::move(usual)) {}

  std::unique_ptr<ChoiceWalk> begin() const override {
    return std::make_unique<ScheduleWalk>(schedules_, usual_);
  }

  Result<std::vector<TakenChoice>> decisions_of(const std::string& text) const override {
    LATHE_TRY(const Candidate candidate, parse_candidate(text, "kernel"));
    if (!candidate.has_plan() || candidate.plan().knobs.empty())
      return invalid("the kernel does not say its knobs", "only the catalogue's kernels are choices");
    const Schedule knobs = catalog::parse_schedule(candidate.plan().knobs);
    ScheduleWalk walk(schedules_, usual_);
    std::vector<TakenChoice> taken;
    while (walk.site()) {
      const ChoiceSite site = *walk.site();
      const auto said = knobs.find(walk.knob());
      const int value = said == knobs.end() ? site.usual : said->second;
      LATHE_CHECK_OK(walk.take(value));
      taken.emplace_back(site, value);
    }
    if (walk.text() != text) return invalid("the catalogue's kernel of these knobs is another");
    return taken;
  }

 private:
  Schedules schedules_;
  Emission usual_;
};

}  // namespace

Result<std::unique_ptr<ChoiceSpace>> make_schedule_space(const PolicyContext& context) {
  const catalog::Target target = catalog::target_of(context.device);
  LATHE_TRY(Graph graph, catalog::lower_for(*context.task, target));
  Schedules schedules(context.task, std::move(graph), target);
  LATHE_TRY(Emission usual, schedules.measure());
  return std::unique_ptr<ChoiceSpace>(
      std::make_unique<ScheduleSpace>(std::move(schedules), std::move(usual)));
}

}  // namespace lathe

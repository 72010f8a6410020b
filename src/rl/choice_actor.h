#pragma once

#include <optional>

#include "policy/choice_net.h"
#include "rl/actor.h"
#include "rl/table.h"

namespace lathe::rl {

struct ChoiceActorOptions {
  int hidden = 32;
  /// Bits of the weights that rollouts are drawn with, to make the mismatch that engines of few bits bring;
  /// 0: the weights that are trained.
  int rollout_bits = 0;
};

/// A network that decides schedules of a table's tasks, choice by choice, among the rows that were measured:
/// each token is the place of a value among its decision's. Learns by Adam. `table` must outlive it.
class ChoiceActor final : public Actor {
 public:
  ChoiceActor(const ScheduleTable& table, const Seed& seed, const ChoiceActorOptions& options);

  Result<std::vector<Answer>> sample(std::span<const Prompt> prompts, const Seed& seed) override;
  Result<std::vector<std::vector<double>>> log_probabilities(
      std::span<const PromptedAnswer> answers) override;
  Result<double> add_gradient(std::span<const PromptedAnswer> answers,
                              std::span<const std::vector<double>> by_log_probability,
                              double entropy) override;
  double update(double learning_rate, double clip_norm) override;
  std::string save() const override;
  Status restore(const std::string& state) override;
  std::string weights() const override { return net_.to_text(); }

  /// The most likely row.
  Answer greedy(const Prompt& prompt) const;

 private:
  using Taken = std::vector<std::pair<ChoiceSite, int>>;

  /// Draws with `rng`; without one takes the likeliest.
  Answer walk(const ChoiceNet& net, const Prompt& prompt, Rng* rng) const;
  std::vector<ShownChoices> shown(const Prompt& prompt) const;
  ChoiceNet rollout_net() const;
  /// Calls visit(token, view, log-probabilities of the values, what was taken) at each decision.
  template <class Visit>
  void replay(const PromptedAnswer& answer, Visit visit) const;

  const ScheduleTable& table_;
  ChoiceActorOptions options_;
  ChoiceNet net_;
  std::vector<double> gradient_, first_moment_, second_moment_;
  std::int64_t updates_ = 0;
};

}  // namespace lathe::rl

#pragma once

#include <map>
#include <optional>

#include "policy/choice_net.h"
#include "rl/actor.h"
#include "rl/table.h"

namespace lathe::rl {

struct ChoiceActorOptions {
  int hidden = 32;
  /// Bits of the weights that rollouts are drawn with, to make the mismatch that engines of few
  /// bits bring; 0: the weights that are trained.
  int rollout_bits = 0;
  /// Above 0: a row's probability is softmax(the sum of its decisions' scores / temperature), and a
  /// score is what a decision adds to the logarithm of a speedup. 0: each decision's scores are a
  /// distribution over its values, as drawing them one after another needs.
  double joint_temperature = 0;
};

/// A network that decides schedules, choice by choice. On a table it decides among the rows: a row
/// is as likely as the network finds it among all schedules, divided by what it finds all rows
/// together, so every decision counts, however few schedules were measured. An answer's tokens are
/// the values of decisions at which rows part. Learns by Adam. `table` must outlive it.
class ChoiceActor final : public Actor {
 public:
  ChoiceActor(const ScheduleTable& table, const Seed& seed, const ChoiceActorOptions& options);

  Result<std::vector<Answer>> sample(std::span<const Prompt> prompts, const Seed& seed,
                                     const OnAnswer& on_answer = {}) override;
  Result<std::vector<std::vector<double>>> log_probabilities(
      std::span<const PromptedAnswer> answers) override;
  /// A copy of the network, which save() has too.
  Status keep_reference() override;
  Result<std::vector<std::vector<double>>> reference_log_probabilities(
      std::span<const PromptedAnswer> answers) override;
  Result<double> add_gradient(std::span<const PromptedAnswer> answers,
                              std::span<const std::vector<double>> by_log_probability,
                              double entropy) override;
  Result<double> update(double learning_rate, double clip_norm) override;
  /// The most likely row.
  Result<Answer> greedy(const Prompt& prompt) override;
  /// All rows' texts, the likeliest first.
  std::vector<std::string> ranked(const Prompt& prompt);
  /// Adds the gradient of `weight` times the cross-entropy at which this policy stands to the
  /// task's rows, of which each is wanted with the probability softmax(log(its speedup's lower
  /// bound) / temperature), and none that failed. Returns the relative entropy, in nats; 0 where
  /// all failed.
  double add_imitation_gradient(std::size_t task, double temperature, double weight);
  Result<std::string> save(const std::string& folder) override;
  Status restore(const std::string& state, const std::string& folder) override;
  /// As `folder`/weights.json.
  Status write_result(const std::string& folder) const override;

  std::string weights() const { return net_.to_text(); }

 private:
  using TaskInputs = std::vector<std::vector<ChoiceInput>>;  ///< [node][value]

  /// What the network makes of a task's tree under one prompt.
  struct Scored {
    std::size_t task = 0;
    TaskInputs shown_inputs;                   ///< with examples; without any: none
    std::vector<std::vector<double>> decided;  ///< [node][value], over all that is allowed: terms of rows
    std::vector<double> rows;                  ///< logarithm of each row's probability among rows
    std::vector<double> masses;                ///< of each node: of all rows below it
  };
  /// Calls step(node, value, where it leads) from the root to a row.
  template <class Choose, class Step>
  const TableRow& walk(const Scored& scored, Choose choose, Step step) const;
  template <class Choose>
  Answer answer_of(const Scored& scored, Choose choose) const;

  const TaskInputs& inputs(const Scored& scored) const {
    return scored.shown_inputs.empty() ? inputs_[scored.task] : scored.shown_inputs;
  }
  Scored score(const ChoiceNet& net, const Prompt& prompt) const;
  const Scored& scored(const Prompt& prompt);  ///< by the weights that are trained
  /// Of the tokens of an answer.
  std::vector<double> log_probabilities(const Scored& scored, const Answer& answer) const;
  void add_rows_gradient(const Scored& scored, const std::vector<double>& by_row);
  std::vector<ShownChoices> shown(const Prompt& prompt) const;
  ChoiceNet rollout_net() const;

  const ScheduleTable& table_;
  ChoiceActorOptions options_;
  ChoiceNet net_;
  std::optional<ChoiceNet> reference_;
  std::vector<TaskInputs> inputs_;       ///< [task], without examples
  std::map<std::string, Scored> known_;  ///< by prompt, until the weights change
  std::vector<double> gradient_, first_moment_, second_moment_;
  std::int64_t updates_ = 0;
};

}  // namespace lathe::rl

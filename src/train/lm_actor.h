#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "lm/local_engine.h"
#include "rl/actor.h"
#include "train/crew.h"
#include "train/example.h"
#include "train/learner.h"
#include "train/lm_tasks.h"

namespace lathe::train {

struct LmActorOptions {
  std::int64_t tokens_at_once = 16384;  ///< of a forward and backward pass
  std::int32_t answers_at_once = 64;    ///< that the engine draws side by side
  std::int64_t longest_prompt = 0;      ///< tokens, where later prompts are longer than first ones
  AdamW optimizer = {.beta2 = 0.999};
  std::string base_name = {};  ///< of the model, for the adapter's card
  /// Answers may be judged while others are written: elsewhere, or on this device by turns.
  bool judged_meanwhile = false;
  /// Waits for a turn on a device where others time kernels; whatever computes there holds what it
  /// gives. Empty: nobody times anything there while the actor computes.
  std::function<std::shared_ptr<void>()> take_turn = {};
  /// Where other processes learn with this one; both outlive the actor.
  const Links* links = nullptr;
  Reducer* reducer = nullptr;
};

/// A language model that answers to the tasks of a gym. Its engine draws tokens at temperature 1
/// with the weights as they are trained, under the task's grammar where it has one, and the learner
/// finds the same tokens' probabilities, under the same grammar or among the whole vocabulary.
///
/// Under a grammar the entropy is that of the distributions from which the tokens were drawn,
/// summed over an answer: its mean over answers is the entropy of answers, its gradient leaves out
/// that other beginnings become likelier. Without one it is estimated as -log p of the answers
/// themselves, and has no gradient.
class LmActor final : public rl::Actor {
 public:
  /// Errors: kInvalid for a model without a tokenizer, for tasks without prompts, and for prompts
  /// that are longer than the model's context or a pass.
  static Result<std::unique_ptr<LmActor>> create(std::shared_ptr<const LmTasks> tasks, Learner learner,
                                                 TextCoding coding, const LmActorOptions& options);

  Result<std::vector<rl::Answer>> sample(std::span<const rl::Prompt> prompts, const Seed& seed,
                                         const OnAnswer& on_answer = {}) override;
  Result<std::vector<std::vector<double>>> log_probabilities(
      std::span<const rl::PromptedAnswer> answers) override;
  /// A copy of the adapter, or of the whole model where all of it is trained. No state has it: who
  /// restores a run makes the actor as it was made first, and keeps its reference before.
  Status keep_reference() override;
  Result<std::vector<std::vector<double>>> reference_log_probabilities(
      std::span<const rl::PromptedAnswer> answers) override;
  Result<double> add_gradient(std::span<const rl::PromptedAnswer> answers,
                              std::span<const std::vector<double>> by_log_probability,
                              double entropy) override;
  Result<double> update(double learning_rate, double clip_norm) override;
  Result<rl::Answer> greedy(const rl::Prompt& prompt) override;
  Result<std::string> save(const std::string& folder) override;
  Status restore(const std::string& state, const std::string& folder) override;
  /// As `folder`/adapter or `folder`/model.
  Status write_result(const std::string& folder) const override;

  Learner& learner() { return learner_; }

 private:
  /// A task as the model reads and writes it.
  struct Written {
    std::vector<TokenId> prompt;                    ///< that shows no earlier kernels
    std::shared_ptr<const TokenAutomaton> grammar;  ///< null: any tokens
    std::vector<std::string> stop_texts;
    std::int32_t most_tokens = 0;  ///< of an answer
  };
  /// Equal answers to a prompt are computed once.
  struct Key {
    std::size_t task = 0;
    std::vector<TokenId> prompt, answer;

    auto operator<=>(const Key&) const = default;
    std::int64_t length() const { return static_cast<std::int64_t>(prompt.size() + answer.size()); }
  };
  /// What the weights make of an answer's tokens.
  struct Known {
    std::vector<double> log_probabilities, entropies;
  };

  LmActor(std::shared_ptr<const LmTasks> tasks, Learner learner, TextCoding coding,
          const LmActorOptions& options)
      : tasks_(std::move(tasks)),
        learner_(std::move(learner)),
        coding_(std::move(coding)),
        options_(options),
        crew_(learner_, {.links = options.links, .reducer = options.reducer}) {}
  Status write_tasks();
  Result<Written> write(std::size_t task) const;
  Result<std::vector<TokenId>> tokens_of(const rl::Prompt& prompt) const;
  Result<std::vector<TokenId>> asked(const rl::Prompt& prompt);
  Result<std::vector<Key>> keys_of(std::span<const rl::PromptedAnswer> answers);

  class Turn;
  Status follow();      ///< the engine takes the learner's weights
  Status rest() const;  ///< until nothing computes any more
  Result<std::vector<rl::Answer>> draw(std::span<const rl::Prompt> prompts, const Seed& seed,
                                       const OnAnswer& on_answer);
  Result<GenerationRequest> request_of(const rl::Prompt& prompt);
  Result<rl::Answer> answer_of(std::size_t task, const Sample& sample) const;

  /// Keys by passes of at most tokens_at_once.
  std::vector<std::vector<const Key*>> passes(const std::vector<const Key*>& keys) const;
  AnswerPass pass_of(std::span<const Key* const> keys) const;
  AnswerPass::Allowed allowed_in(std::span<const Key* const> keys) const;
  using Knowledge = std::map<Key, Known>;
  /// Computes what is not known yet.
  Status find_out(Weights whose, std::span<const Key> keys, Knowledge& known);
  Result<std::vector<std::vector<double>>> log_probabilities(Weights whose,
                                                             std::span<const rl::PromptedAnswer> answers,
                                                             Knowledge& known);

  std::shared_ptr<const LmTasks> tasks_;
  Learner learner_;
  TextCoding coding_;
  LmActorOptions options_;
  Crew crew_;
  std::vector<Written> written_;  ///< [task]
  TokenId end_ = 0;

  std::shared_ptr<lm::Decoder> drawing_;  ///< the engine's weights
  std::unique_ptr<Engine> engine_;
  bool engine_is_behind_ = true;
  Knowledge known_;  ///< by the weights that are trained, until they change
  std::map<std::tuple<std::size_t, HistoryUse, History>, std::vector<TokenId>> asked_;  ///< as long
  std::int64_t updates_ = 0;
  std::string kept_;  ///< the file of the state that was saved or restored last
};

}  // namespace lathe::train

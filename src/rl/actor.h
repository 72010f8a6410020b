#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "record/experience.h"

namespace lathe::rl {

/// What an actor is asked: a task, by its number in the gym, and what it may know of it.
struct Prompt {
  std::size_t task = 0;
  History shown = {};
  HistoryUse use = HistoryUse::kBest;
};

/// What it wrote.
struct Answer {
  std::string text;  ///< what the gym judges
  std::vector<std::int32_t> tokens;
  std::vector<double> log_probabilities;  ///< of each token when it was sampled
  std::string written = {};               ///< all of the answer, where `text` is a part of it
  bool cut = false;                       ///< it had not ended when it was as long as it may be
  /// Why its author knows that it means nothing that can be judged: a failure.
  std::optional<Error> unreadable = {};
};

struct PromptedAnswer {
  const Prompt* prompt = nullptr;
  const Answer* answer = nullptr;
};

/// A policy whose weights learn. A loss reaches it as its derivatives by tokens' log-probabilities,
/// so estimators, filters and losses are the same for a network of a few thousand weights and for a
/// language model. One thread.
class Actor {
 public:
  virtual ~Actor() = default;
  using OnAnswer = std::function<void(std::size_t prompt, const Answer& answer)>;
  /// One answer to each prompt; the same seed gives the same answers. Nothing of the actor computes
  /// on a device any more when it returns: kernels may be timed there until the next call. An actor
  /// that leaves others their turns there tells of each answer once it has ended.
  virtual Result<std::vector<Answer>> sample(std::span<const Prompt> prompts, const Seed& seed,
                                             const OnAnswer& on_answer = {}) = 0;
  /// Of each answer's tokens, by the weights that are trained.
  virtual Result<std::vector<std::vector<double>>> log_probabilities(
      std::span<const PromptedAnswer> answers) = 0;
  /// Makes the weights as they are the reference. A restored run has the one that it began with:
  /// restore() brings it back, or finds it as this call left it before.
  virtual Status keep_reference() = 0;
  /// As log_probabilities(), by the reference; only after keep_reference().
  virtual Result<std::vector<std::vector<double>>> reference_log_probabilities(
      std::span<const PromptedAnswer> answers) = 0;
  /// Adds the gradient of a loss with the derivatives `by_log_probability`, and of - `entropy`
  /// times the mean entropy of the distributions that the answers were drawn from. Returns that
  /// mean.
  virtual Result<double> add_gradient(std::span<const PromptedAnswer> answers,
                                      std::span<const std::vector<double>> by_log_probability,
                                      double entropy) = 0;
  /// Takes an optimiser's step and clears the gradient. Returns its norm before it was clipped to
  /// `clip_norm` (0: it is not).
  virtual Result<double> update(double learning_rate, double clip_norm) = 0;
  /// The answer of the most likely tokens.
  virtual Result<Answer> greedy(const Prompt& prompt) = 0;

  /// Weights and the optimiser's state: restored, a run goes on bit by bit. Many numbers are put
  /// into a file of `folder`, which the state names and which stays until the save after the next
  /// one, so that the state before is whole until this one is kept.
  virtual Result<std::string> save(const std::string& folder) = 0;
  virtual Status restore(const std::string& state, const std::string& folder) = 0;
  /// Leaves what a policy loads in `folder`.
  virtual Status write_result(const std::string& folder) const = 0;
};

/// In a verdict's profile, where a naive grader was asked too: what it took the kernel's speedup
/// for, 0 if it refused it.
inline constexpr const char* kNaiveSpeedup = "naive_speedup";

/// Judges answers to tasks that it numbers.
class Gym {
 public:
  virtual ~Gym() = default;
  virtual std::size_t tasks() const = 0;
  virtual std::string_view task_name(std::size_t task) const = 0;
  /// A task's operations, sorted, "bias_add+matmul+relu"; empty where it has no graph.
  virtual std::string composition(std::size_t task) const = 0;
  /// The peer that a task's speedups are over; known once an answer to it has passed.
  virtual std::string_view peer(std::size_t task) const = 0;

  struct Question {
    std::size_t task = 0;
    std::string_view text;
    const Error* unreadable = nullptr;  ///< as the answer's
  };
  /// A hint that answers to these tasks come soon.
  virtual void expect(std::span<const std::size_t> /*tasks*/) {}
  /// A hint that the next judge() has this question among its own: it may be judged from now on.
  virtual void begin(const Question& /*question*/) {}
  /// In the order of the questions. What nothing is known of is INFRA. Errors: kCancelled, and what
  /// keeps the gym from judging anything.
  virtual Result<std::vector<Verdict>> judge(std::span<const Question> questions, const Seed& seed) = 0;
};

}  // namespace lathe::rl

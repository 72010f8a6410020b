#include "rl/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "base/clock.h"
#include "base/fd.h"
#include "base/output.h"
#include "base/visible_text.h"
#include "record/json.h"
#include "record/json_integer.h"
#include "record/json_lines_file.h"
#include "search/contrast.h"

namespace lathe::rl {
namespace {

using nlohmann::json;

constexpr std::size_t kDetailBytes = 300;
constexpr std::size_t kMostKnown = 256;  // kernels of a task that later prompts may show

/// An answer, what it was asked and what became of it.
struct Rollout {
  Prompt prompt;
  Answer answer;
  Turn turn;
  std::shared_ptr<const Attempt> attempt;
  double launched_share = 1;
};

/// Measured kernels of each task that later prompts may show: of equal texts the first measurement,
/// and of too many the latest.
class Exemplars {
 public:
  explicit Exemplars(std::size_t tasks) : known_(tasks) {}

  void add(std::size_t task, const std::shared_ptr<const Attempt>& attempt) {
    std::deque<std::shared_ptr<const Attempt>>& known = known_[task];
    const auto same = [&](const auto& other) {
      return other->experience.candidate == attempt->experience.candidate;
    };
    if (attempt->fitness <= 0 || std::ranges::any_of(known, same)) return;
    known.push_back(attempt);
    if (known.size() > kMostKnown) known.pop_front();
  }

  History draw(std::size_t task, const RlRecipe& recipe, Rng& rng) const {
    const ContrastOptions options{.exemplars = static_cast<int>(recipe.exemplars), .tau = recipe.tau};
    const History all(known_[task].begin(), known_[task].end());
    return draw_exemplars(score_buckets(all, options.bucket_width), options, rng);
  }

  json save() const {
    json tasks = json::array();
    for (const auto& known : known_) {
      json kernels = json::array();
      for (const auto& attempt : known)
        kernels.push_back({attempt->experience.candidate_text, attempt->fitness});
      tasks.push_back(std::move(kernels));
    }
    return tasks;
  }
  void restore(const json& tasks) {
    for (std::size_t t = 0; t < known_.size(); ++t) {
      known_[t].clear();
      for (const json& kernel : tasks.at(t)) {
        Attempt attempt{.experience = {}, .fitness = kernel.at(1).get<double>()};
        attempt.experience.candidate_text = kernel.at(0).get<std::string>();
        attempt.experience.candidate = digest_of(attempt.experience.candidate_text);
        attempt.experience.verdict.depth = Depth::kScreen;
        known_[t].push_back(std::make_shared<const Attempt>(std::move(attempt)));
      }
    }
  }

 private:
  std::vector<std::deque<std::shared_ptr<const Attempt>>> known_;
};

/// What a naive grader thinks of the answer; nullopt: it was not asked.
std::optional<double> naive_speedup(const Verdict& verdict) {
  const auto found = verdict.profile.find(kNaiveSpeedup);
  return found == verdict.profile.end() ? std::nullopt : std::optional(found->second);
}

constexpr std::string_view kNaivePeer = "naive";  // its own reference

/// The verdict that it would give, over that peer.
Verdict naive_verdict(const Verdict& verdict) {
  Verdict naive{.outcome = Outcome::kInfra, .reason = "not_asked", .depth = Depth::kScreen};
  if (const auto speedup = naive_speedup(verdict)) {
    naive.outcome = *speedup > 0 ? Outcome::kPass : Outcome::kWrong;
    naive.reason = *speedup > 0 ? "ok" : "refused";
    if (*speedup > 0)
      naive.speedups.push_back({std::string(kNaivePeer), "scored", {*speedup, *speedup, *speedup}});
  }
  return naive;
}

/// A run on its way.
class Loop {
 public:
  Loop(const RlRun& run, Actor& actor, Gym& gym)
      : run_(run),
        recipe_(run.recipe),
        actor_(actor),
        gym_(gym),
        smoother_(static_cast<std::size_t>(std::max<std::int64_t>(1, run.recipe.smoothing_window))),
        exemplars_(gym.tasks()) {
    for (const std::size_t task : run.tasks) tasks_.push_back({task, kind_of(gym.composition(task))});
  }

  Result<RlOutcome> go() {
    std::int64_t metrics_bytes = 0, samples_bytes = 0;
    if (recipe_.surrogate.kl > 0) LATHE_CHECK_OK(actor_.keep_reference());
    if (run_.resume) LATHE_CHECK_OK(resume(metrics_bytes, samples_bytes));
    LATHE_TRY(JsonLinesFile metrics, JsonLinesFile::open(run_.folder + "/metrics.jsonl", metrics_bytes));
    LATHE_TRY(JsonLinesFile samples, JsonLinesFile::open(run_.folder + "/samples.jsonl", samples_bytes));
    RlOutcome outcome{.steps_done = steps_done_};
    while (steps_done_ < recipe_.steps) {
      StepMetrics step{.step = steps_done_ + 1, .steps = recipe_.steps};
      step.learning_rate = recipe_.schedule().at(steps_done_);
      {
        const Stopwatch watch(step.seconds);
        RewardSmoother before = smoother_;
        const auto rollouts = roll_out(step);
        if (!rollouts.ok()) {
          smoother_ = std::move(before);
          if (steps_done_ > 0) LATHE_CHECK_OK(save(metrics.bytes(), samples.bytes()));
          outcome.cancelled = run_.cancel.cancelled();
          if (outcome.cancelled) return outcome;
          return rollouts.error();
        }
        LATHE_TRY(const auto advantages, learn(*rollouts, step));
        LATHE_CHECK_OK(tell(*rollouts, advantages, samples));
        curriculum_ =
            after_step(std::move(curriculum_), passes_of(*rollouts), tasks_, recipe_.curriculum_options);
      }
      LATHE_CHECK_OK(metrics.write(line_of(step)));
      if (run_.on_step) run_.on_step(step);
      outcome.steps_done = ++steps_done_;
      const bool last = steps_done_ == recipe_.steps;
      outcome.cancelled = run_.cancel.cancelled() && !last;
      if (last || outcome.cancelled || steps_done_ % recipe_.checkpoint_every == 0)
        LATHE_CHECK_OK(save(metrics.bytes(), samples.bytes()));
      if (outcome.cancelled) return outcome;
    }
    LATHE_CHECK_OK(actor_.write_result(run_.folder));
    return outcome;
  }

 private:
  Seed seed(std::string_view label) const {
    return Seed::from_number(recipe_.seed).derive(label, static_cast<std::uint64_t>(steps_done_));
  }

  /// All turns of all sequences of a step, judged and rewarded.
  Result<std::vector<Rollout>> roll_out(StepMetrics& step) {
    std::vector<Rollout> rollouts;
    Rng rng(seed("tasks"));
    std::vector<Prompt> prompts;
    const auto weights = recipe_.curriculum.function(tasks_, curriculum_, recipe_.curriculum_options);
    std::vector<std::size_t> tasks;
    for (const CurriculumTask& drawn :
         draw_by_weight(tasks_, weights, static_cast<std::size_t>(recipe_.prompts), rng)) {
      tasks.push_back(drawn.task);
      ++step.kinds[std::string(name(drawn.kind))];
    }
    gym_.expect(tasks);
    for (const std::size_t task : tasks) {
      Prompt prompt{.task = task};
      if (recipe_.exemplars > 0)
        prompt.shown = exemplars_.draw(task, recipe_, rng), prompt.use = HistoryUse::kExemplars;
      for (std::int64_t k = 0; k < recipe_.samples; ++k) prompts.push_back(prompt);
    }
    std::vector<History> conversations(prompts.size());
    for (std::int64_t t = 0; t < recipe_.turns; ++t) {
      LATHE_TRY(std::vector<Answer> answers, sample(prompts, t, step));
      LATHE_TRY(const auto verdicts, judge(prompts, answers, t, step));
      for (std::size_t i = 0; i < prompts.size(); ++i) {
        rollouts.push_back(rewarded(prompts[i], std::move(answers[i]), verdicts[i]));
        rollouts.back().turn.sequence = static_cast<std::int64_t>(i);
        rollouts.back().turn.prompt = static_cast<std::int64_t>(i) / recipe_.samples;
        rollouts.back().turn.turn = t;
        if (verdicts[i].outcome == Outcome::kInfra) continue;  // it tells a later turn nothing
        conversations[i].push_back(rollouts.back().attempt);
        prompts[i].shown = told(conversations[i]), prompts[i].use = HistoryUse::kConversation;
      }
    }
    if (recipe_.shuffle_rewards) shuffle_rewards(rollouts);
    return rollouts;
  }

  Result<std::vector<Answer>> sample(std::span<const Prompt> prompts, std::int64_t turn, StepMetrics& step) {
    const Stopwatch watch(step.rollout_seconds);
    return actor_.sample(
        prompts, seed("answers").derive("turn", static_cast<std::uint64_t>(turn)),
        [&](std::size_t i, const Answer& answer) { gym_.begin(question(prompts[i], answer)); });
  }

  static Gym::Question question(const Prompt& prompt, const Answer& answer) {
    return {prompt.task, answer.text, answer.unreadable ? &*answer.unreadable : nullptr};
  }

  /// Of what is not judged yet. Meanwhile the actor rests (Actor::sample), so kernels may be timed
  /// where it computes.
  Result<std::vector<Verdict>> judge(const std::vector<Prompt>& prompts, const std::vector<Answer>& answers,
                                     std::int64_t turn, StepMetrics& step) {
    const Stopwatch watch(step.judging_seconds);
    std::vector<Gym::Question> questions;
    for (std::size_t i = 0; i < prompts.size(); ++i) questions.push_back(question(prompts[i], answers[i]));
    return gym_.judge(questions, seed("gym").derive("turn", static_cast<std::uint64_t>(turn)));
  }

  static std::map<std::size_t, Passes> passes_of(const std::vector<Rollout>& rollouts) {
    std::map<std::size_t, Passes> passes;
    for (const Rollout& rollout : rollouts) {
      Passes& own = passes[rollout.prompt.task];
      const Verdict& verdict = rollout.attempt->experience.verdict;
      if (verdict.outcome != Outcome::kInfra) ++own.known;
      if (verdict.passed()) ++own.passed;
    }
    return passes;
  }

  /// Of a conversation the best turn and the last.
  static History told(const History& turns) {
    const auto best = std::ranges::max_element(turns, {}, [](const auto& turn) { return turn->fitness; });
    return {*best, turns.back()};
  }

  Rollout rewarded(const Prompt& prompt, Answer answer, const Verdict& verdict) {
    Rollout rollout{.prompt = prompt, .answer = std::move(answer), .turn = {}, .attempt = {}};
    const std::string_view peer = gym_.peer(prompt.task);
    const auto reward = recipe_.paid_by_naive ? recipe_.reward.function(naive_verdict(verdict), kNaivePeer)
                                              : recipe_.reward.function(verdict, peer);
    if (reward.ok()) rollout.turn.reward = recipe_.smoothing_window > 0 ? smoother_(*reward) : *reward;
    rollout.launched_share = 1;
    if (const auto share = verdict.profile.find("launched_share"); share != verdict.profile.end())
      rollout.launched_share = share->second;
    Attempt attempt{.experience = {.task_name = std::string(gym_.task_name(prompt.task)),
                                   .task = verdict.task,
                                   .candidate = digest_of(rollout.answer.text),
                                   .candidate_text = rollout.answer.text,
                                   .verdict = verdict},
                    .fitness = verdict.passed() ? speedup_low(verdict, peer) : 0};
    rollout.attempt = std::make_shared<const Attempt>(std::move(attempt));
    return rollout;
  }

  void shuffle_rewards(std::vector<Rollout>& rollouts) const {
    std::vector<std::optional<double>> rewards;
    for (const Rollout& rollout : rollouts) rewards.push_back(rollout.turn.reward);
    Rng rng(seed("shuffled"));
    rng.shuffle(rewards);
    for (std::size_t i = 0; i < rollouts.size(); ++i) rollouts[i].turn.reward = rewards[i];
  }

  /// What the loss of a step's answers is made of, in their order.
  struct Lesson {
    std::vector<PromptedAnswer> answers;
    std::vector<std::optional<double>> advantages;
    std::vector<std::vector<double>> old;  ///< tokens' log-probabilities before the step's updates
    std::vector<std::vector<double>>
        reference;                          ///< and those of the reference; empty: the loss asks for none
    std::vector<std::vector<bool>> counts;  ///< which tokens count
  };

  /// Updates the weights. Returns each answer's advantage; nullopt: it did not count.
  Result<std::vector<std::optional<double>>> learn(const std::vector<Rollout>& rollouts, StepMetrics& step) {
    const Stopwatch watch(step.update_seconds);
    std::vector<Turn> turns;
    Lesson lesson;
    for (const Rollout& rollout : rollouts) {
      turns.push_back(rollout.turn);
      lesson.answers.push_back({&rollout.prompt, &rollout.answer});
    }
    describe(rollouts, step);
    lesson.advantages = recipe_.estimator.function(turns, returns(turns, recipe_.gamma));
    LATHE_TRY(lesson.old, actor_.log_probabilities(lesson.answers));
    lesson.counts = filter(rollouts, lesson.old, lesson.advantages, step);
    if (recipe_.surrogate.kl > 0) {
      LATHE_TRY(lesson.reference, actor_.reference_log_probabilities(lesson.answers));
      step.reference_kl = kl_from_reference(lesson);
    }

    std::vector<std::size_t> order(rollouts.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    Rng rng(seed("shares"));
    if (recipe_.updates > 1) rng.shuffle(order);
    const auto updates = std::min(static_cast<std::size_t>(recipe_.updates), order.size());
    for (std::size_t u = 0; u < updates; ++u) {
      const std::size_t first = order.size() * u / updates, end = order.size() * (u + 1) / updates;
      const std::span<const std::size_t> share = std::span(order).subspan(first, end - first);
      LATHE_CHECK_OK(update(share, lesson, step));
    }
    step.loss /= static_cast<double>(updates);
    step.gradient_norm /= static_cast<double>(updates);
    step.entropy /= static_cast<double>(updates);
    if (!std::isfinite(step.loss) || !std::isfinite(step.gradient_norm))
      return Error{ErrorCode::kInternal,
                   fmt::format("step {}: the loss is {} and the gradient's norm {}", step.step, step.loss,
                               step.gradient_norm),
                   "lower the learning rate; the last checkpoint is from before"};
    return std::move(lesson.advantages);
  }

  static double kl_from_reference(const Lesson& lesson) {
    double kl = 0, tokens = 0;
    for (std::size_t i = 0; i < lesson.old.size(); ++i)
      for (std::size_t token = 0; token < lesson.old[i].size(); ++token) {
        if (!lesson.counts[i][token]) continue;
        kl += k3(lesson.old[i][token], lesson.reference[i][token]), tokens += 1;
      }
    return tokens > 0 ? kl / tokens : 0;
  }

  static void describe(const std::vector<Rollout>& rollouts, StepMetrics& step) {
    double known = 0, passed = 0;
    for (const Rollout& rollout : rollouts) {
      const Verdict& verdict = rollout.attempt->experience.verdict;
      ++step.outcomes[std::string(name(verdict.outcome))];
      if (verdict.outcome == Outcome::kTampered) ++step.hacks[verdict.reason];
      if (const auto naive = naive_speedup(verdict)) {
        step.naive_asked = true;
        step.naive_accepted += *naive > 0;
        step.naive_deceived += *naive > 0 && !verdict.passed();
      }
      if (rollout.answer.cut) ++step.cut;
      step.tokens += static_cast<double>(rollout.answer.tokens.size()) / static_cast<double>(rollouts.size());
      if (!rollout.turn.reward) {
        ++step.lost;
        continue;
      }
      known += 1, step.reward += *rollout.turn.reward;
      if (verdict.passed() && rollout.attempt->fitness > 0)
        passed += 1, step.log_speedup_low += std::log(rollout.attempt->fitness);
    }
    if (known > 0) step.reward /= known, step.pass_rate = passed / known;
    if (passed > 0) step.log_speedup_low /= passed;
  }

  /// Which tokens of each answer count. Answers that the filters leave out lose their advantage.
  std::vector<std::vector<bool>> filter(const std::vector<Rollout>& rollouts,
                                        const std::vector<std::vector<double>>& train,
                                        std::vector<std::optional<double>>& advantages,
                                        StepMetrics& step) const {
    std::vector<Mismatch> mismatches;
    for (std::size_t i = 0; i < rollouts.size(); ++i)
      mismatches.push_back({rollouts[i].turn.sequence, rollouts[i].answer.log_probabilities, train[i]});
    const MismatchReport report = measure_mismatch(mismatches);
    step.mismatch = report.mean_absolute, step.mismatch_kl = report.kl;
    auto counts = reject_mismatch(mismatches, recipe_.mismatch);
    Rng rng(seed("launched"));
    double tokens = 0, kept = 0;
    for (std::size_t i = 0; i < rollouts.size(); ++i) {
      const bool correct = rollouts[i].attempt->experience.verdict.passed();
      if (recipe_.reject_unlaunched && correct && !rng.chance(keep_probability(rollouts[i].launched_share)))
        advantages[i] = std::nullopt;
      if (!advantages[i]) counts[i].assign(counts[i].size(), false);
      const auto own = std::ranges::count(counts[i], true);
      if (own == 0) advantages[i] = std::nullopt;
      tokens += static_cast<double>(counts[i].size()), kept += static_cast<double>(own);
    }
    step.kept_tokens = tokens > 0 ? kept / tokens : 0;
    return counts;
  }

  Status update(std::span<const std::size_t> share, const Lesson& lesson, StepMetrics& step) {
    const auto& [answers, advantages, old, reference, counts] = lesson;
    std::vector<PromptedAnswer> own;
    std::vector<std::size_t> tokens;
    for (const std::size_t i : share) {
      own.push_back(answers[i]);
      tokens.push_back(static_cast<std::size_t>(std::ranges::count(counts[i], true)));
    }
    const std::vector<double> weights = token_weights(tokens, recipe_.loss_mean);
    LATHE_TRY(const auto now, actor_.log_probabilities(own));
    std::vector<std::vector<double>> gradients;
    for (std::size_t s = 0; s < share.size(); ++s) {
      const std::size_t i = share[s];
      std::vector<double>& gradient = gradients.emplace_back(now[s].size(), 0);
      for (std::size_t token = 0; token < gradient.size(); ++token) {
        if (!counts[i][token]) continue;
        const auto from = reference.empty() ? std::nullopt : std::optional(reference[i][token]);
        const TokenLoss loss =
            surrogate(now[s][token], old[i][token], *advantages[i], recipe_.surrogate, from);
        step.loss += weights[s] * loss.loss;
        gradient[token] = weights[s] * loss.gradient;
      }
    }
    LATHE_TRY(const double entropy, actor_.add_gradient(own, gradients, recipe_.entropy));
    step.entropy += entropy;
    LATHE_TRY(const double norm, actor_.update(step.learning_rate, recipe_.clip_norm));
    step.gradient_norm += norm;
    return Ok{};
  }

  /// What later prompts may show, and what people may read.
  Status tell(const std::vector<Rollout>& rollouts, const std::vector<std::optional<double>>& advantages,
              JsonLinesFile& samples) {
    std::set<std::string_view> told;
    std::int64_t room = recipe_.text_bytes;
    for (std::size_t i = 0; i < rollouts.size(); ++i) {
      if (recipe_.exemplars > 0) exemplars_.add(rollouts[i].prompt.task, rollouts[i].attempt);
      json line = line_of(rollouts[i], advantages[i]);
      const Answer& answer = rollouts[i].answer;
      const std::string_view text = answer.written.empty() ? answer.text : answer.written;
      const auto bytes = static_cast<std::int64_t>(text.size());
      if (recipe_.text_bytes == 0 || (bytes <= room && told.insert(text).second)) {
        line["text"] = text;
        room -= bytes;
      }
      LATHE_CHECK_OK(samples.write(line));
    }
    return Ok{};
  }

  json line_of(const Rollout& rollout, std::optional<double> advantage) const {
    const Verdict& verdict = rollout.attempt->experience.verdict;
    json line = {{"step", steps_done_ + 1},
                 {"task", gym_.task_name(rollout.prompt.task)},
                 {"sequence", rollout.turn.sequence},
                 {"turn", rollout.turn.turn},
                 {"candidate", rollout.attempt->experience.candidate.short_hex()},
                 {"tokens", rollout.answer.tokens.size()},
                 {"outcome", name(verdict.outcome)},
                 {"reason", verdict.reason},
                 {"speedup_low", rollout.attempt->fitness}};
    if (!verdict.passed() && !verdict.detail.empty())
      line["detail"] = visible_line(std::string_view(verdict.detail).substr(0, kDetailBytes));
    if (rollout.turn.reward) line["reward"] = *rollout.turn.reward;
    if (advantage) line["advantage"] = *advantage;
    if (rollout.answer.cut) line["cut"] = true;
    if (const auto naive = naive_speedup(verdict)) line[kNaiveSpeedup] = *naive;
    return line;
  }

  json line_of(const StepMetrics& step) const {
    json line = {{"step", step.step},
                 {"reward", step.reward},
                 {"pass_rate", step.pass_rate},
                 {"log_speedup_low", step.log_speedup_low},
                 {"kinds", step.kinds},
                 {"outcomes", step.outcomes},
                 {"hacks", step.hacks},
                 {"lost", step.lost},
                 {"cut", step.cut},
                 {"tokens", step.tokens},
                 {"kept_tokens", step.kept_tokens},
                 {"mismatch", step.mismatch},
                 {"mismatch_kl", step.mismatch_kl},
                 {"entropy", step.entropy},
                 {"loss", step.loss},
                 {"learning_rate", step.learning_rate},
                 {"gradient_norm", step.gradient_norm},
                 {"rollout_seconds", step.rollout_seconds},
                 {"judging_seconds", step.judging_seconds},
                 {"update_seconds", step.update_seconds},
                 {"seconds", step.seconds}};
    if (recipe_.surrogate.kl > 0) line["reference_kl"] = step.reference_kl;
    if (step.naive_asked)
      line["naive_accepted"] = step.naive_accepted, line["naive_deceived"] = step.naive_deceived;
    return line;
  }

  std::string checkpoint() const { return run_.folder + "/checkpoint.json"; }

  Status save(std::int64_t metrics_bytes, std::int64_t samples_bytes) {
    LATHE_TRY(const std::string actor, actor_.save(run_.folder));
    return replace_file(checkpoint(), json_text({{"steps_done", steps_done_},
                                                 {"recipe", recipe_.digest.hex()},
                                                 {"gym", run_.gym.hex()},
                                                 {"metrics_bytes", metrics_bytes},
                                                 {"samples_bytes", samples_bytes},
                                                 {"rewards", smoother_.latest()},
                                                 {"exemplars", exemplars_.save()},
                                                 {"curriculum", to_json(curriculum_)},
                                                 {"actor", actor}}) +
                                          "\n");
  }

  Status resume(std::int64_t& metrics_bytes, std::int64_t& samples_bytes) {
    LATHE_TRY(const std::string text, read_file(checkpoint()));
    LATHE_TRY(const json state, parse_json(text, checkpoint()));
    try {
      for (const auto& [key, digest] : {std::pair{"recipe", recipe_.digest}, {"gym", run_.gym}})
        if (state.at(key).get<std::string>() != digest.hex())
          return invalid(fmt::format("{} was made with another {}", checkpoint(), key),
                         "resume with the same, or begin in a new folder");
      LATHE_CHECK_OK(actor_.restore(state.at("actor").get<std::string>(), run_.folder));
      smoother_.restore(state.at("rewards").get<std::deque<double>>());
      exemplars_.restore(state.at("exemplars"));
      curriculum_ = curriculum_from(state.at("curriculum"));
      steps_done_ = json_integer<std::int64_t>(state.at("steps_done"));
      if (steps_done_ > recipe_.steps)
        return invalid(fmt::format("{}: {} steps are done, and {} are asked for", checkpoint(), steps_done_,
                                   recipe_.steps),
                       fmt::format("ask for at least {}, or begin in a new folder", steps_done_));
      metrics_bytes = json_integer<std::int64_t>(state.at("metrics_bytes"));
      samples_bytes = json_integer<std::int64_t>(state.at("samples_bytes"));
    } catch (const json::exception& error) {
      return invalid(checkpoint() + ": " + error.what(), "begin in a new folder");
    }
    return Ok{};
  }

  const RlRun& run_;
  const RlRecipe& recipe_;
  Actor& actor_;
  Gym& gym_;
  RewardSmoother smoother_;
  Exemplars exemplars_;
  std::vector<CurriculumTask> tasks_;
  CurriculumState curriculum_;
  std::int64_t steps_done_ = 0;
};

}  // namespace

std::string progress_text(const StepMetrics& step) {
  return fmt::format(
      "step {}/{}  reward {:.4f}  pass {:.1f}%  speedup {:.3f}  entropy {:.3f}  mismatch {:.1e}", step.step,
      step.steps, step.reward, 100 * step.pass_rate, std::exp(step.log_speedup_low), step.entropy,
      step.mismatch);
}

Result<RlOutcome> run_rl(const RlRun& run, Actor& actor, Gym& gym) {
  if (run.tasks.empty()) return invalid("there is no task to train on", "hold fewer out");
  return Loop(run, actor, gym).go();
}

}  // namespace lathe::rl

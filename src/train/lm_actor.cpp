#include "train/lm_actor.h"

#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/guard.h"
#include "lm/open_model.h"
#include "model/chat_tokens.h"
#include "model/text_grammar.h"
#include "record/json.h"
#include "record/json_integer.h"

namespace lathe::train {
namespace {

constexpr std::string_view kNumbers = "actor-";  // how files of states begin
constexpr double kPatienceSeconds = 600;
constexpr double kBetweenLooks = 0.02;  // at one request of several, in seconds

}  // namespace

/// Of the learner: while it lives nobody times anything on the device.
class LmActor::Turn {
 public:
  explicit Turn(const LmActor& actor)
      : device_(actor.learner_.decoder().options().device),
        held_(actor.options_.take_turn ? actor.options_.take_turn() : nullptr) {}
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    if (held_ && !device_.is_cpu()) at::accelerator::synchronizeDevice(device_.index());
  }

 private:
  const at::Device device_;
  const std::shared_ptr<void> held_;
};

Result<std::unique_ptr<LmActor>> LmActor::create(std::shared_ptr<const LmTasks> tasks, Learner learner,
                                                 TextCoding coding, const LmActorOptions& options) {
  if (!coding.tokenizer) return invalid("the model has no tokenizer", "name a model that has one");
  std::unique_ptr<LmActor> actor(
      new LmActor(std::move(tasks), std::move(learner), std::move(coding), options));
  LATHE_CHECK_OK(actor->write_tasks());
  return actor;
}

Status LmActor::write_tasks() {
  LATHE_TRY(end_, end_of_turn(*coding_.tokenizer, coding_.chat ? &*coding_.chat : nullptr));
  for (std::size_t task = 0; task < tasks_->count(); ++task) {
    LATHE_TRY(written_.emplace_back(), write(task));
    if ((written_.back().grammar == nullptr) != (written_.front().grammar == nullptr))
      return Error{ErrorCode::kInternal, "some tasks have a grammar and others have none"};
  }
  return Ok{};
}

Result<LmActor::Written> LmActor::write(std::size_t task) const {
  Written written;
  LATHE_TRY(written.prompt, tokens_of({.task = task}));
  LmTasks::Form form = tasks_->form(task);
  if (form.grammar) {
    LATHE_TRY(written.grammar, token_automaton(*form.grammar, *coding_.tokenizer, end_));
    const auto longest = form.grammar->longest_text();
    if (!longest) return invalid(fmt::format("the answers to {} have no longest one", tasks_->name(task)));
    form.most_tokens = *longest + 1;
  }
  written.most_tokens = static_cast<std::int32_t>(form.most_tokens);
  written.stop_texts = std::move(form.stop_texts);
  const std::int64_t longest =
      std::max(static_cast<std::int64_t>(written.prompt.size()), options_.longest_prompt) + form.most_tokens;
  const std::int64_t context = std::min(learner_.decoder().config().context, options_.tokens_at_once);
  if (longest > context)
    return invalid(fmt::format("prompt and answer of {} may have {} tokens, but {} are computed at once",
                               tasks_->name(task), longest, context),
                   "take a model with more context, or a larger tokens_at_once");
  return written;
}

Result<std::vector<TokenId>> LmActor::tokens_of(const rl::Prompt& prompt) const {
  LATHE_TRY(std::vector<ChatMessage> messages, tasks_->messages(prompt));
  for (ChatMessage& message : messages)
    message.content = without_special(*coding_.tokenizer, std::move(message.content));
  return encode_chat(*coding_.tokenizer, coding_.chat ? &*coding_.chat : nullptr, messages);
}

Result<std::vector<TokenId>> LmActor::asked(const rl::Prompt& prompt) {
  if (prompt.shown.empty()) return written_[prompt.task].prompt;
  const auto [found, fresh] = asked_.try_emplace({prompt.task, prompt.use, prompt.shown});
  if (fresh) {
    auto tokens = tokens_of(prompt);
    if (!tokens.ok()) {
      asked_.erase(found);
      return std::move(tokens).error();
    }
    found->second = *std::move(tokens);
  }
  return found->second;
}

Result<std::vector<LmActor::Key>> LmActor::keys_of(std::span<const rl::PromptedAnswer> answers) {
  std::vector<Key> keys;
  for (const auto& [prompt, answer] : answers) {
    LATHE_TRY(std::vector<TokenId> tokens, asked(*prompt));
    keys.push_back({prompt->task, std::move(tokens), answer->tokens});
  }
  return keys;
}

Status LmActor::follow() {
  if (!engine_is_behind_) return Ok{};
  const Turn turn(*this);
  const lm::DecoderOptions& trained = learner_.decoder().options();
  if (engine_) {
    LATHE_CHECK_OK(drawing_->replace_weights(learner_.weights()));
  } else {
    LATHE_TRY(lm::Decoder decoder, lm::Decoder::assemble(learner_.decoder().config(),
                                                         {.precision = trained.precision,
                                                          .device = trained.device,
                                                          .packed = trained.device.is_cpu()},
                                                         learner_.weights()));
    drawing_ = std::make_shared<lm::Decoder>(std::move(decoder));
    std::int64_t context = 0;
    for (const Written& written : written_)
      context =
          std::max(context, written.most_tokens + std::max(static_cast<std::int64_t>(written.prompt.size()),
                                                           options_.longest_prompt));
    const lm::OpenOptions open{.max_batch = options_.answers_at_once,
                               .context = static_cast<std::int32_t>(context)};
    LATHE_TRY(const lm::RunnerOptions runner_options, lm::choose_runner(*drawing_, open));
    LATHE_TRY(auto runner, lm::make_runner(drawing_, runner_options));
    lm::LocalEngineOptions engine{.runner = runner_options, .end_tokens = coding_.tokenizer->stops()};
    engine.end_tokens.push_back(end_);
    engine.info = {.model = options_.base_name,
                   .device = runner->device(),
                   .precision = std::string(name_of(trained.precision)),
                   .vocab = static_cast<std::int32_t>(learner_.decoder().config().vocab),
                   .context = runner_options.context,
                   .max_batch = runner_options.max_batch};
    engine.take_turn = options_.take_turn;
    engine.token_bytes = [tokenizer = *coding_.tokenizer](TokenId token) { return tokenizer.bytes(token); };
    engine_ = lm::make_local_engine(std::move(runner), std::move(engine));
  }
  // The engine has a stream of its own on a GPU: reading a number waits until the weights are
  // there.
  if (trained.device.is_cuda())
    (void)drawing_->named_weights().back().second.detach().flatten()[0].item<float>();
  engine_is_behind_ = false;
  return Ok{};
}

/// The engine's steps and what the learner still had to compute are done, and memory that is free
/// is the device's again: a gym that uses it as well is not disturbed.
Status LmActor::rest() const {
  const at::Device device = learner_.decoder().options().device;
  if (device.is_cpu()) return Ok{};
  at::accelerator::synchronizeDevice(device.index());
  at::accelerator::emptyCache();
  return Ok{};
}

Result<GenerationRequest> LmActor::request_of(const rl::Prompt& prompt) {
  const Written& written = written_[prompt.task];
  GenerationRequest request{
      .max_tokens = written.most_tokens, .stop_texts = written.stop_texts, .grammar = written.grammar};
  LATHE_TRY(request.prompt, asked(prompt));
  return request;
}

Result<rl::Answer> LmActor::answer_of(std::size_t task, const Sample& sample) const {
  const bool cut = sample.finish == FinishReason::kLength;
  LATHE_TRY(rl::Answer answer, tasks_->meaning(task, coding_.tokenizer->decode(sample.tokens), cut));
  answer.tokens = sample.tokens;
  answer.log_probabilities = {sample.log_probs.begin(), sample.log_probs.end()};
  return answer;
}

Result<std::vector<rl::Answer>> LmActor::sample(std::span<const rl::Prompt> prompts, const Seed& seed,
                                                const OnAnswer& on_answer) {
  const OnAnswer& tell = options_.judged_meanwhile ? on_answer : OnAnswer();
  LATHE_TRY(std::vector<rl::Answer> answers, without_exceptions([&] { return draw(prompts, seed, tell); }));
  LATHE_CHECK_OK(without_exceptions([&] { return rest(); }));
  return answers;
}

Result<std::vector<rl::Answer>> LmActor::draw(std::span<const rl::Prompt> prompts, const Seed& seed,
                                              const OnAnswer& on_answer) {
  LATHE_CHECK_OK(follow());
  struct Group {
    std::size_t first = 0, count = 0;  // of prompts
    std::uint64_t request = 0;
  };
  std::vector<Group> groups;
  const auto is_same = [](const rl::Prompt& a, const rl::Prompt& b) {
    return a.task == b.task && a.use == b.use && a.shown == b.shown;
  };
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (groups.empty() || !is_same(prompts[groups.back().first], prompts[i])) groups.push_back({.first = i});
    ++groups.back().count;
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    LATHE_TRY(GenerationRequest request, request_of(prompts[groups[g].first]));
    request.samples = static_cast<std::int32_t>(groups[g].count);
    request.sampling.seed = Rng(seed.derive("group", g)).next();
    LATHE_TRY(groups[g].request, engine_->submit(std::move(request)));
  }
  std::vector<rl::Answer> answers(prompts.size());
  std::int64_t last_news_ns = steady_clock().now_ns();
  for (std::size_t g = 0; !groups.empty(); ++g) {
    const Group& group = groups[g %= groups.size()];
    const auto news = engine_->wait(group.request, kBetweenLooks);
    if (!news.ok()) {
      const auto waited_ns = static_cast<double>(steady_clock().now_ns() - last_news_ns);
      if (news.error().code == ErrorCode::kTimeout && waited_ns < 1e9 * kPatienceSeconds) continue;
      return news.error();
    }
    last_news_ns = steady_clock().now_ns();
    for (const Sample& sample : news->samples) {
      const std::size_t i = group.first + static_cast<std::size_t>(sample.index);
      LATHE_TRY(answers[i], answer_of(prompts[group.first].task, sample));
      if (on_answer) on_answer(i, answers[i]);
    }
    if (news->done) groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(g));
  }
  return answers;
}

Result<rl::Answer> LmActor::greedy(const rl::Prompt& prompt) {
  LATHE_CHECK_OK(follow());
  LATHE_TRY(GenerationRequest request, request_of(prompt));
  request.sampling.temperature = 0;
  LATHE_TRY(const auto samples, generate(*engine_, std::move(request)));
  return answer_of(prompt.task, samples.front());
}

std::vector<std::vector<const LmActor::Key*>> LmActor::passes(const std::vector<const Key*>& keys) const {
  std::int64_t all = 0;
  for (const Key* const key : keys) all += key->length();
  const auto processes = static_cast<std::int64_t>(crew_.size());
  const std::int64_t most = std::min(options_.tokens_at_once, (all + processes - 1) / processes);
  std::vector<std::vector<const Key*>> made;
  std::int64_t room = 0;
  for (const Key* const key : keys) {
    if (made.empty() || key->length() > room) {
      made.emplace_back();
      room = most;
    }
    made.back().push_back(key);
    room -= key->length();
  }
  return made;
}

AnswerPass::Allowed LmActor::allowed_in(std::span<const Key* const> keys) const {
  AnswerPass::Allowed allowed;
  std::map<TokenId, std::int64_t> columns;
  for (const Key* const key : keys) {
    const TokenAutomaton& grammar = *written_[key->task].grammar;
    std::int32_t state = 0;
    for (const TokenId token : key->answer) {
      std::vector<std::int64_t>& here = allowed.places.emplace_back();
      for (const auto& arrow : grammar.states[static_cast<std::size_t>(state)].arrows)
        here.push_back(
            columns.try_emplace(arrow.token, static_cast<std::int64_t>(columns.size())).first->second);
      allowed.taken.push_back(columns.at(token));
      state = grammar.next(state, token);
    }
  }
  allowed.tokens.resize(columns.size());
  for (const auto& [token, column] : columns) allowed.tokens[static_cast<std::size_t>(column)] = token;
  return allowed;
}

AnswerPass LmActor::pass_of(std::span<const Key* const> keys) const {
  AnswerPass pass;
  for (const Key* const key : keys) pass.texts.push_back({key->prompt, key->answer});
  if (written_[keys.front()->task].grammar) pass.allowed = allowed_in(keys);
  return pass;
}

Status LmActor::find_out(Weights whose, std::span<const Key> keys, Knowledge& known) {
  std::vector<const Key*> unknown;
  for (const Key& key : keys)
    if (!known.contains(key)) unknown.push_back(&key);
  std::ranges::sort(unknown, {}, [](const Key* key) -> const Key& { return *key; });
  const auto same = std::ranges::unique(unknown, {}, [](const Key* key) -> const Key& { return *key; });
  unknown.erase(same.begin(), same.end());
  const auto groups = passes(unknown);
  std::vector<AnswerPass> asked;
  for (const auto& group : groups) asked.push_back(pass_of(group));
  LATHE_TRY(const auto found, crew_.find_out(asked, whose));
  for (std::size_t g = 0; g < groups.size(); ++g) {
    std::ptrdiff_t first = 0;
    for (const Key* const key : groups[g]) {
      const std::ptrdiff_t end = first + static_cast<std::ptrdiff_t>(key->answer.size());
      const auto& [logs, entropies] = found[g];
      known[*key] = {{logs.begin() + first, logs.begin() + end},
                     {entropies.begin() + first, entropies.begin() + end}};
      first = end;
    }
  }
  return Ok{};
}

Result<std::vector<std::vector<double>>> LmActor::log_probabilities(
    std::span<const rl::PromptedAnswer> answers) {
  return log_probabilities(Weights::kLearned, answers, known_);
}

Result<std::vector<std::vector<double>>> LmActor::log_probabilities(
    Weights whose, std::span<const rl::PromptedAnswer> answers, Knowledge& known) {
  return without_exceptions([&]() -> Result<std::vector<std::vector<double>>> {
    const Turn turn(*this);
    LATHE_TRY(const std::vector<Key> keys, keys_of(answers));
    LATHE_CHECK_OK(find_out(whose, keys, known));
    std::vector<std::vector<double>> all;
    for (const Key& key : keys) all.push_back(known.at(key).log_probabilities);
    return all;
  });
}

Status LmActor::keep_reference() {
  return without_exceptions([&]() -> Status {
    const Turn turn(*this);
    return crew_.keep_reference();
  });
}

Result<std::vector<std::vector<double>>> LmActor::reference_log_probabilities(
    std::span<const rl::PromptedAnswer> answers) {
  if (!crew_.has_reference()) return Error{ErrorCode::kInternal, "no weights were kept as a reference"};
  Knowledge known;
  return log_probabilities(Weights::kReference, answers, known);
}

Result<double> LmActor::add_gradient(std::span<const rl::PromptedAnswer> answers,
                                     std::span<const std::vector<double>> by_log_probability,
                                     double entropy) {
  return without_exceptions([&]() -> Result<double> {
    const Turn turn(*this);
    if (entropy > 0 && !written_.front().grammar)
      return invalid("the entropy of answers without a grammar has no gradient", "train with entropy = 0");
    struct Share {
      std::vector<float> by_log_probability;
      float count = 0;  // answers
    };
    std::map<Key, Share> shares;
    std::vector<Key> keys;  // in the order of the answers, which sums follow
    LATHE_TRY(std::vector<Key> all, keys_of(answers));
    for (std::size_t i = 0; i < answers.size(); ++i) {
      Key& key = all[i];
      Share& share = shares[key];
      share.by_log_probability.resize(key.answer.size(), 0);
      for (std::size_t t = 0; t < key.answer.size(); ++t)
        share.by_log_probability[t] += static_cast<float>(by_log_probability[i][t]);
      if (share.count++ == 0) keys.push_back(std::move(key));
    }
    LATHE_CHECK_OK(find_out(Weights::kLearned, keys, known_));
    const auto count = static_cast<double>(std::max<std::size_t>(1, answers.size()));
    double entropies = 0;
    std::vector<const Key*> learned;
    for (const Key& key : keys) {
      const Share& share = shares.at(key);
      for (const double one : known_.at(key).entropies)
        entropies += one * static_cast<double>(share.count) / count;
      if (entropy > 0 || std::ranges::any_of(share.by_log_probability, [](float one) { return one != 0; }))
        learned.push_back(&key);
    }
    std::vector<AnswerPass> asked;
    std::vector<PassSlopes> slopes;
    for (const auto& group : passes(learned)) {
      asked.push_back(pass_of(group));
      auto& [by_log, by_entropy] = slopes.emplace_back();
      for (const Key* const key : group) {
        const Share& share = shares.at(*key);
        by_log.insert(by_log.end(), share.by_log_probability.begin(), share.by_log_probability.end());
        if (entropy > 0)
          by_entropy.insert(by_entropy.end(), key->answer.size(),
                            static_cast<float>(-entropy * static_cast<double>(share.count) / count));
      }
    }
    LATHE_CHECK_OK(crew_.add_gradient(asked, slopes));
    return entropies;
  });
}

Result<double> LmActor::update(double learning_rate, double clip_norm) {
  return without_exceptions([&]() -> Result<double> {
    const Turn turn(*this);
    LATHE_TRY(const double norm, crew_.update(options_.optimizer, learning_rate, updates_, clip_norm));
    ++updates_;
    known_.clear();
    asked_.clear();
    engine_is_behind_ = true;
    return norm;
  });
}

Result<std::string> LmActor::save(const std::string& folder) {
  LATHE_CHECK_OK(crew_.check_equal());
  const std::string numbers = fmt::format("{}{:08}.safetensors", kNumbers, updates_);
  LATHE_CHECK_OK(learner_.save_state(folder + "/" + numbers));
  std::error_code ignored;
  for (std::filesystem::directory_iterator at(folder, ignored), end; !ignored && at != end;
       at.increment(ignored)) {
    const std::string name = at->path().filename().string();
    std::error_code not_removed;
    if (name.starts_with(kNumbers) && name != numbers && name != kept_)
      std::filesystem::remove(at->path(), not_removed);
  }
  kept_ = numbers;
  return json_text(
      {{"updates", updates_}, {"parameters", learner_.parameters().layout().hex()}, {"numbers", numbers}});
}

Status LmActor::restore(const std::string& state, const std::string& folder) {
  return without_exceptions([&]() -> Status {
    LATHE_TRY(const nlohmann::json json, parse_json(state, "the actor's state"));
    const auto numbers = json.at("numbers").get<std::string>();
    if (json.at("parameters").get<std::string>() != learner_.parameters().layout().hex() ||
        numbers.find('/') != std::string::npos)
      return invalid("the state is of another model or adapter", "resume with those that it was begun with");
    LATHE_CHECK_OK(crew_.load_state(folder + "/" + numbers));
    updates_ = json_integer<std::int64_t>(json.at("updates"));
    kept_ = numbers;
    known_.clear();
    engine_is_behind_ = true;
    return Ok{};
  });
}

Status LmActor::write_result(const std::string& folder) const {
  return learner_.write_result(folder, options_.base_name);
}

}  // namespace lathe::train

#include "train/lm_actor.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/guard.h"
#include "lm/open_model.h"
#include "model/chat_tokens.h"
#include "model/text_grammar.h"
#include "record/json.h"
#include "record/json_integer.h"
#include "train/to_tensor.h"

namespace lathe::train {
namespace {

constexpr std::string_view kNumbers = "actor-";  // how files of states begin
constexpr double kPatienceSeconds = 600;

TextGrammar grammar_of(const rl::TableTask& task) {
  TextGrammar grammar;
  grammar.states.resize(2);
  for (const rl::TableRow& row : task.rows()) grammar.states[0].edges.push_back({row.schedule, 1});
  grammar.states[1].end = true;
  return grammar;
}

std::vector<double> to_doubles(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.detach().to(at::kCPU, at::kDouble).contiguous();
  const double* const first = plain.const_data_ptr<double>();
  return {first, first + plain.numel()};
}

}  // namespace

Result<std::unique_ptr<LmActor>> LmActor::create(const rl::ScheduleTable& table, Learner learner,
                                                 TextCoding coding, const LmActorOptions& options) {
  if (!coding.tokenizer) return invalid("the model has no tokenizer", "name a model that has one");
  std::unique_ptr<LmActor> actor(new LmActor(table, std::move(learner), std::move(coding), options));
  LATHE_CHECK_OK(actor->write_tasks());
  return actor;
}

Status LmActor::write_tasks() {
  LATHE_TRY(end_, end_of_turn(*coding_.tokenizer, coding_.chat ? &*coding_.chat : nullptr));
  for (const rl::TableTask& task : table_.tasks) {
    LATHE_TRY(written_.emplace_back(), write(task, end_));
  }
  return Ok{};
}

Result<LmActor::Written> LmActor::write(const rl::TableTask& task, TokenId end) const {
  const Tokenizer& tokenizer = *coding_.tokenizer;
  if (!task.is_written())
    return invalid("the table has no prompts", "write it with: lathe data table --language schedule");
  std::vector<ChatMessage> messages;
  if (!task.id().system.empty()) messages.push_back({"system", without_special(tokenizer, task.id().system)});
  messages.push_back({"user", without_special(tokenizer, task.id().prompt)});
  Written written;
  LATHE_TRY(written.prompt, encode_chat(tokenizer, coding_.chat ? &*coding_.chat : nullptr, messages));
  const TextGrammar grammar = grammar_of(task);
  LATHE_TRY(written.grammar, token_automaton(grammar, tokenizer, end));
  written.most_tokens = static_cast<std::int32_t>(grammar.longest_text() + 1);
  const auto longest = static_cast<std::int64_t>(written.prompt.size()) + written.most_tokens;
  const std::int64_t context = std::min(learner_.decoder().config().context, options_.tokens_at_once);
  if (longest > context)
    return invalid(fmt::format("prompt and answer of {} may have {} tokens, but {} are computed at once",
                               task.name(), longest, context),
                   "take a model with more context, or a larger tokens_at_once");
  return written;
}

Status LmActor::follow() {
  if (!engine_is_behind_) return Ok{};
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
    std::int32_t context = 0;
    for (const Written& written : written_)
      context = std::max(context, static_cast<std::int32_t>(written.prompt.size()) + written.most_tokens);
    const lm::OpenOptions open{.max_batch = options_.answers_at_once, .context = context};
    LATHE_TRY(const lm::RunnerOptions runner_options, lm::choose_runner(*drawing_, open));
    LATHE_TRY(auto runner, lm::make_runner(drawing_, runner_options));
    lm::LocalEngineOptions engine{.runner = runner_options, .end_tokens = {end_}};
    engine.info = {.model = options_.base_name,
                   .device = runner->device(),
                   .precision = std::string(name_of(trained.precision)),
                   .vocab = static_cast<std::int32_t>(learner_.decoder().config().vocab),
                   .context = runner_options.context,
                   .max_batch = runner_options.max_batch};
    engine_ = lm::make_local_engine(std::move(runner), std::move(engine));
  }
  // The engine has a stream of its own on a GPU: reading a number waits until the weights are
  // there.
  if (trained.device.is_cuda())
    (void)drawing_->named_weights().back().second.detach().flatten()[0].item<float>();
  engine_is_behind_ = false;
  return Ok{};
}

GenerationRequest LmActor::request_of(std::size_t task) const {
  const Written& written = written_[task];
  return {.prompt = written.prompt, .max_tokens = written.most_tokens, .grammar = written.grammar};
}

Result<rl::Answer> LmActor::answer_of(std::size_t task, const Sample& sample) const {
  const std::string text = coding_.tokenizer->decode(sample.tokens);
  const rl::TableRow* const row = table_.tasks[task].find(text);
  if (row == nullptr || sample.tokens.back() != end_)
    return Error{ErrorCode::kInternal, fmt::format("the engine left the grammar with '{}'", text)};
  return rl::Answer{.text = row->schedule,
                    .tokens = sample.tokens,
                    .log_probabilities = {sample.log_probs.begin(), sample.log_probs.end()}};
}

Result<std::vector<rl::Answer>> LmActor::sample(std::span<const rl::Prompt> prompts, const Seed& seed) {
  LATHE_CHECK_OK(follow());
  struct Group {
    std::size_t first = 0, count = 0;  // of prompts
    std::uint64_t request = 0;
  };
  std::vector<Group> groups;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (!prompts[i].shown.empty())
      return invalid("a table's prompts show no earlier kernels", "train with turns = 1 and exemplars = 0");
    if (groups.empty() || prompts[groups.back().first].task != prompts[i].task)
      groups.push_back({.first = i});
    ++groups.back().count;
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    GenerationRequest request = request_of(prompts[groups[g].first].task);
    request.samples = static_cast<std::int32_t>(groups[g].count);
    request.sampling.seed = Rng(seed.derive("group", g)).next();
    LATHE_TRY(groups[g].request, engine_->submit(std::move(request)));
  }
  std::vector<rl::Answer> answers(prompts.size());
  for (const Group& group : groups)
    for (bool done = false; !done;) {
      LATHE_TRY(const GenerationNews news, engine_->wait(group.request, kPatienceSeconds));
      for (const Sample& sample : news.samples) {
        LATHE_TRY(answers[group.first + static_cast<std::size_t>(sample.index)],
                  answer_of(prompts[group.first].task, sample));
      }
      done = news.done;
    }
  return answers;
}

Result<rl::Answer> LmActor::greedy(const rl::Prompt& prompt) {
  LATHE_CHECK_OK(follow());
  GenerationRequest request = request_of(prompt.task);
  request.sampling.temperature = 0;
  LATHE_TRY(const auto samples, generate(*engine_, std::move(request)));
  return answer_of(prompt.task, samples.front());
}

std::vector<std::vector<const LmActor::Key*>> LmActor::passes(const std::vector<const Key*>& keys) const {
  std::vector<std::vector<const Key*>> made;
  std::int64_t room = 0;
  for (const Key* const key : keys) {
    const auto length = static_cast<std::int64_t>(written_[key->first].prompt.size() + key->second.size());
    if (made.empty() || length > room) {
      made.emplace_back();
      room = options_.tokens_at_once;
    }
    made.back().push_back(key);
    room -= length;
  }
  return made;
}

LmActor::Forward LmActor::forward(std::span<const Key* const> keys) const {
  std::vector<Example> examples;
  Row row;
  std::map<TokenId, std::int64_t> columns;  // of all tokens that some place allows
  std::vector<std::vector<std::int64_t>> allowed;
  std::vector<std::int64_t> taken;
  for (const Key* const key : keys) {
    const Written& written = written_[key->first];
    std::int32_t state = 0;
    for (const TokenId token : key->second) {
      std::vector<std::int64_t>& here = allowed.emplace_back();
      for (const auto& arrow : written.grammar->states[static_cast<std::size_t>(state)].arrows)
        here.push_back(
            columns.try_emplace(arrow.token, static_cast<std::int64_t>(columns.size())).first->second);
      taken.push_back(columns.at(token));
      state = written.grammar->next(state, token);
    }
    row.push_back(examples.size());
    examples.push_back({.prompt = written.prompt,
                        .answer = key->second,
                        .weights = std::vector<float>(key->second.size(), 1.0F)});
  }
  std::vector<std::int64_t> tokens(columns.size());
  for (const auto& [token, column] : columns) tokens[static_cast<std::size_t>(column)] = token;

  const at::Device device = learner_.decoder().options().device;
  at::Tensor forbidden = at::ones(
      {static_cast<std::int64_t>(taken.size()), static_cast<std::int64_t>(tokens.size())}, at::kBool);
  bool* const cells = forbidden.mutable_data_ptr<bool>();
  for (std::size_t place = 0; place < allowed.size(); ++place)
    for (const std::int64_t column : allowed[place])
      cells[place * tokens.size() + static_cast<std::size_t>(column)] = false;
  forbidden = forbidden.to(device);

  const Batch batch = make_batch(examples, std::span(&row, 1));
  const at::Tensor logits =
      learner_.logits(batch, tokens).masked_fill(forbidden, -std::numeric_limits<float>::infinity());
  const at::Tensor logs = at::log_softmax(logits, 1);
  return {.log_probabilities = logs.gather(1, to_tensor(taken, device).unsqueeze(1)).squeeze(1),
          .entropies = -(logs.exp() * logs.masked_fill(forbidden, 0)).sum(1)};
}

/// Computes what is not known yet.
void LmActor::find_out(std::span<const Key> keys) {
  std::vector<const Key*> unknown;
  for (const Key& key : keys)
    if (const auto [found, fresh] = known_.try_emplace(key); fresh) unknown.push_back(&found->first);
  const at::NoGradGuard no_grad;
  for (const auto& pass : passes(unknown)) {
    const Forward computed = forward(pass);
    const std::vector<double> logs = to_doubles(computed.log_probabilities);
    const std::vector<double> entropies = to_doubles(computed.entropies);
    std::ptrdiff_t first = 0;
    for (const Key* const key : pass) {
      const std::ptrdiff_t end = first + static_cast<std::ptrdiff_t>(key->second.size());
      known_[*key] = {{logs.begin() + first, logs.begin() + end},
                      {entropies.begin() + first, entropies.begin() + end}};
      first = end;
    }
  }
}

Result<std::vector<std::vector<double>>> LmActor::log_probabilities(
    std::span<const rl::PromptedAnswer> answers) {
  return without_exceptions([&]() -> Result<std::vector<std::vector<double>>> {
    std::vector<Key> keys;
    for (const auto& answer : answers) keys.emplace_back(answer.prompt->task, answer.answer->tokens);
    find_out(keys);
    std::vector<std::vector<double>> all;
    for (const Key& key : keys) all.push_back(known_.at(key).log_probabilities);
    return all;
  });
}

Result<double> LmActor::add_gradient(std::span<const rl::PromptedAnswer> answers,
                                     std::span<const std::vector<double>> by_log_probability,
                                     double entropy) {
  return without_exceptions([&]() -> Result<double> {
    struct Share {
      std::vector<float> by_log_probability;
      float count = 0;  // answers
    };
    std::map<Key, Share> shares;
    std::vector<Key> keys;  // in the order of the answers, which sums follow
    for (std::size_t i = 0; i < answers.size(); ++i) {
      Key key(answers[i].prompt->task, answers[i].answer->tokens);
      Share& share = shares[key];
      share.by_log_probability.resize(key.second.size(), 0);
      for (std::size_t t = 0; t < key.second.size(); ++t)
        share.by_log_probability[t] += static_cast<float>(by_log_probability[i][t]);
      if (share.count++ == 0) keys.push_back(std::move(key));
    }
    find_out(keys);
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
    const at::Device device = learner_.decoder().options().device;
    for (const auto& pass : passes(learned)) {
      std::vector<float> by_log, by_entropy;
      for (const Key* const key : pass) {
        const Share& share = shares.at(*key);
        by_log.insert(by_log.end(), share.by_log_probability.begin(), share.by_log_probability.end());
        by_entropy.insert(by_entropy.end(), key->second.size(),
                          static_cast<float>(-entropy * static_cast<double>(share.count) / count));
      }
      const Forward computed = forward(pass);
      at::Tensor loss = (computed.log_probabilities * to_tensor(by_log, device)).sum();
      if (entropy > 0) loss = loss + (computed.entropies * to_tensor(by_entropy, device)).sum();
      learner_.backward(loss);
    }
    return entropies;
  });
}

double LmActor::update(double learning_rate, double clip_norm) {
  const double norm = learner_.parameters().clip(clip_norm);
  learner_.parameters().update(options_.optimizer, learning_rate, updates_++);
  known_.clear();
  engine_is_behind_ = true;
  return norm;
}

Result<std::string> LmActor::save(const std::string& folder) {
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
    LATHE_CHECK_OK(learner_.load_state(folder + "/" + numbers));
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

#include "policy/local/local.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/guard.h"
#include "model/chat_tokens.h"
#include "policy/answers.h"

namespace lathe {
namespace {

constexpr int kMostFailures = 3;         // of the engine in a row
constexpr double kPollSeconds = 0.02;    // between looks at new requests while answers are awaited
constexpr std::uint64_t kSeedBits = 53;  // what a double holds, so that the record has the seed itself

/// A request of the search.
struct Work {
  ProposalTicket ticket = 0;
  ProposalRequest request;
  Prompt prompt = {};
  Blob prompt_blob = {}, prompt_tokens = {};
  GenerationRequest generation = {};
  Meter::Grant grant = {};
  std::uint64_t engine_request = 0;
  std::map<std::int32_t, Sample> samples = {};
  double seconds = 0;  ///< its share of the time in which the engine wrote
};

class LocalPolicy final : public Policy {
 public:
  LocalPolicy(LocalOptions options, Prompter prompter, Tokenizer tokenizer, std::optional<ChatTemplate> chat,
              std::unique_ptr<Engine> engine, EventSink& events)
      : options_(std::move(options)),
        prompter_(std::move(prompter)),
        tokenizer_(std::move(tokenizer)),
        chat_(std::move(chat)),
        events_(events),
        meter_(options_.budget, options_.spent_tokens, 0),
        engine_(std::move(engine)),
        info_(engine_->info()),
        writer_([this] { write(); }) {}

  ~LocalPolicy() override {
    {
      std::lock_guard lock(mutex_);
      stop_.cancel();
    }
    answers_.cancel_all();
    changed_.notify_all();
    writer_.join();
  }

  std::string name() const override {
    return "local:" + std::filesystem::path(options_.model).filename().string();
  }

  ProposalTicket ask(ProposalRequest request) override {
    request.cancel = request.cancel.child();
    if (request.independent) request.history.clear();
    const ProposalTicket ticket = answers_.open(request.cancel);
    std::lock_guard lock(mutex_);
    waiting_.push_back({ticket, std::move(request)});
    changed_.notify_all();
    return ticket;
  }

  std::optional<Proposed> poll(double timeout_seconds) override { return answers_.poll(timeout_seconds); }

 private:
  /// The thread that uses the engine.
  void write() {
    DeviceLane::Lease lease;
    for (;;) {
      std::deque<Work> fresh;
      {
        std::unique_lock lock(mutex_);
        if (active_.empty() && waiting_.empty()) lease = {};
        changed_.wait(lock, [&] { return stop_.cancelled() || !waiting_.empty() || !active_.empty(); });
        if (stop_.cancelled()) return;
        fresh.swap(waiting_);
      }
      for (Work& work : fresh) {
        const ProposalTicket ticket = work.ticket;
        const Status begun = without_exceptions([&] { return begin(std::move(work)); });
        if (!begun.ok()) answers_.close(ticket, begun.error());
      }
      drop_cancelled();
      if (active_.empty()) continue;
      if (!lease.held()) lease = take_lane();
      if (const Status taken = without_exceptions([&] { return take_answers(); }); !taken.ok())
        recover(taken.error());
    }
  }

  DeviceLane::Lease take_lane() {
    if (!options_.lane) return {};
    auto lease = options_.lane->take(DeviceLane::Use::kWork, DeviceLane::Grain::kStage, stop_);
    if (!lease.held()) lease = options_.lane->take(DeviceLane::Use::kWork, DeviceLane::Grain::kBlock, stop_);
    return lease;
  }

  Status begin(Work work) {
    if (work.request.cancel.cancelled())
      return Error{ErrorCode::kCancelled, "cancelled before it was answered"};
    const PolicyContext& context = work.request.context;
    LATHE_TRY(const auto grammar, grammar_of(context));
    const std::int64_t longest = grammar.longest ? *grammar.longest + 1 : options_.answer_tokens;
    LATHE_TRY(const auto wording, options_.language->wording(context));
    PromptOptions prompt = options_.prompt;
    const std::int64_t kept = std::min(longest, std::int64_t{info_.context} / 2);
    prompt.max_tokens = std::min(prompt.max_tokens, info_.context - kept);
    prompt.count = [this](std::string_view text) {
      return static_cast<std::int64_t>(tokenizer_.encode(text, SpecialTokens::kAsText).size());
    };
    LATHE_TRY(work.prompt,
              prompter_.render({*context.task, context.device, context.peaks, work.request.history,
                                work.request.use, wording ? &*wording : nullptr},
                               prompt));
    std::vector<ChatMessage> messages;
    for (Message& message : work.prompt.messages) {
      message.content = without_special(tokenizer_, std::move(message.content));
      messages.push_back({message.role, message.content});
    }
    GenerationRequest& generation = work.generation;
    LATHE_TRY(generation.prompt, encode_chat(tokenizer_, chat_ ? &*chat_ : nullptr, messages));
    work.prompt_blob = Blob::of(messages_text(work.prompt.messages));
    work.prompt_tokens = pack<std::int32_t>(generation.prompt);

    const auto length = static_cast<std::int64_t>(generation.prompt.size());
    const std::int64_t answer = std::min(longest, std::max<std::int64_t>(info_.context - length, 1));
    if (answer < longest && !grammar.longest && !std::exchange(shortened_, true))
      events_.on_event(
          {Severity::kWarning, "model.context",
           fmt::format("an answer to a prompt of {} tokens may have {} of the {} asked for: the model's "
                       "context here is {} tokens",
                       length, answer, longest, info_.context)});
    const auto grant = meter_.reserve(length, std::max(1, work.request.count), answer);
    if (!grant) {
      events_.on_event({Severity::kInfo, "model.budget", "the budget for the model is spent"});
      answers_.close(work.ticket, std::vector<Proposal>());
      return Ok{};
    }
    work.grant = *grant;
    generation.samples = grant->samples;
    generation.max_tokens = static_cast<std::int32_t>(grant->answer_tokens);
    generation.sampling.temperature = static_cast<float>(temperature_of(work.request));
    generation.sampling.top_p = static_cast<float>(options_.top_p);
    generation.sampling.seed = Rng(work.request.seed.derive("local")).next() >> (64 - kSeedBits);
    generation.stop_texts = options_.language->stop_texts();
    generation.grammar = grammar.tokens;
    return submit(std::move(work));
  }

  Status submit(Work work) {
    if (!engine_) {
      auto started = options_.start_engine();
      if (!started.ok()) {
        meter_.settle(work.grant, 0, 0);
        return std::move(started).error();
      }
      engine_ = *std::move(started);
    }
    auto request = engine_->submit(work.generation);
    if (!request.ok() && request.error().code == ErrorCode::kInvalid) {
      meter_.settle(work.grant, 0, 0);
      return std::move(request).error();
    }
    // An engine that has ended tells so when it is asked for answers.
    work.engine_request = request.ok() ? *request : 0;
    if (active_.empty()) last_news_ns_ = last_look_ns_ = steady_clock().now_ns();
    active_.push_back(std::move(work));
    if (!request.ok()) recover(request.error());
    return Ok{};
  }

  double temperature_of(const ProposalRequest& request) const {
    return request.temperature.value_or(options_.temperature);
  }

  void drop_cancelled() {
    for (auto work = active_.begin(); work != active_.end();) {
      if (!work->request.cancel.cancelled()) {
        ++work;
        continue;
      }
      if (engine_) engine_->cancel(work->engine_request);
      settle(*work);
      answers_.close(work->ticket, Error{ErrorCode::kCancelled, "stopped while the model wrote"});
      work = active_.erase(work);
    }
  }

  /// What is there; waits a little for the first. Errors are the engine's.
  Status take_answers() {
    const std::int64_t now_ns = steady_clock().now_ns();
    const double passed = static_cast<double>(now_ns - last_look_ns_) * 1e-9;
    for (Work& work : active_) work.seconds += passed / static_cast<double>(active_.size());
    last_look_ns_ = now_ns;
    double patience = kPollSeconds;
    for (auto work = active_.begin(); work != active_.end();) {
      auto news = engine_->wait(work->engine_request, patience);
      patience = 0;
      if (!news.ok() && news.error().code == ErrorCode::kTimeout) {
        ++work;
        continue;
      }
      if (!news.ok() && news.error().code == ErrorCode::kInvalid) {
        settle(*work);
        answers_.close(work->ticket, std::move(news).error());
        work = active_.erase(work);
        continue;
      }
      if (!news.ok()) return std::move(news).error();
      last_news_ns_ = steady_clock().now_ns();
      failures_ = 0;
      for (Sample& sample : news->samples) work->samples.insert_or_assign(sample.index, std::move(sample));
      if (!news->done) {
        ++work;
        continue;
      }
      deliver(*work);
      work = active_.erase(work);
    }
    if (!active_.empty() && seconds_since(last_news_ns_) > options_.patience_seconds)
      return Error{ErrorCode::kTimeout,
                   fmt::format("the engine gave no answer for {:.0f} s", options_.patience_seconds),
                   "shorten answers with --answer-tokens, or allow more with --request-seconds"};
    return Ok{};
  }

  /// A new engine is asked what the old one had under way.
  void recover(const Error& error) {
    engine_.reset();
    std::list<Work> lost = std::exchange(active_, {});
    const auto give_up = [&](const Error& reason) {
      for (const Work& work : lost) {
        settle(work);
        answers_.close(work.ticket, reason);
      }
      failures_ = 0;
    };
    if (++failures_ >= kMostFailures)
      return give_up(
          {ErrorCode::kUnavailable,
           fmt::format("the model's engine failed {} times in a row: {}", kMostFailures, error.message),
           "if it was killed, memory ran out: take a smaller model, or fewer --branches, "
           "--answer-tokens and --prompt-tokens"});
    events_.on_event(
        {Severity::kWarning, "model.engine", "the model's engine is started again: " + error.message});
    auto started = options_.start_engine();
    if (!started.ok()) return give_up(started.error());
    engine_ = *std::move(started);
    last_news_ns_ = last_look_ns_ = steady_clock().now_ns();
    for (Work& work : lost) {
      auto request = engine_->submit(work.generation);
      work.engine_request = request.ok() ? *request : 0;
    }
    active_ = std::move(lost);
  }

  static double answer_tokens(const Work& work) {
    double sum = 0;
    for (const auto& [index, sample] : work.samples) sum += static_cast<double>(sample.tokens.size());
    return sum;
  }

  void settle(const Work& work) {
    meter_.settle(work.grant, static_cast<double>(work.generation.prompt.size()), answer_tokens(work));
  }

  void deliver(const Work& work) {
    settle(work);
    events_.on_event({Severity::kInfo, "model.answer",
                      fmt::format("the model wrote {} answers, {} tokens in {:.1f} s", work.samples.size(),
                                  answer_tokens(work), work.seconds)});
    auto proposals = without_exceptions([&]() -> Result<std::vector<Proposal>> {
      std::vector<Proposal> made;
      for (const auto& [index, sample] : work.samples) made.push_back(proposal_of(work, sample));
      return made;
    });
    answers_.close(work.ticket, std::move(proposals));
  }

  Proposal proposal_of(const Work& work, const Sample& sample) const {
    const std::string text = tokenizer_.decode(sample.tokens);
    const auto length = static_cast<std::int64_t>(sample.tokens.size());
    Proposal proposal = propose_answer(*options_.language, work.request, name(),
                                       {text, sample.finish == FinishReason::kLength ? length : 0});
    const auto samples = static_cast<double>(work.samples.size());
    const GenerationRequest& asked = work.generation;
    Generation generation;
    generation.model = fmt::format("{} {} {}", std::filesystem::path(options_.model).filename().string(),
                                   info_.precision, info_.weights.hex());
    generation.tokenizer = info_.tokenizer.hex();
    generation.sampling = {{"temperature", temperature_of(work.request)},
                           {"top_p", options_.top_p},
                           {"max_tokens", static_cast<double>(asked.max_tokens)},
                           {"seed", static_cast<double>(asked.sampling.seed)},
                           {"sample", static_cast<double>(sample.index)},
                           {"grammar", asked.grammar ? 1.0 : 0.0}};
    generation.group = work.request.group;
    generation.turn = work.request.turn;
    generation.cost = {{"prompt_tokens", static_cast<double>(asked.prompt.size()) / samples},
                       {"answer_tokens", static_cast<double>(length)},
                       {"seconds", work.seconds / samples}};
    generation.prompt = work.prompt_blob;
    generation.prompt_tokens = work.prompt_tokens;
    generation.answer = Blob::of(text);
    generation.answer_tokens = pack<std::int32_t>(sample.tokens);
    generation.answer_log_probabilities = pack<float>(sample.log_probs);
    generation.loss_mask = pack<std::uint8_t>(std::vector<std::uint8_t>(sample.tokens.size(), 1));
    proposal.generation = std::move(generation);
    return proposal;
  }

  /// Of a task, in tokens. The last one is kept: a run has one task.
  struct Grammar {
    Digest task = {};
    std::shared_ptr<const TokenAutomaton> tokens = {};  ///< null: any text
    std::optional<std::int64_t> longest = {};           ///< text; nullopt: without bound
  };
  Result<Grammar> grammar_of(const PolicyContext& context) {
    if (grammar_ && grammar_->task == context.task->digest) return *grammar_;
    Grammar made{.task = context.task->digest};
    LATHE_TRY(const auto texts, options_.language->grammar(context));
    if (texts) {
      LATHE_TRY(const TokenId end, end_of_turn(tokenizer_, chat_ ? &*chat_ : nullptr));
      LATHE_TRY(made.tokens, token_automaton(*texts, tokenizer_, end));
      made.longest = texts->longest_text();
    }
    grammar_ = made;
    return made;
  }

  const LocalOptions options_;
  const Prompter prompter_;
  const Tokenizer tokenizer_;
  const std::optional<ChatTemplate> chat_;
  EventSink& events_;

  std::mutex mutex_;  // of what follows, up to the writer's own
  std::condition_variable changed_;
  std::deque<Work> waiting_;
  Answers answers_;
  const CancelToken stop_;

  Meter meter_;
  bool shortened_ = false;          ///< said that answers are shorter than asked for
  std::unique_ptr<Engine> engine_;  ///< null after it has failed
  const EngineInfo info_;
  std::list<Work> active_;
  std::optional<Grammar> grammar_;
  std::int64_t last_news_ns_ = 0, last_look_ns_ = 0;
  int failures_ = 0;
  std::thread writer_;
};

}  // namespace

Result<std::unique_ptr<Policy>> make_local_policy(LocalOptions options, EventSink& events) {
  LATHE_TRY(Prompter prompter, Prompter::load(options.prompts_folder));
  LATHE_TRY(Tokenizer tokenizer, Tokenizer::open(options.model));
  std::optional<ChatTemplate> chat;
  if (auto found = ChatTemplate::open(options.model); found.ok())
    chat = *std::move(found);
  else if (found.error().code != ErrorCode::kNotFound)
    return std::move(found).error();
  LATHE_TRY(auto engine, options.start_engine());
  if (const EngineInfo& info = engine->info(); !info.no_gpu.empty())
    events.on_event({Severity::kWarning, "model.device",
                     fmt::format("the model computes on {}, many times slower than on a GPU: {}", info.device,
                                 info.no_gpu)});
  return std::unique_ptr<Policy>(std::make_unique<LocalPolicy>(std::move(options), std::move(prompter),
                                                               std::move(tokenizer), std::move(chat),
                                                               std::move(engine), events));
}

}  // namespace lathe

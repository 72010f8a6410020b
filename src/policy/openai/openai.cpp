#include "policy/openai/openai.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/guard.h"
#include "base/http/client.h"
#include "policy/answers.h"

namespace lathe {
namespace {

using openai::Choice;
using openai::Completion;

constexpr int kMostSamples = 16;  // of one HTTP request

/// A request of the search, answered by one or several HTTP requests.
struct Work {
  ProposalTicket ticket = 0;
  ProposalRequest request;
  Prompt prompt;
  Blob prompt_blob;
  std::vector<Proposal> proposals = {};
  std::optional<Error> error = {};
  int jobs = 0;  ///< under way or waiting
};

struct Job {
  std::shared_ptr<Work> work;
  int samples = 1;
  std::uint64_t number = 0;  ///< of its work
};

class OpenAiPolicy final : public Policy {
 public:
  OpenAiPolicy(OpenAiOptions options, Prompter prompter, EventSink& events)
      : options_(std::move(options)),
        prompter_(std::move(prompter)),
        events_(events),
        endpoint_(options_.endpoint, events),
        meter_(options_.budget, options_.spent_tokens, options_.spent_usd) {
    for (int i = 0; i < options_.concurrency; ++i) workers_.emplace_back([this] { work_on_jobs(); });
  }

  ~OpenAiPolicy() override {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    answers_.cancel_all();
    changed_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  std::string name() const override { return "openai:" + options_.model; }

  ProposalTicket ask(ProposalRequest request) override {
    request.cancel = request.cancel.child();
    if (request.independent) request.history.clear();
    const ProposalTicket ticket = answers_.open(request.cancel);
    auto prompt = render(request);
    if (!prompt.ok()) {
      answers_.close(ticket, std::move(prompt).error());
      return ticket;
    }
    const auto work = std::make_shared<Work>(Work{ticket, std::move(request), *std::move(prompt), {}});
    work->prompt_blob = Blob::of(messages_text(work->prompt.messages));
    std::lock_guard lock(mutex_);
    add_jobs(work, std::max(1, work->request.count));
    changed_.notify_all();
    return ticket;
  }

  std::optional<Proposed> poll(double timeout_seconds) override { return answers_.poll(timeout_seconds); }

 private:
  Result<Prompt> render(const ProposalRequest& request) const {
    const PolicyContext& context = request.context;
    LATHE_TRY(const auto wording, options_.language->wording(context));
    return prompter_.render({*context.task, context.device, context.peaks, request.history, request.use,
                             wording ? &*wording : nullptr},
                            options_.prompt);
  }

  /// Under the mutex.
  void add_jobs(const std::shared_ptr<Work>& work, int samples) {
    const int most = endpoint_.samples() ? kMostSamples : 1;
    while (samples > 0) {
      const int part = std::min(samples, most);
      jobs_.push_back({work, part, ++job_numbers_});
      ++work->jobs;
      samples -= part;
    }
  }

  void work_on_jobs() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopped_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      const Job job = std::move(jobs_.front());
      jobs_.pop_front();
      const bool failed = job.work->error.has_value();
      lock.unlock();
      auto proposals = failed || job.work->request.cancel.cancelled()
                           ? Error{ErrorCode::kCancelled, "cancelled before it was answered"}
                           : without_exceptions([&] { return answer(job); });
      lock.lock();
      finish(job, std::move(proposals));
    }
  }

  /// Under the mutex.
  void finish(const Job& job, Result<std::vector<Proposal>> proposals) {
    Work& work = *job.work;
    if (proposals.ok()) {
      const int missing = proposals->empty() ? 0 : job.samples - static_cast<int>(proposals->size());
      if (missing > 0) add_jobs(job.work, missing);
      std::move(proposals->begin(), proposals->end(), std::back_inserter(work.proposals));
    } else if (!work.error) {
      work.error = std::move(proposals).error();
    }
    if (--work.jobs == 0) {
      const bool nothing = work.proposals.empty() && work.error;
      answers_.close(work.ticket, nothing ? Result<std::vector<Proposal>>(*std::move(work.error))
                                          : Result<std::vector<Proposal>>(std::move(work.proposals)));
    }
    changed_.notify_all();
  }

  Result<std::vector<Proposal>> answer(const Job& job) {
    const Work& work = *job.work;
    const std::int64_t begin_ns = steady_clock().now_ns();
    const auto grant = meter_.reserve(work.prompt.tokens, job.samples, options_.answer_tokens);
    if (!grant) {
      events_.on_event({Severity::kInfo, "model.budget", "the budget for the model is spent"});
      return std::vector<Proposal>();
    }
    Rng rng(work.request.seed.derive("openai", job.number));
    openai::CompletionRequest request{options_.model, work.prompt.messages};
    request.samples = grant->samples;
    request.max_tokens = grant->answer_tokens;
    request.temperature = work.request.temperature.value_or(options_.temperature);
    request.top_p = options_.top_p;
    if (grant->samples == 1) request.seed = static_cast<std::uint32_t>(rng.next() >> 33);
    request.stream = options_.stream;
    request.logprobs = options_.logprobs;
    auto completed = endpoint_.complete(request, work.request.cancel, rng);
    if (!completed.ok()) {
      meter_.settle(*grant, 0, 0);
      return std::move(completed).error();
    }
    Completion& completion = *completed;
    if (static_cast<int>(completion.choices.size()) < request.samples) endpoint_.gives_one_answer();
    if (completion.prompt_tokens == 0) completion.prompt_tokens = work.prompt.tokens;
    // Some servers count one answer of several.
    std::int64_t counted = 0;
    bool exact = true;
    for (const Choice& choice : completion.choices) {
      counted += tokens_of(choice);
      exact &= !choice.log_probabilities.empty();
    }
    if (exact || completion.answer_tokens == 0)
      completion.answer_tokens = std::max(completion.answer_tokens, counted);
    meter_.settle(*grant, static_cast<double>(completion.prompt_tokens),
                  static_cast<double>(completion.answer_tokens));
    const double seconds = seconds_since(begin_ns);
    events_.on_event({Severity::kInfo, "model.answer",
                      fmt::format("the model wrote {} answers, {} tokens in {:.1f} s",
                                  completion.choices.size(), completion.answer_tokens, seconds)});
    std::vector<Proposal> proposals;
    for (const Choice& choice : completion.choices)
      proposals.push_back(proposal_of(work, completion, choice, seconds));
    return proposals;
  }

  std::int64_t tokens_of(const Choice& choice) const {
    if (!choice.log_probabilities.empty()) return static_cast<std::int64_t>(choice.log_probabilities.size());
    return options_.prompt.count(choice.text);
  }

  Proposal proposal_of(const Work& work, const Completion& completion, const Choice& choice,
                       double seconds) const {
    const ProposalRequest& request = work.request;
    Proposal proposal =
        propose_answer(*options_.language, request, name(),
                       {choice.text, choice.finish_reason == "length" ? tokens_of(choice) : 0});

    double all = 0;
    for (const Choice& each : completion.choices) all += static_cast<double>(tokens_of(each));
    const double share = all > 0 ? static_cast<double>(tokens_of(choice)) / all : 1;
    const double samples = static_cast<double>(completion.choices.size());
    const double prompt_tokens = static_cast<double>(completion.prompt_tokens) / samples;
    const double answer_tokens = static_cast<double>(completion.answer_tokens) * share;
    Generation generation;
    generation.model = completion.model.empty() ? options_.model : completion.model;
    generation.tokenizer = "of " + generation.model;
    generation.sampling = {{"temperature", request.temperature.value_or(options_.temperature)},
                           {"top_p", options_.top_p},
                           {"max_tokens", static_cast<double>(options_.answer_tokens)}};
    generation.group = request.group;
    generation.turn = request.turn;
    generation.cost = {{"prompt_tokens", prompt_tokens},
                       {"answer_tokens", answer_tokens},
                       {"seconds", seconds / samples},
                       {"usd", options_.budget.price(prompt_tokens, answer_tokens)}};
    generation.prompt = work.prompt_blob;
    generation.answer = Blob::of(choice.text);
    if (!choice.log_probabilities.empty())
      generation.answer_log_probabilities = pack<float>(choice.log_probabilities);
    if (!choice.tokens.empty()) generation.answer_tokens = pack<std::int32_t>(choice.tokens);
    proposal.generation = std::move(generation);
    return proposal;
  }

  const OpenAiOptions options_;
  const Prompter prompter_;
  EventSink& events_;
  openai::Endpoint endpoint_;
  Meter meter_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  Answers answers_;
  std::uint64_t job_numbers_ = 0;
  bool stopped_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace

Result<std::unique_ptr<Policy>> make_openai_policy(OpenAiOptions options, EventSink& events) {
  std::string& url = options.endpoint.url;
  while (url.ends_with("/")) url.pop_back();
  if (const Status checked = http::check_url(url); !checked.ok())
    return invalid(checked.error().message,
                   "write it as http://127.0.0.1:8080/v1; keys come from the environment (--api-key-env)");
  LATHE_TRY(Prompter prompter, Prompter::load(options.prompts_folder));
  if (!options.endpoint.key.empty() && url.starts_with("http://") && !http::is_loopback(url))
    events.on_event({Severity::kWarning, "model.plain",
                     "the API key crosses the network unencrypted: the endpoint is http://"});
  if (options.model.empty()) {
    LATHE_TRY(const auto models, openai::Endpoint(options.endpoint, events).models({}));
    if (models.size() != 1)
      return invalid("the endpoint does not have just one model: name it with --model",
                     models.empty() ? "" : fmt::format("it has: {}", fmt::join(models, ", ")));
    options.model = models.front();
  }
  return std::unique_ptr<Policy>(
      std::make_unique<OpenAiPolicy>(std::move(options), std::move(prompter), events));
}

}  // namespace lathe

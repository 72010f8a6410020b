#include "lm/local_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/guard.h"

namespace lathe::lm {
namespace {

/// A request and what has become of it. The worker owns all but `news` and `cancelled`.
struct Job {
  std::uint64_t id = 0;
  GenerationRequest request;
  std::int32_t started = 0;  ///< samples
  std::int32_t running = 0;
  std::vector<std::int32_t> prompt_pages = {};  ///< of all tokens but the last, once they are computed
  std::vector<Sample> news = {};
  bool cancelled = false;
  bool done = false;

  std::int32_t length() const { return static_cast<std::int32_t>(request.prompt.size()); }
};

/// A row of the batch.
struct Row {
  std::shared_ptr<Job> job;  ///< null: idle
  std::uint64_t serial = 0;  ///< distinguishes its answers from those of the row's earlier tenants
  std::vector<std::int32_t> pages = {};
  Sample sample = {};
  std::string tail = {};  ///< of the answer's text, as long as stop texts need
  std::int32_t most_tokens = 0;
  std::int32_t grammar_state = 0;
};

class LocalEngine final : public Engine {
 public:
  LocalEngine(std::unique_ptr<Runner> runner, LocalEngineOptions options)
      : runner_(std::move(runner)),
        options_(std::move(options)),
        pool_(options_.runner.pages),
        rows_(static_cast<std::size_t>(options_.runner.max_batch)),
        worker_([this] { work(); }) {}

  ~LocalEngine() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    worker_.join();
  }

  const EngineInfo& info() const override { return options_.info; }

  Result<std::uint64_t> submit(GenerationRequest request) override {
    LATHE_CHECK_OK(check_request(request, options_.info.vocab, options_.info.context));
    if (!request.stop_texts.empty() && !options_.token_bytes)
      return invalid("stop texts need a tokenizer", "give stop sequences of tokens");
    auto job = std::make_shared<Job>(Job{.request = std::move(request)});
    std::erase(job->request.stop_texts, "");
    std::erase(job->request.stop_tokens, std::vector<TokenId>{});
    if (const std::int32_t needed = pages_of(*job) + 1; needed >= options_.runner.pages)
      return invalid(fmt::format("an answer of up to {} tokens needs {} pages of the cache, which has {}",
                                 most_tokens(*job), needed, options_.runner.pages),
                     "ask for fewer tokens, or open the engine with a larger cache");
    std::lock_guard lock(mutex_);
    if (fault_) return *fault_;
    job->id = ++last_id_;
    jobs_.emplace(job->id, job);
    queue_.push_back(job);
    changed_.notify_all();
    return job->id;
  }

  Result<GenerationNews> wait(std::uint64_t request, double timeout_seconds) override {
    std::unique_lock lock(mutex_);
    const auto found = jobs_.find(request);
    if (found == jobs_.end())
      return Error{ErrorCode::kNotFound, fmt::format("no request {} is under way", request)};
    const std::shared_ptr<Job> job = found->second;
    const auto ready = [&] { return !job->news.empty() || job->done || job->cancelled || fault_; };
    const auto limit = std::chrono::duration<double>(std::clamp(timeout_seconds, 0.0, 1e8));
    if (!news_.wait_for(lock, limit, ready)) return Error{ErrorCode::kTimeout, "no answer is ready"};
    if (fault_) return *fault_;
    if (job->cancelled) return Error{ErrorCode::kNotFound, fmt::format("request {} was cancelled", request)};
    GenerationNews news{std::exchange(job->news, {}), job->done};
    if (job->done) jobs_.erase(request);
    return news;
  }

  void cancel(std::uint64_t request) override {
    std::lock_guard lock(mutex_);
    const auto found = jobs_.find(request);
    if (found == jobs_.end()) return;
    found->second->cancelled = true;
    jobs_.erase(found);
    changed_.notify_all();
    news_.notify_all();
  }

 private:
  std::int32_t most_tokens(const Job& job) const {
    return std::min(job.request.max_tokens, options_.info.context - job.length());
  }
  /// For prompt and answer, and for the steps that are under way when an answer's end is seen.
  std::int32_t pages_of(const Job& job) const {
    return pages_for(job.length() + most_tokens(job) + runner_->depth() - 1);
  }

  void work() {
    const Status ended = without_exceptions([this] { return serve(); });
    if (ended.ok()) return;
    std::lock_guard lock(mutex_);
    fault_ = ended.error();
    news_.notify_all();
  }

  Status serve() {
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        const auto has_work = [&] { return stopping_ || !queue_.empty() || active_ > 0 || !steps_.empty(); };
        if (!has_work()) {
          lock.unlock();
          end_turn();
          lock.lock();
        }
        changed_.wait(lock, has_work);
        if (stopping_) return Ok{};
        std::erase_if(queue_, [this](const auto& job) {
          if (job->cancelled && job->running == 0) pool_.release(std::exchange(job->prompt_pages, {}));
          return job->cancelled;
        });
        for (Row& row : rows_)
          if (row.job && row.job->cancelled) dropped_.push_back(&row);
        ready_.assign(queue_.begin(), queue_.end());
      }
      begin_turn();
      for (Row* row : std::exchange(dropped_, {})) vacate(*row);
      admit();
      if (active_ > 0) launch();
      if (!steps_.empty() && (active_ == 0 || static_cast<std::int32_t>(steps_.size()) >= runner_->depth()))
        LATHE_CHECK_OK(take_step());
      if (!turn_is_over()) continue;
      while (!steps_.empty()) LATHE_CHECK_OK(take_step());
      end_turn();
    }
  }

  void begin_turn() {
    if (!options_.take_turn || turn_) return;
    turn_ = options_.take_turn();
    turn_began_ns_ = steady_clock().now_ns();
  }
  bool turn_is_over() const {
    return turn_ &&
           static_cast<double>(steady_clock().now_ns() - turn_began_ns_) > 1e9 * options_.turn_seconds;
  }
  void end_turn() {
    if (!turn_) return;
    runner_->settle();
    turn_.reset();
  }

  /// Starts samples of the requests in order as long as there are rows and pages.
  void admit() {
    std::size_t row = 0;
    for (const auto& job : ready_) {
      while (job->started < job->request.samples) {
        while (row < rows_.size() && rows_[row].job) ++row;
        if (row == rows_.size() || !can_start(*job)) return;
        start(job, row);
      }
      std::lock_guard lock(mutex_);
      std::erase(queue_, job);
    }
  }

  bool can_start(const Job& job) const {
    const bool is_first = job.started == 0;
    const std::int32_t shared = is_first ? 0 : (job.length() - 1) / kPageTokens;
    return pool_.free_pages() >= pages_of(job) - shared + (is_first ? 1 : 0);
  }

  void start(const std::shared_ptr<Job>& job, std::size_t index) {
    const auto& prompt = job->request.prompt;
    const std::int32_t before = job->length() - 1;  // tokens that the cache holds when the row starts
    if (job->started == 0 && before > 0) {
      for (std::int32_t i = 0; i < pages_for(before); ++i) job->prompt_pages.push_back(pool_.take());
      runner_->prefill(std::span(prompt).first(static_cast<std::size_t>(before)), 0, job->prompt_pages);
    }
    Row& row = rows_[index];
    row = {.job = job, .serial = ++last_serial_};
    row.sample.index = job->started++;
    row.most_tokens = most_tokens(*job);
    const bool is_last = job->started == job->request.samples;
    const std::int32_t whole = before / kPageTokens;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(job->prompt_pages.size()); ++i) {
      std::int32_t page = job->prompt_pages[static_cast<std::size_t>(i)];
      if (!is_last && i < whole) {
        pool_.share(page);
      } else if (!is_last) {  // the answer goes on in this page
        const std::int32_t own = pool_.take();
        runner_->copy_page(page, own);
        page = own;
      }
      row.pages.push_back(page);
    }
    if (is_last) job->prompt_pages.clear();
    while (static_cast<std::int32_t>(row.pages.size()) < pages_of(*job)) row.pages.push_back(pool_.take());
    runner_->start_row(static_cast<std::int32_t>(index),
                       {.token = prompt.back(),
                        .position = before,
                        .pages = row.pages,
                        .sampling = job->request.sampling,
                        .stream = static_cast<std::uint64_t>(row.sample.index),
                        .grammar = job->request.grammar});
    ++job->running;
    ++active_;
  }

  void vacate(Row& row) {
    runner_->stop_row(static_cast<std::int32_t>(&row - rows_.data()));
    pool_.release(row.pages);
    Job& job = *row.job;
    if (--job.running == 0 && job.cancelled) pool_.release(std::exchange(job.prompt_pages, {}));
    row.job.reset();
    --active_;
  }

  void launch() {
    std::size_t rows = rows_.size();
    while (!rows_[rows - 1].job) --rows;
    std::vector<std::uint64_t> serials(rows, 0);
    for (std::size_t i = 0; i < rows; ++i)
      if (rows_[i].job) serials[i] = rows_[i].serial;
    runner_->launch(static_cast<std::int32_t>(rows));
    steps_.push_back(std::move(serials));
  }

  Status take_step() {
    LATHE_TRY(const std::span<const Drawn> drawn, runner_->collect());
    const std::vector<std::uint64_t> serials = std::move(steps_.front());
    steps_.pop_front();
    for (std::size_t i = 0; i < serials.size(); ++i) {
      Row& row = rows_[i];
      if (!row.job || row.serial != serials[i]) continue;
      row.sample.tokens.push_back(drawn[i].token);
      row.sample.log_probs.push_back(drawn[i].log_prob);
      row.sample.model_log_probs.push_back(drawn[i].model_log_prob);
      const auto reason = ends(row);
      if (!reason) continue;
      row.sample.finish = *reason;
      Job& job = *row.job;
      const bool done = job.running == 1 && job.started == job.request.samples;
      {
        std::lock_guard lock(mutex_);
        job.news.push_back(std::move(row.sample));
        job.done = done;
      }
      news_.notify_all();
      vacate(row);
    }
    return Ok{};
  }

  /// Whether the row's last token ends its answer.
  std::optional<FinishReason> ends(Row& row) const {
    const GenerationRequest& request = row.job->request;
    const auto& tokens = row.sample.tokens;
    if (!request.ignore_end &&
        std::ranges::find(options_.end_tokens, tokens.back()) != options_.end_tokens.end())
      return FinishReason::kEnd;
    for (const auto& stop : request.stop_tokens)
      if (tokens.size() >= stop.size() && std::equal(stop.rbegin(), stop.rend(), tokens.rbegin()))
        return FinishReason::kStop;
    if (completes_stop_text(row, tokens.back())) return FinishReason::kStop;
    if (request.grammar) {
      row.grammar_state = request.grammar->next(row.grammar_state, tokens.back());
      if (allows_nothing(*request.grammar, row.grammar_state)) return FinishReason::kGrammar;
    }
    if (static_cast<std::int32_t>(tokens.size()) >= row.most_tokens) return FinishReason::kLength;
    return std::nullopt;
  }

  bool completes_stop_text(Row& row, TokenId token) const {
    const auto& stops = row.job->request.stop_texts;
    if (stops.empty()) return false;
    row.tail += options_.token_bytes(token);
    std::size_t longest = 0;
    for (const auto& stop : stops) {
      if (row.tail.find(stop) != std::string::npos) return true;
      longest = std::max(longest, stop.size());
    }
    if (row.tail.size() >= longest) row.tail.erase(0, row.tail.size() - (longest - 1));
    return false;
  }

  static bool allows_nothing(const TokenAutomaton& grammar, std::int32_t state) {
    const auto& here = grammar.states[static_cast<std::size_t>(state)];
    return here.otherwise == TokenAutomaton::kForbidden &&
           std::ranges::all_of(here.arrows,
                               [](const auto& arrow) { return arrow.to == TokenAutomaton::kForbidden; });
  }

  const std::unique_ptr<Runner> runner_;
  const LocalEngineOptions options_;

  std::mutex mutex_;  // what follows, up to the worker's own
  std::condition_variable changed_, news_;
  std::map<std::uint64_t, std::shared_ptr<Job>> jobs_;  // that were not cancelled or told to be done
  std::deque<std::shared_ptr<Job>> queue_;              // with samples to start
  std::uint64_t last_id_ = 0;
  std::optional<Error> fault_;
  bool stopping_ = false;

  PagePool pool_;
  std::vector<Row> rows_;
  std::vector<Row*> dropped_;
  std::vector<std::shared_ptr<Job>> ready_;
  std::deque<std::vector<std::uint64_t>> steps_;  // under way: the serial of each row
  std::uint64_t last_serial_ = 0;
  std::int32_t active_ = 0;
  std::shared_ptr<void> turn_;
  std::int64_t turn_began_ns_ = 0;

  std::thread worker_;
};

}  // namespace

std::unique_ptr<Engine> make_local_engine(std::unique_ptr<Runner> runner, LocalEngineOptions options) {
  return std::make_unique<LocalEngine>(std::move(runner), std::move(options));
}

}  // namespace lathe::lm

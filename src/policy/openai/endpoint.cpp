#include "policy/openai/endpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <thread>

#include "base/clock.h"

namespace lathe::openai {
namespace {

constexpr std::size_t kShownModels = 8;
constexpr std::size_t kLookedAt = 64;
constexpr std::size_t kLeastSecret = 4;  // shorter ones are words that answers may hold

bool may_pass(int status) {
  return status == 408 || status == 409 || status == 425 || status == 429 || status >= 500;
}

Status sleep_for(double seconds, const CancelToken& cancel) {
  const std::int64_t begin_ns = steady_clock().now_ns();
  while (seconds_since(begin_ns) < seconds) {
    if (cancel.cancelled()) return Error{ErrorCode::kCancelled, "cancelled between two requests"};
    std::this_thread::sleep_for(
        std::chrono::duration<double>(std::min(0.05, std::max(0.0, seconds - seconds_since(begin_ns)))));
  }
  return Ok{};
}

bool is_web_page(std::string_view body) {
  const std::size_t begin = body.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && body[begin] == '<';
}

}  // namespace

/// What one attempt gave.
struct Endpoint::Tried {
  Result<Completion> completion;
  bool again = false;       ///< the same may succeed later
  bool at_once = false;     ///< the request has changed
  double wait_seconds = 0;  ///< that the server asks for
};

std::string Endpoint::without_key(std::string text) const {
  if (options_.key.size() < kLeastSecret) return text;
  for (std::size_t at; (at = text.find(options_.key)) != std::string::npos;)
    text.replace(at, options_.key.size(), "[key]");
  return text;
}

Dialect Endpoint::dialect() const {
  std::lock_guard lock(mutex_);
  return dialect_;
}

bool Endpoint::samples() const { return dialect().samples; }

void Endpoint::gives_one_answer() {
  std::lock_guard lock(mutex_);
  dialect_.samples = false;
}

http::Request Endpoint::to(const std::string& path, const CancelToken& cancel) const {
  http::Request request{.url = options_.url + path, .cancel = cancel};
  if (!options_.key.empty()) request.headers.push_back("Authorization: Bearer " + options_.key);
  request.idle_seconds = options_.idle_seconds;
  request.total_seconds = options_.request_seconds;
  return request;
}

Result<http::Reply> Endpoint::exchange(const http::Request& request) const {
  auto reply = http::exchange(request);
  if (reply.ok() || !reply.error().hint.empty()) return reply;
  Error error = std::move(reply).error();
  if (error.code == ErrorCode::kUnavailable) error.hint = "start the server, or check --endpoint";
  if (error.code == ErrorCode::kTimeout) error.hint = "raise --request-seconds, or ask for shorter answers";
  return error;
}

Result<std::vector<std::string>> Endpoint::models(const CancelToken& cancel) {
  http::Request request = to("/models", cancel);
  request.total_seconds = std::min(30.0, options_.request_seconds);
  LATHE_TRY(const http::Reply reply, exchange(request));
  if (reply.status != 200) return refusal(reply, "", cancel);
  return model_names(without_key(reply.body));
}

Error Endpoint::refusal(const http::Reply& reply, const std::string& model, const CancelToken& cancel) {
  const std::string said = without_key(error_text(reply.body));
  const std::string what =
      fmt::format("{} answers {}{}{}", options_.url, reply.status, said.empty() ? "" : ": ", said);
  if (reply.status == 401 || reply.status == 403)
    return {ErrorCode::kUnavailable, what,
            options_.key.empty() ? "put a key into LATHE_API_KEY, or name its variable with --api-key-env"
                                 : "check the key in the environment"};
  if (reply.status == 404 && !model.empty()) {
    const auto names = models(cancel);
    if (!names.ok() || names->empty())
      return {ErrorCode::kNotFound, what, "check --endpoint, which usually ends with /v1, and --model"};
    const auto end = names->begin() + static_cast<std::ptrdiff_t>(std::min(names->size(), kShownModels));
    return {ErrorCode::kNotFound, fmt::format("{} (asked for model '{}')", what, model),
            fmt::format("it has: {}", fmt::join(names->begin(), end, ", "))};
  }
  if (reply.status == 400 || reply.status == 413 || reply.status == 422)
    return {ErrorCode::kInvalid, what,
            "if the prompt is too long for the model, lower --prompt-tokens and --answer-tokens"};
  if (reply.status >= 300 && reply.status < 400)
    return {ErrorCode::kInvalid, what, "name the place that it redirects to with --endpoint"};
  if (reply.status == 429)
    return {ErrorCode::kUnavailable, what, "wait, lower --concurrency, or check the account's limits"};
  return {ErrorCode::kUnavailable, what, "look at the server's log"};
}

Endpoint::Tried Endpoint::try_once(const CompletionRequest& request, const CancelToken& cancel) {
  CompletionReader reader(request.samples);
  http::Request call = to("/chat/completions", cancel);
  call.headers.push_back("Content-Type: application/json");
  call.body = request_body(request, dialect());
  std::string streamed;  // its beginning
  if (request.stream)
    call.on_data = [&](std::string_view data) {
      streamed += data.substr(0, kLookedAt - std::min(streamed.size(), kLookedAt));
      return reader.read_stream(data);
    };
  const auto reply = exchange(call);
  if (!reply.ok()) {
    const ErrorCode code = reply.error().code;
    const bool nobody = code == ErrorCode::kUnavailable && !has_answered_;
    return {reply.error(), !nobody && code != ErrorCode::kCancelled && code != ErrorCode::kInvalid};
  }
  if (reply->status != 200) {
    if (reply->status == 400 || reply->status == 422) {
      std::lock_guard lock(mutex_);
      if (dialect_.give_up(error_text(reply->body)))
        return {Error{ErrorCode::kInvalid, "an option was refused"}, true, true};
    }
    return {refusal(*reply, request.model, cancel), may_pass(reply->status), false,
            reply->retry_after_seconds};
  }
  if (is_web_page(request.stream ? streamed : reply->body))
    return {Error{ErrorCode::kInvalid, fmt::format("{} answers with a web page", options_.url),
                  "name the interface's address with --endpoint; it usually ends with /v1"},
            false};
  has_answered_ = true;
  const Status read = request.stream ? reader.finish_stream() : reader.read_whole(reply->body);
  if (!read.ok()) return {read.error(), true};
  Completion completion = reader.take();
  std::erase_if(completion.choices, [](const Choice& choice) { return !choice.complete(); });
  if (completion.choices.empty())
    return {Error{ErrorCode::kIo, fmt::format("{} ended its answer in the middle", options_.url),
                  "look at the server's log"},
            true};
  for (Choice& choice : completion.choices) choice.text = without_key(std::move(choice.text));
  completion.model = without_key(std::move(completion.model));
  return {std::move(completion)};
}

Result<Completion> Endpoint::complete(const CompletionRequest& request, const CancelToken& cancel, Rng& rng) {
  constexpr int kMostChanges = 8;
  int changes = 0;
  for (int retry = 0;;) {
    CompletionRequest changed = request;
    if (!dialect().samples) changed.samples = 1;
    Tried tried = try_once(changed, cancel);
    if (tried.completion.ok() || !tried.again) return std::move(tried.completion);
    if (tried.at_once && ++changes <= kMostChanges) continue;
    Error error = std::move(tried.completion).error();
    error.message = without_key(std::move(error.message));
    if (retry == options_.max_retries) return error;
    const double grown = std::min(60.0, options_.first_wait_seconds * std::pow(2.0, retry));
    const double wait = std::max(tried.wait_seconds, grown * (0.5 + 0.5 * rng.uniform()));
    if (wait > options_.longest_wait_seconds) {
      error.message += fmt::format("; it asks to wait {:.0f} s", wait);
      return error;
    }
    ++retry;
    events_.on_event({Severity::kInfo, "model.retry",
                      fmt::format("{}; asking again in {:.1f} s ({} of {})", error.message, wait, retry,
                                  options_.max_retries)});
    LATHE_CHECK_OK(sleep_for(wait, cancel));
  }
}

}  // namespace lathe::openai

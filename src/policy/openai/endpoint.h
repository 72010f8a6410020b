#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "base/cancel.h"
#include "base/events.h"
#include "base/http/client.h"
#include "base/random.h"
#include "policy/openai/completion.h"

namespace lathe::openai {

struct EndpointOptions {
  std::string url;       ///< as far as "/v1"
  std::string key = {};  ///< empty: none is sent
  double request_seconds = 900;
  double idle_seconds = 300;
  int max_retries = 5;            ///< of one request
  double first_wait_seconds = 1;  ///< before the first retry; doubles with each, with jitter
  double longest_wait_seconds = 120;
};

/// An OpenAI-compatible server. Thread-safe.
class Endpoint {
 public:
  Endpoint(EndpointOptions options, EventSink& events) : options_(std::move(options)), events_(events) {}

  /// Asks for a completion, and again after what may pass: 408, 409, 425, 429 and 5xx (for as long
  /// as Retry-After says), broken connections, cut streams, bad JSON. Options that the server
  /// refuses by name are left out from then on. It may return fewer choices than asked for; those
  /// are complete. Errors say what to do; none holds the key.
  Result<Completion> complete(const CompletionRequest& request, const CancelToken& cancel, Rng& rng);

  /// The models that the server says it has. Errors as above.
  Result<std::vector<std::string>> models(const CancelToken& cancel);

  /// Whether it has shown that it samples several answers to one request, or may do so still.
  bool samples() const;
  /// It gave fewer answers than it was asked for.
  void gives_one_answer();

  /// `text` with the key blotted out, wherever a server may have put it.
  std::string without_key(std::string text) const;

 private:
  struct Tried;
  Tried try_once(const CompletionRequest& request, const CancelToken& cancel);
  Error refusal(const http::Reply& reply, const std::string& model, const CancelToken& cancel);
  http::Request to(const std::string& path, const CancelToken& cancel) const;
  Result<http::Reply> exchange(const http::Request& request) const;
  Dialect dialect() const;

  const EndpointOptions options_;
  EventSink& events_;
  mutable std::mutex mutex_;
  Dialect dialect_;  ///< guarded by mutex_
  std::atomic<bool> has_answered_ = false;
};

}  // namespace lathe::openai

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/openai/sse.h"
#include "prompt/prompter.h"

namespace lathe::openai {

/// Which of the protocol's options a server understands. All, until it says otherwise.
struct Dialect {
  bool samples = true;  ///< "n" above 1
  bool logprobs = true;
  bool seed = true;
  bool stream_options = true;
  bool max_completion_tokens = false;  ///< in place of "max_tokens"

  /// Gives up the option that a refusal complains of. False: it complains of none.
  bool give_up(std::string_view complaint);
};

struct CompletionRequest {
  std::string model;
  std::vector<Message> messages;
  int samples = 1;
  std::int64_t max_tokens = 4096;
  double temperature = 1;
  double top_p = 1;
  std::optional<std::uint32_t> seed = {};
  bool stream = true;
  bool logprobs = true;
};

/// The body of a request.
std::string request_body(const CompletionRequest& request, const Dialect& dialect);

/// One sample.
struct Choice {
  std::string text;           ///< what was thought, if the server tells, stands in <think> tags before it
  std::string finish_reason;  ///< "stop", "length"; empty: the answer was cut
  std::vector<std::int32_t> tokens;      ///< empty where the server gives no ids
  std::vector<float> log_probabilities;  ///< of each token as sampled; empty where it gives none

  bool complete() const { return !finish_reason.empty(); }
};

struct Completion {
  std::vector<Choice> choices;
  std::string model;               ///< as the server names it, with its fingerprint
  std::int64_t prompt_tokens = 0;  ///< 0: it does not say
  std::int64_t answer_tokens = 0;  ///< of all choices
};

/// Reads a completion from untrusted bytes: whole, or event by event. Never throws; what it keeps
/// is bounded.
class CompletionReader {
 public:
  static constexpr std::size_t kMaxTextBytes = std::size_t{4} << 20;  ///< of one choice
  static constexpr std::size_t kMaxTokens = std::size_t{1} << 20;     ///< of one choice

  explicit CompletionReader(int samples);

  /// A reply that was not streamed. Errors: kCorrupt for what is no completion; what an "error"
  /// object says.
  Status read_whole(std::string_view body);
  /// Bytes of a stream. The same errors.
  Status read_stream(std::string_view bytes) { return events_.read(bytes); }
  /// The stream has ended.
  Status finish_stream() { return events_.finish(); }
  /// What has been read; choices that were not begun are missing.
  Completion take();

 private:
  struct Parts {
    Choice choice;
    std::string thought;
    bool begun = false;
    bool ids = true;  ///< every token had an id
  };
  Status read_object(std::string_view text, bool whole);

  std::vector<Parts> parts_;
  Completion completion_;
  SseReader events_;
  bool done_ = false;
};

/// What an error reply says, in one line.
std::string error_text(std::string_view body);

/// The names in a reply to GET /models; empty for what is none.
std::vector<std::string> model_names(std::string_view body);

}  // namespace lathe::openai

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "model/tokenizer.h"

namespace lathe {

/// From which distribution tokens are drawn: softmax(logits / temperature), cut to the `top_k` most
/// probable tokens, of these to the fewest with `top_p` of the mass, and normalised again. Tokens
/// within 3e-5 of the last one's logit are kept with it.
struct Sampling {
  float temperature = 1;  ///< 0: the most probable token, of equal ones the first
  float top_p = 1;
  std::int32_t top_k = 0;  ///< 0: all
  /// Sample i of a request depends on the request, the seed and i, not on what else is computed
  /// beside it.
  std::uint64_t seed = 0;
};

/// Which tokens may follow, as data: a deterministic automaton that starts in state 0 and moves
/// with each token. A token is allowed in a state if an arrow names it, or else if the state is
/// open.
struct TokenAutomaton {
  static constexpr std::int32_t kForbidden = -1;

  struct Arrow {
    TokenId token = 0;
    std::int32_t to = kForbidden;  ///< a state, or kForbidden: an exception in an open state
  };
  struct State {
    std::vector<Arrow> arrows;            ///< ascending by token
    std::int32_t otherwise = kForbidden;  ///< where all other tokens lead
  };
  std::vector<State> states;

  /// kForbidden where `token` is not allowed.
  std::int32_t next(std::int32_t state, TokenId token) const;
};

struct GenerationRequest {
  std::vector<TokenId> prompt;  ///< at least one
  std::int32_t samples = 1;
  std::int32_t max_tokens = 256;  ///< of each answer
  Sampling sampling;
  /// An answer ends with the token that completes one of these, or with the model's end of text.
  std::vector<std::string> stop_texts;
  std::vector<std::vector<TokenId>> stop_tokens;
  bool ignore_end = false;  ///< go on after the end of text: for measurements
  std::shared_ptr<const TokenAutomaton> grammar = {};
};

enum class FinishReason : std::uint8_t {
  kEnd,      ///< the model's end of text, which is the last token
  kStop,     ///< a stop text or sequence, which the last token completes
  kLength,   ///< max_tokens, or the model's context is full
  kGrammar,  ///< the automaton allows no token more
};

struct Sample {
  std::int32_t index = 0;       ///< in its request
  std::vector<TokenId> tokens;  ///< the answer's, with what ended it
  /// Of each token under the distribution that it was drawn from: after temperature, grammar, top-k
  /// and top-p.
  std::vector<float> log_probs;
  /// Of each token under softmax(logits): temperature 1, nothing cut.
  std::vector<float> model_log_probs;
  FinishReason finish = FinishReason::kLength;
};

/// Samples that a request has finished since it was last asked.
struct GenerationNews {
  std::vector<Sample> samples;
  bool done = false;  ///< none is left
};

/// What distinguishes one engine from another, for the record of an experience.
struct EngineInfo {
  std::string model;      ///< the file
  std::string device;     ///< "cpu (2 threads)", "cuda: NVIDIA H200"
  std::string precision;  ///< of weights and arithmetic: "f32", "bf16"
  std::string no_gpu;     ///< why it computes on a processor though the machine has a GPU; else empty
  Digest weights;         ///< of all weights as stored
  Digest tokenizer;
  std::int32_t vocab = 0;
  std::int32_t context = 0;    ///< tokens of prompt and answer, at most
  std::int32_t max_batch = 0;  ///< answers that are computed at once
};

/// Generates text with a language model. Thread-safe. Requests are served side by side: an answer
/// that ends makes room for the next one.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual const EngineInfo& info() const = 0;
  /// The request's name. Errors: kInvalid for what can never be served, with the reason.
  virtual Result<std::uint64_t> submit(GenerationRequest request) = 0;
  /// Waits for a sample of the request; 0 only looks. Errors: kTimeout while there is none,
  /// kNotFound for a request that is done or cancelled, and what ended the engine.
  virtual Result<GenerationNews> wait(std::uint64_t request, double timeout_seconds) = 0;
  /// Its remaining samples are dropped. Unknown requests are ignored.
  virtual void cancel(std::uint64_t request) = 0;
};

/// All samples of one request, by index.
Result<std::vector<Sample>> generate(Engine& engine, GenerationRequest request);

/// Why no engine of this vocabulary and context can serve it; prompts are taken whole.
Status check_request(const GenerationRequest& request, std::int32_t vocab, std::int32_t context);

}  // namespace lathe

#include "model/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lathe {
namespace {

constexpr std::int32_t kMostSamples = 1 << 16;
constexpr double kPatienceSeconds = 3600;
constexpr float kLeastTemperature = 1e-3F;  // below it 1 / temperature leaves a float's range at last

Status check_tokens(const std::vector<TokenId>& tokens, std::int32_t vocab, std::string_view what) {
  for (const TokenId token : tokens)
    if (token < 0 || token >= vocab)
      return invalid(fmt::format("{} has token {}, but the vocabulary has {}", what, token, vocab),
                     "use the tokenizer of the model's own file");
  return Ok{};
}

Status check_grammar(const TokenAutomaton& grammar, std::int32_t vocab) {
  const auto states = static_cast<std::int32_t>(grammar.states.size());
  if (states == 0) return invalid("a grammar without states");
  const auto leads_nowhere = [&](std::int32_t to) { return to < TokenAutomaton::kForbidden || to >= states; };
  for (const auto& state : grammar.states) {
    if (leads_nowhere(state.otherwise)) return invalid("a grammar's state leads to one that does not exist");
    for (std::size_t i = 0; i < state.arrows.size(); ++i) {
      const auto& arrow = state.arrows[i];
      if (leads_nowhere(arrow.to)) return invalid("a grammar's arrow leads to a state that does not exist");
      if (arrow.token < 0 || arrow.token >= vocab)
        return invalid("a grammar's arrow has a token beyond the vocabulary");
      if (i > 0 && state.arrows[i - 1].token >= arrow.token)
        return invalid("a grammar's arrows are not ascending by token");
    }
  }
  return Ok{};
}

}  // namespace

std::int32_t TokenAutomaton::next(std::int32_t state, TokenId token) const {
  const State& from = states[static_cast<std::size_t>(state)];
  const auto found = std::ranges::lower_bound(from.arrows, token, {}, &Arrow::token);
  return found != from.arrows.end() && found->token == token ? found->to : from.otherwise;
}

Status check_request(const GenerationRequest& request, std::int32_t vocab, std::int32_t context) {
  if (request.prompt.empty())
    return invalid("an empty prompt", "begin with the model's start token where there is no text");
  LATHE_CHECK_OK(check_tokens(request.prompt, vocab, "the prompt"));
  for (const auto& stop : request.stop_tokens) LATHE_CHECK_OK(check_tokens(stop, vocab, "a stop sequence"));
  if (request.prompt.size() >= static_cast<std::size_t>(context))
    return invalid(fmt::format("a prompt of {} tokens leaves no room in a context of {}",
                               request.prompt.size(), context),
                   "shorten the prompt, or open the engine with a longer context");
  if (request.samples < 1 || request.samples > kMostSamples)
    return invalid(fmt::format("{} samples: 1 to {} are possible", request.samples, kMostSamples));
  if (request.max_tokens < 1) return invalid("max_tokens must be at least 1");
  const Sampling& sampling = request.sampling;
  if (!std::isfinite(sampling.temperature) ||
      (sampling.temperature != 0 && sampling.temperature < kLeastTemperature))
    return invalid(fmt::format("the temperature must be 0, or {} or more", kLeastTemperature));
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) return invalid("top_p must be above 0 and at most 1");
  if (sampling.top_k < 0) return invalid("top_k must be 0 (all tokens) or more");
  if (request.grammar) LATHE_CHECK_OK(check_grammar(*request.grammar, vocab));
  return Ok{};
}

Result<std::vector<Sample>> generate(Engine& engine, GenerationRequest request) {
  LATHE_TRY(const std::uint64_t id, engine.submit(std::move(request)));
  std::vector<Sample> samples;
  for (;;) {
    auto news = engine.wait(id, kPatienceSeconds);
    if (!news.ok()) {
      engine.cancel(id);
      return std::move(news).error();
    }
    std::ranges::move(news->samples, std::back_inserter(samples));
    if (news->done) break;
  }
  std::ranges::sort(samples, {}, &Sample::index);
  return samples;
}

}  // namespace lathe

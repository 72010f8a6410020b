#include "policy/openai/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "prompt/fence.h"
#include "record/json.h"

namespace lathe::openai {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 32;

Error corrupt(const std::string& what) {
  return {ErrorCode::kCorrupt, "the endpoint's reply is no chat completion: " + what,
          "check that --endpoint names an OpenAI-compatible API, usually with /v1 at its end"};
}

Result<json> parse(std::string_view text) {
  if (json_nesting(text) > kMaxDepth) return corrupt("it nests too deep");
  auto parsed = parse_json(text, "reply");
  if (!parsed.ok()) return corrupt(quoted_line(text, 120));
  return parsed;
}

/// A member of an object; nullptr where there is none, or null.
const json* member(const json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string_view text_of(const json& object, const char* name) {
  const json* const value = member(object, name);
  return value && value->is_string() ? std::string_view(value->get_ref<const std::string&>()) : "";
}

std::int64_t count_of(const json& object, const char* name) {
  const json* const value = member(object, name);
  if (!value || !value->is_number_integer()) return 0;
  return std::clamp(value->get<std::int64_t>(), std::int64_t{0}, std::int64_t{1} << 40);
}

std::string error_of(const json& object) {
  const json* const error = member(object, "error");
  if (!error) return "";
  if (error->is_string()) return quoted_line(error->get_ref<const std::string&>());
  const std::string_view message = text_of(*error, "message");
  return quoted_line(message.empty() ? std::string_view(json_text(*error)) : message);
}

}  // namespace

bool Dialect::give_up(std::string_view complaint) {
  const auto names = [&](std::string_view word) { return complaint.find(word) != std::string_view::npos; };
  const auto drop = [](bool& option) { return std::exchange(option, false); };
  if (names("max_completion_tokens") && !max_completion_tokens) return max_completion_tokens = true;
  if (names("stream_options") && drop(stream_options)) return true;
  if (names("logprobs") && drop(logprobs)) return true;
  if (names("seed") && drop(seed)) return true;
  const bool about_n = names("'n'") || names("\"n\"") || names("`n`") || names("n > 1") || names("n=1") ||
                       names("n must be") || names("n should be") || names("one completion choice");
  return about_n && drop(samples);
}

std::string request_body(const CompletionRequest& request, const Dialect& dialect) {
  json body = {{"model", request.model}, {"temperature", request.temperature}, {"stream", request.stream}};
  for (const Message& message : request.messages)
    body["messages"].push_back({{"role", message.role}, {"content", message.content}});
  body[dialect.max_completion_tokens ? "max_completion_tokens" : "max_tokens"] = request.max_tokens;
  if (request.top_p < 1) body["top_p"] = request.top_p;
  if (request.samples > 1) body["n"] = request.samples;
  if (request.seed && dialect.seed) body["seed"] = *request.seed;
  if (request.logprobs && dialect.logprobs) {
    body["logprobs"] = true;
    body["top_logprobs"] = 1;  // llama.cpp gives none at 0, and 20 where nothing is said
  }
  if (request.stream && dialect.stream_options) body["stream_options"] = {{"include_usage", true}};
  return json_text(body);
}

CompletionReader::CompletionReader(int samples)
    : parts_(static_cast<std::size_t>(std::max(1, samples))),
      events_([this](std::string_view data) -> Status {
        if (data == "[DONE]") done_ = true;
        return done_ ? Status(Ok{}) : read_object(data, false);
      }) {}

Status CompletionReader::read_whole(std::string_view body) { return read_object(body, true); }

Status CompletionReader::read_object(std::string_view text, bool whole) {
  LATHE_TRY(const json object, parse(text));
  if (!object.is_object()) return corrupt("it is no object");
  if (const std::string error = error_of(object); !error.empty())
    return Error{ErrorCode::kUnavailable, "the endpoint says: " + error};
  const std::string_view model = text_of(object, "model"),
                         fingerprint = text_of(object, "system_fingerprint");
  if (!model.empty() && completion_.model.empty())
    completion_.model = quoted_line(
        fingerprint.empty() ? std::string(model) : fmt::format("{} ({})", model, fingerprint), 200);
  if (const json* const usage = member(object, "usage")) {
    completion_.prompt_tokens = std::max(completion_.prompt_tokens, count_of(*usage, "prompt_tokens"));
    completion_.answer_tokens = std::max(completion_.answer_tokens, count_of(*usage, "completion_tokens"));
  }
  const json* const choices = member(object, "choices");
  if (!choices) return whole ? Status(corrupt("it has no choices")) : Status(Ok{});
  if (!choices->is_array()) return corrupt("its choices are no list");
  for (const json& choice : *choices) {
    if (!choice.is_object()) return corrupt("a choice is no object");
    const std::int64_t index = count_of(choice, "index");
    if (index >= static_cast<std::int64_t>(parts_.size()))
      return corrupt("it has more choices than asked for");
    Parts& parts = parts_[static_cast<std::size_t>(index)];
    parts.begun = true;
    if (const json* const message = member(choice, whole ? "message" : "delta")) {
      if (const json* const content = member(*message, "content"); content && !content->is_string())
        return corrupt("the content of a choice is no text");
      parts.choice.text += text_of(*message, "content");
      const std::string_view thought = text_of(*message, "reasoning_content");
      parts.thought += thought.empty() ? text_of(*message, "reasoning") : thought;
    }
    if (parts.choice.text.size() + parts.thought.size() > kMaxTextBytes)
      return corrupt("an answer is longer than 4 MiB");
    if (const std::string_view reason = text_of(choice, "finish_reason"); !reason.empty())
      parts.choice.finish_reason = reason.substr(0, 40);
    const json* const logprobs = member(choice, "logprobs");
    const json* const tokens = logprobs ? member(*logprobs, "content") : nullptr;
    if (!tokens || !tokens->is_array()) continue;
    for (const json& token : *tokens) {
      const json* const logprob = member(token, "logprob");
      const json* const id = member(token, "id");
      if (!logprob || !logprob->is_number()) return corrupt("a token has no log-probability");
      if (parts.choice.log_probabilities.size() >= kMaxTokens)
        return corrupt("an answer has too many tokens");
      parts.choice.log_probabilities.push_back(static_cast<float>(std::max(-1e30, logprob->get<double>())));
      parts.ids &= id && id->is_number_integer();
      if (parts.ids)
        parts.choice.tokens.push_back(static_cast<std::int32_t>(
            std::clamp<std::int64_t>(id->get<std::int64_t>(), -1, std::int64_t{1} << 30)));
    }
  }
  return Ok{};
}

Completion CompletionReader::take() {
  for (Parts& parts : parts_) {
    if (!parts.begun) continue;
    if (!parts.ids) parts.choice.tokens.clear();
    if (!parts.thought.empty())
      parts.choice.text = "<think>" + parts.thought + "</think>\n" + parts.choice.text;
    completion_.choices.push_back(std::move(parts.choice));
  }
  parts_.clear();
  return std::move(completion_);
}

std::string error_text(std::string_view body) {
  const auto object = parse(body);
  if (object.ok())
    if (std::string text = error_of(object->is_array() && !object->empty() ? object->front() : *object);
        !text.empty())
      return text;
  return quoted_line(body, 200);
}

std::vector<std::string> model_names(std::string_view body) {
  std::vector<std::string> names;
  const auto object = parse(body);
  const json* const data = object.ok() ? member(*object, "data") : nullptr;
  if (!data || !data->is_array()) return names;
  for (const json& model : *data)
    if (const std::string_view name = text_of(model, "id"); !name.empty() && names.size() < 1000)
      names.push_back(quoted_line(name, 120));
  return names;
}

}  // namespace lathe::openai

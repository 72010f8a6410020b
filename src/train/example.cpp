#include "train/example.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/fd.h"
#include "base/guard.h"
#include "model/chat_tokens.h"
#include "record/json.h"

namespace lathe::train {
namespace {

using Json = nlohmann::json;

template <class T>
Result<std::vector<T>> numbers(const Json& line, const char* key) {
  const Json& list = line.at(key);
  const auto fits = [](const Json& value) {
    if constexpr (std::is_integral_v<T>)
      return value.is_number_integer() && value >= 0 && value <= INT32_MAX;
    else
      return value.is_number() && std::isfinite(value.get<T>());
  };
  if (!list.is_array() || !std::all_of(list.begin(), list.end(), fits))
    return invalid(fmt::format("'{}' is no list of {}", key,
                               std::is_integral_v<T> ? "whole numbers from 0" : "finite numbers"));
  return list.get<std::vector<T>>();
}

Result<std::string> text_of(const Json& line, const char* key) {
  if (!line.at(key).is_string()) return invalid(fmt::format("'{}' is no text", key));
  return line.at(key).get<std::string>();
}

const ChatTemplate* template_of(const TextCoding& coding) { return coding.chat ? &*coding.chat : nullptr; }

/// Content must not end its own message.
Status refuse_special(const Tokenizer& tokenizer, const std::string& text, const char* key) {
  if (const auto token = find_special(tokenizer, text))
    return invalid(fmt::format("'{}' holds the special token {}", key, tokenizer.bytes(*token)),
                   "leave it out, or give the tokens");
  return Ok{};
}

Result<std::vector<TokenId>> encode_prompt(const std::string& prompt, const TextCoding& coding) {
  if (!coding.chat)
    return encode_chat(*coding.tokenizer, nullptr, std::vector<ChatMessage>{{"user", prompt}});
  LATHE_CHECK_OK(refuse_special(*coding.tokenizer, prompt, "prompt"));
  std::vector<ChatMessage> messages;
  if (!coding.system.empty()) messages.push_back({"system", coding.system});
  messages.push_back({"user", prompt});
  return encode_chat(*coding.tokenizer, &*coding.chat, messages);
}

Status read_tokens(const Json& line, const TextCoding& coding, Example& example) {
  const bool text = line.contains("prompt") && line.contains("answer");
  if (line.contains("prompt_tokens") && line.contains("answer_tokens")) {
    LATHE_TRY(example.prompt, numbers<TokenId>(line, "prompt_tokens"));
    LATHE_TRY(example.answer, numbers<TokenId>(line, "answer_tokens"));
    return Ok{};
  }
  if (!text) return invalid("it needs 'prompt' and 'answer', or 'prompt_tokens' and 'answer_tokens'");
  if (!coding.tokenizer)
    return invalid("texts need a tokenizer", "name a model that has one, or give token ids");
  LATHE_TRY(const std::string prompt, text_of(line, "prompt"));
  LATHE_TRY(const std::string answer, text_of(line, "answer"));
  LATHE_CHECK_OK(refuse_special(*coding.tokenizer, answer, "answer"));
  LATHE_TRY(example.prompt, encode_prompt(prompt, coding));
  example.answer = coding.tokenizer->encode(answer, SpecialTokens::kAsText);
  auto end = end_of_turn(*coding.tokenizer, template_of(coding));
  if (!end.ok()) {
    Error error = std::move(end).error();
    error.hint = "use data with token ids, or chat = false";
    return error;
  }
  example.answer.push_back(*end);
  return Ok{};
}

Status read_per_token(const Json& line, Example& example) {
  example.weights.assign(example.answer.size(), 1.0F);
  if (line.contains("loss_mask")) {
    if (!line.contains("answer_tokens")) return invalid("'loss_mask' needs 'answer_tokens'");
    LATHE_TRY(example.weights, numbers<float>(line, "loss_mask"));
    if (std::ranges::any_of(example.weights, [](float weight) { return weight < 0; }))
      return invalid("'loss_mask' holds a number below 0");
  }
  if (line.contains("log_probabilities")) {
    if (!line.contains("answer_tokens")) return invalid("'log_probabilities' needs 'answer_tokens'");
    LATHE_TRY(example.log_probs, numbers<float>(line, "log_probabilities"));
    if (example.log_probs.size() != example.answer.size())
      return invalid(fmt::format("{} answer tokens have {} log_probabilities", example.answer.size(),
                                 example.log_probs.size()));
  }
  if (example.weights.size() != example.answer.size())
    return invalid(fmt::format("{} answer tokens have a loss_mask of {}", example.answer.size(),
                               example.weights.size()));
  return Ok{};
}

Status read_origin(const Json& line, Origin& origin) {
  const auto integer = [&](const char* key, std::int64_t& to) -> Status {
    if (!line.contains(key)) return Ok{};
    if (!line.at(key).is_number_integer()) return invalid(fmt::format("'{}' is no whole number", key));
    to = line.at(key).get<std::int64_t>();
    return Ok{};
  };
  const auto digest = [&](const char* key, Digest& to) -> Status {
    if (!line.contains(key)) return Ok{};
    LATHE_TRY(const std::string hex, text_of(line, key));
    LATHE_TRY(to, Digest::from_hex(hex));
    return Ok{};
  };
  const auto text = [&](const char* key, std::string& to) -> Status {
    if (!line.contains(key)) return Ok{};
    LATHE_TRY(to, text_of(line, key));
    return Ok{};
  };
  LATHE_CHECK_OK(integer("experience", origin.experience));
  LATHE_CHECK_OK(text("run", origin.run));
  LATHE_CHECK_OK(integer("sequence", origin.sequence));
  LATHE_CHECK_OK(text("task_name", origin.task_name));
  LATHE_CHECK_OK(digest("task", origin.task));
  LATHE_CHECK_OK(digest("candidate", origin.candidate));
  if (line.contains("lineage")) {
    LATHE_TRY(origin.lineage, lineage_from_json(line.at("lineage")));
  }
  if (line.contains("generation")) {
    LATHE_TRY(origin.generation, generation_from_json(line.at("generation")));
  }
  if (line.contains("verdict")) {
    LATHE_TRY(origin.verdict, verdict_from_json(line.at("verdict")));
  }
  return Ok{};
}

constexpr const char* kKeys[] = {
    "kind",       "prompt", "answer",   "prompt_tokens", "answer_tokens", "loss_mask", "log_probabilities",
    "experience", "run",    "sequence", "task_name",     "task",          "candidate", "lineage",
    "generation", "verdict"};

void add_to(Hasher& hasher, const Example& example) {
  const auto bytes = [](const auto& values) {
    return std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0]));
  };
  hasher.add(bytes(example.prompt)).add(bytes(example.answer)).add(bytes(example.weights));
}

}  // namespace

double Example::total_weight() const { return std::accumulate(weights.begin(), weights.end(), 0.0); }

Result<Example> example_from_json(const Json& line, const TextCoding& coding) {
  if (!line.is_object()) return invalid("it is no JSON object");
  for (const auto& [key, value] : line.items())
    if (std::ranges::find(kKeys, std::string_view(key)) == std::end(kKeys))
      return invalid(fmt::format("the field '{}' is unknown", key), "docs/training.md lists the fields");
  Example example;
  LATHE_CHECK_OK(read_tokens(line, coding, example));
  LATHE_CHECK_OK(read_per_token(line, example));
  LATHE_CHECK_OK(read_origin(line, example.origin));
  if (example.prompt.empty() || example.answer.empty()) return invalid("prompt or answer has no tokens");
  return example;
}

Result<Dataset> read_dataset(const std::string& path, const TextCoding& coding, const DataLimits& limits) {
  LATHE_TRY(const std::string text, read_file(path));
  Dataset data;
  Hasher hasher;
  int line_number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const auto example = without_exceptions([&]() -> Result<Example> {
      LATHE_TRY(const Json json, parse_json(line, "the line"));
      LATHE_TRY(Example parsed, example_from_json(json, coding));
      for (const auto* tokens : {&parsed.prompt, &parsed.answer})
        for (const TokenId token : *tokens)
          if (token < 0 || token >= limits.vocab)
            return invalid(fmt::format("the token {} is not below {}", token, limits.vocab),
                           "the tokens are of another model");
      return parsed;
    });
    if (!example.ok()) {
      Error error = example.error();
      error.where = {path, line_number, 0};
      return error;
    }
    if (example->length() > limits.most_tokens) {
      ++data.too_long;
    } else if (example->total_weight() == 0) {
      ++data.uncounted;
    } else {
      add_to(hasher, *example);
      data.examples.push_back(*example);
    }
  }
  if (data.examples.empty())
    return invalid(
        fmt::format("no example is left: {} are longer than {} tokens, {} have no token that counts",
                    data.too_long, limits.most_tokens, data.uncounted),
        "give other data or longer rows", {path});
  data.digest = hasher.finish();
  return data;
}

}  // namespace lathe::train

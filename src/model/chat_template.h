#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lathe {

struct ChatMessage {
  std::string role;  ///< "system", "user", "assistant"
  std::string content;
};

/// A model's own template, which turns a conversation into the text that it was trained on: the
/// part of Jinja2 that such templates use, with bounds on steps, depth and output. May be used by
/// several threads.
class ChatTemplate {
 public:
  /// The template of a model: what Checkpoint::open() takes. Errors: kNotFound if it has none.
  static Result<ChatTemplate> open(const std::string& path);
  /// `name` is for errors, which give line and column of what is not understood. `bos` and `eos`
  /// become the template's bos_token and eos_token.
  static Result<ChatTemplate> parse(std::string source, std::string name, std::string bos = {},
                                    std::string eos = {});

  /// Errors (kInvalid): what the template raises itself ("roles must alternate"), with its place.
  Result<std::string> render(std::span<const ChatMessage> messages, bool add_generation_prompt) const;
  /// With any variables: `messages`, `tools`, `add_generation_prompt`, `enable_thinking`, ... A
  /// time is never read: `date_string` must be given where a template shall show one.
  Result<std::string> render(const nlohmann::ordered_json& variables) const;

 private:
  struct Program;
  explicit ChatTemplate(std::shared_ptr<const Program> program) : program_(std::move(program)) {}

  std::shared_ptr<const Program> program_;
};

}  // namespace lathe

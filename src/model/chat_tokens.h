#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/chat_template.h"
#include "model/tokenizer.h"

namespace lathe {

/// A conversation up to the place where the model answers, as token ids: the template's text, in
/// which the names of special tokens are these tokens, behind the BOS where the model was trained
/// with one. Contents must hold no such name (see find_special(), without_special()). Without a
/// template the contents follow each other, a blank line between.
Result<std::vector<TokenId>> encode_chat(const Tokenizer& tokenizer, const ChatTemplate* chat,
                                         std::span<const ChatMessage> messages);

/// What a model writes after its answer: with a template, the first token that ends a text which
/// the template puts there. Errors: the tokenizer or the template has none.
Result<TokenId> end_of_turn(const Tokenizer& tokenizer, const ChatTemplate* chat);

/// The first special token whose name is in a text from outside: it could end its own message.
std::optional<TokenId> find_special(const Tokenizer& tokenizer, std::string_view text);
/// Breaks such names by a space behind their first character.
std::string without_special(const Tokenizer& tokenizer, std::string text);

}  // namespace lathe

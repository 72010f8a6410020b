#include "model/chat_tokens.h"

#include <algorithm>

namespace lathe {

Result<std::vector<TokenId>> encode_chat(const Tokenizer& tokenizer, const ChatTemplate* chat,
                                         std::span<const ChatMessage> messages) {
  std::string text;
  if (chat) {
    LATHE_TRY(text, chat->render(messages, true));
  } else {
    for (const ChatMessage& message : messages) text += (text.empty() ? "" : "\n\n") + message.content;
  }
  auto tokens = tokenizer.encode(text, chat ? SpecialTokens::kParse : SpecialTokens::kAsText);
  const auto bos = tokenizer.bos();
  if (tokenizer.adds_bos() && bos && (tokens.empty() || tokens.front() != *bos))
    tokens.insert(tokens.begin(), *bos);
  return tokens;
}

Result<TokenId> end_of_turn(const Tokenizer& tokenizer, const ChatTemplate* chat) {
  if (tokenizer.stops().empty()) return invalid("the tokenizer has no token that ends a text");
  if (!chat) return tokenizer.stops().front();
  constexpr char kAnswer[] = "lathe-answer";
  const std::vector<ChatMessage> messages = {{"user", "?"}, {"assistant", kAnswer}};
  LATHE_TRY(const std::string text, chat->render(messages, false));
  const std::size_t at = text.rfind(kAnswer);
  if (at != std::string::npos)
    for (const TokenId token : tokenizer.encode(text.substr(at + sizeof kAnswer - 1), SpecialTokens::kParse))
      if (std::ranges::find(tokenizer.stops(), token) != tokenizer.stops().end()) return token;
  return invalid("the chat template ends an answer with no token that ends a text");
}

std::optional<TokenId> find_special(const Tokenizer& tokenizer, std::string_view text) {
  for (const TokenId token : tokenizer.encode(text, SpecialTokens::kParse))
    if (tokenizer.is_special(token)) return token;
  return std::nullopt;
}

std::string without_special(const Tokenizer& tokenizer, std::string text) {
  while (const auto token = find_special(tokenizer, text)) {
    const std::string name(tokenizer.bytes(*token));
    for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1))
      name.size() > 1 ? text.insert(at + 1, " ") : text.replace(at, 1, " ");
  }
  return text;
}

}  // namespace lathe

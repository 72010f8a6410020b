#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/result.h"

namespace lathe {

using TokenId = std::int32_t;

/// Whether text such as "<|im_end|>" becomes the special token of that name. Text from outside (a
/// task, a compiler's message, an answer) is never parsed, or it could end its own message.
enum class SpecialTokens : std::uint8_t { kAsText, kParse };

/// Byte-level BPE: text is split by the model's pattern, the pieces' bytes are merged by rank. May
/// be used by several threads at once. Copies share the vocabulary.
class Tokenizer {
 public:
  /// The tokenizer of a model: what Checkpoint::open() takes, where a folder has tokenizer.json
  /// (and optionally tokenizer_config.json and generation_config.json). Errors name the file and,
  /// for a tokenizer of another kind, the kinds that are known.
  static Result<Tokenizer> open(const std::string& path);

  /// Any bytes: those that are no UTF-8 are tokens of single bytes, or of merges of them. Adds no
  /// BOS.
  std::vector<TokenId> encode(std::string_view text, SpecialTokens special) const;

  /// Number of ids; may be less than the rows of the embedding matrix.
  std::int32_t size() const;
  /// What the token writes; may be part of a character. Empty for ids that have no token. 0 <= id,
  /// any.
  std::string_view bytes(TokenId id) const;
  /// Tokens that mark structure ("<|im_end|>"): not for people to see.
  bool is_special(TokenId id) const;
  std::optional<TokenId> find(std::string_view token_bytes) const;

  std::optional<TokenId> bos() const;
  /// Whether the model was trained with BOS in front of every text.
  bool adds_bos() const;
  /// Tokens that end an answer: end of text, and end of turn where there is one.
  const std::vector<TokenId>& stops() const;

  /// All bytes in order, special tokens included where `with_special`; may be no UTF-8 (see
  /// StreamDecoder).
  std::string decode(std::span<const TokenId> ids, bool with_special = false) const;

  /// Of vocabulary, merges and pattern: equal tokenizers give equal ids for equal text.
  const Digest& digest() const;

 private:
  friend class TokenizerBuilder;
  struct Tables;
  explicit Tokenizer(std::shared_ptr<const Tables> tables) : tables_(std::move(tables)) {}

  std::shared_ptr<const Tables> tables_;
};

/// Turns tokens into UTF-8 as they come: what push() returns never ends within a character, and
/// bytes that cannot become one are U+FFFD. Special tokens write nothing.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {}

  std::string push(TokenId id);
  /// What is left, at the end.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  std::string pending_;
};

}  // namespace lathe

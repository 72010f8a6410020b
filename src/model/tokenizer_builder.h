#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/pre_tokenizer.h"
#include "model/tokenizer.h"

namespace lathe {

class Gguf;

/// The parts of a tokenizer, as the reader of one file format found them.
class TokenizerBuilder {
 public:
  enum class Kind : std::uint8_t {
    kNone,         ///< the id has no token
    kText,         ///< made by merging
    kUserDefined,  ///< found in any text before it is split
    kControl,      ///< a special token
  };
  struct Token {
    std::string bytes;
    Kind kind = Kind::kNone;
  };

  std::string file;  ///< for errors
  PreTokenizer pre_tokenizer = PreTokenizer::kGpt2;
  bool normalises_nfc = false;
  bool ignores_merges = false;  ///< a piece that is a token is not merged
  std::vector<Token> tokens;
  std::vector<std::pair<TokenId, TokenId>> merges;  ///< by rank
  std::optional<TokenId> bos;
  bool adds_bos = false;
  std::vector<TokenId> stops;

  /// Errors (kCorrupt, kInvalid): tokens that occur twice, ids without a token, merges whose result
  /// is none.
  Result<Tokenizer> build() &&;
};

/// The bytes that the printable form of byte-level BPE stands for ("Ġthe" is " the"). Nothing if a
/// character is none of its alphabet.
std::optional<std::string> bytes_of_printable(std::string_view text);

Result<Tokenizer> tokenizer_of(const Gguf& gguf);
/// `json` is a tokenizer.json; `folder` has the other files.
Result<Tokenizer> tokenizer_from_json(std::string_view json, const std::string& file);
Result<Tokenizer> open_tokenizer_folder(const std::string& folder);

}  // namespace lathe

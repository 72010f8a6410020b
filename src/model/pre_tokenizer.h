#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lathe {

/// How a family of models splits text before its bytes are merged. The patterns are the families'
/// own regular expressions, written as scanners: they take linear time on any text.
enum class PreTokenizer : std::uint8_t {
  kGpt2,    ///< 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  kSmolLm,  ///< every \p{N} by itself, then what lies between as kGpt2
  kQwen2,   ///< kLlama3 with single \p{N}, after normalisation to NFC
  kLlama3,  ///< (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*
            ///< |\s*[\r\n]+|\s+(?!\S)|\s+
};

/// The regular expression of kQwen2 or kLlama3 as tokenizer.json files spell it.
std::string_view split_pattern(PreTokenizer kind);

/// By the name in GGUF files (tokenizer.ggml.pre). Errors name what is known.
Result<PreTokenizer> parse_pre_tokenizer(std::string_view ggml_name);

/// Appends the pieces of valid UTF-8, which together are the text.
void split_text(PreTokenizer kind, std::string_view text, std::vector<std::string_view>& pieces);

struct TextRun {
  std::string_view text;
  bool is_valid = false;  ///< UTF-8, up to where that ends; else bytes of which none begins a character
};
/// The run at the beginning of `text`, which is not empty.
TextRun next_run(std::string_view text);

/// Whether valid UTF-8 may change under normalisation to NFC; false is certain.
bool may_need_nfc(std::string_view text);
/// Valid UTF-8 in Unicode's composed form.
std::string to_nfc(std::string_view text);

}  // namespace lathe

#include <cstdint>
#include <cstdlib>
#include <string>

#include "model/gguf.h"
#include "model/pre_tokenizer.h"
#include "model/tokenizer_builder.h"

namespace {

/// Ids must exist. Where the vocabulary has every byte, text comes back as it was or normalised.
void use(const lathe::Tokenizer& tokenizer) {
  for (const char* text : {"hello <|im_end|> w\xc3\xa9\xff  \n12",
                           "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"})
    for (const auto special : {lathe::SpecialTokens::kParse, lathe::SpecialTokens::kAsText}) {
      const auto ids = tokenizer.encode(text, special);
      for (const lathe::TokenId id : ids)
        if (tokenizer.bytes(id).empty()) std::abort();
      lathe::StreamDecoder decoder(tokenizer);
      for (const lathe::TokenId id : ids) (void)decoder.push(id);
      (void)decoder.finish();
    }
}

}  // namespace

/// A tokenizer.json or a GGUF vocabulary of any bytes gives a tokenizer that works, or an error
/// with a message; and any text splits into pieces that together are the text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto from_json = lathe::tokenizer_from_json(bytes, "fuzz");
  if (from_json.ok()) {
    use(*from_json);
  } else if (from_json.error().message.empty()) {
    std::abort();
  }
  const auto gguf = lathe::Gguf::parse(std::as_bytes(std::span(bytes)), "fuzz");
  if (gguf.ok()) {
    const auto from_gguf = lathe::tokenizer_of(*gguf);
    if (from_gguf.ok()) use(*from_gguf);
  }
  for (std::string_view rest = bytes; !rest.empty();) {
    const auto [valid, is_valid] = lathe::next_run(rest);
    if (valid.empty()) std::abort();
    rest.remove_prefix(valid.size());
    if (!is_valid) continue;
    for (const auto kind : {lathe::PreTokenizer::kGpt2, lathe::PreTokenizer::kSmolLm,
                            lathe::PreTokenizer::kQwen2, lathe::PreTokenizer::kLlama3}) {
      std::vector<std::string_view> pieces;
      lathe::split_text(kind, valid, pieces);
      std::size_t total = 0;
      for (const std::string_view piece : pieces) total += piece.size();
      if (total != valid.size()) std::abort();
    }
    (void)lathe::to_nfc(valid);
  }
  return 0;
}

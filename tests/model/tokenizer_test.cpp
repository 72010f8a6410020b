#include "model/tokenizer.h"

#include <nlohmann/json.hpp>

#include "tests/model/fixtures.h"

namespace lathe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// The printable form of one byte in byte-level BPE.
std::string printable(int byte) {
  const bool itself = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
  int code = byte;
  if (!itself) {
    code = 0x100;
    for (int other = 0; other < byte; ++other)
      if (!((other >= '!' && other <= '~') || (other >= 0xa1 && other <= 0xac) || other >= 0xae)) ++code;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

/// Ids 0 to 255 are the bytes; then merges' results, then specials.
struct TinyVocabulary {
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
  std::vector<std::string> merges = {"h e", "l l", "he ll", "hell o", "Ġ w", "a a"};

  TinyVocabulary() {
    for (int byte = 0; byte < 256; ++byte) add(printable(byte), 1);
    for (const char* merged : {"he", "ll", "hell", "hello", "Ġw", "aa"}) add(merged, 1);
    add("<|im_start|>", 3);
    add("<|im_end|>", 3);
    add("<tool>", 4);
    add("[PAD]", 5);
  }
  void add(const std::string& text, std::int32_t type) {
    tokens.push_back(text);
    types.push_back(type);
  }

  GgufWriter gguf(const std::string& pre = "gpt-2") const {
    GgufWriter writer;
    writer.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", pre);
    writer.strings("tokenizer.ggml.tokens", tokens).integers("tokenizer.ggml.token_type", types);
    writer.strings("tokenizer.ggml.merges", merges);
    writer.number("tokenizer.ggml.bos_token_id", 262).number("tokenizer.ggml.eos_token_id", 263);
    writer.truth("tokenizer.ggml.add_bos_token", true);
    return writer;
  }

  nlohmann::json json() const {
    nlohmann::json vocab;
    nlohmann::json added = nlohmann::json::array();
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      if (types[id] == 1) vocab[tokens[id]] = id;
      if (types[id] == 3 || types[id] == 4)
        added.push_back({{"id", id}, {"content", tokens[id]}, {"special", types[id] == 3}});
    }
    return {{"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}},
            {"added_tokens", added},
            {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}}};
  }
};

class TokenizerTest : public testing::Test {
 protected:
  Result<Tokenizer> open(const GgufWriter& writer) {
    return Tokenizer::open(folder_.write("t.gguf", writer.bytes()));
  }
  Result<Tokenizer> open(const nlohmann::json& json) {
    folder_.write("tokenizer.json", json.dump());
    return Tokenizer::open(folder_.path());
  }
  template <class Source>
  std::string refusal(const Source& source) {
    const auto tokenizer = open(source);
    if (tokenizer.ok()) return "it was opened";
    EXPECT_FALSE(tokenizer.error().where.file.empty()) << tokenizer.error().message;
    EXPECT_FALSE(tokenizer.error().hint.empty()) << tokenizer.error().message;
    return tokenizer.error().message;
  }
  Tokenizer tiny() { return open(TinyVocabulary().gguf()).value(); }

  TemporaryFolder folder_;
};

TEST_F(TokenizerTest, MergesByRank) {
  EXPECT_THAT(tiny().encode("hello", SpecialTokens::kAsText), ElementsAre(259));
  EXPECT_THAT(tiny().encode("hell", SpecialTokens::kAsText), ElementsAre(258));
  EXPECT_THAT(tiny().encode("lll w", SpecialTokens::kAsText), ElementsAre(257, 'l', 260));
  EXPECT_THAT(tiny().encode("", SpecialTokens::kAsText), ElementsAre());
}

TEST_F(TokenizerTest, OfEqualMergesTheLeftmostGoesFirstAlsoInLongPieces) {
  EXPECT_THAT(tiny().encode("aaa", SpecialTokens::kAsText), ElementsAre(261, 'a'));
  for (const std::size_t length : {63u, 64u, 65u, 1001u}) {
    const auto ids = tiny().encode(std::string(length, 'a'), SpecialTokens::kAsText);
    EXPECT_EQ(ids.size(), (length + 1) / 2) << length;
    EXPECT_EQ(ids.front(), 261);
  }
}

TEST_F(TokenizerTest, SpecialTokensAreParsedOnlyOnRequest) {
  const Tokenizer tokenizer = tiny();
  EXPECT_THAT(tokenizer.encode("<|im_start|>hello<|im_end|>", SpecialTokens::kParse),
              ElementsAre(262, 259, 263));
  const auto plain = tokenizer.encode("<|im_end|>", SpecialTokens::kAsText);
  EXPECT_EQ(plain.size(), 10u);
  EXPECT_EQ(tokenizer.decode(plain), "<|im_end|>");
  EXPECT_THAT(tokenizer.encode("a<tool>", SpecialTokens::kAsText), ElementsAre('a', 264))
      << "user-defined ones always are";
}

TEST_F(TokenizerTest, AnyBytesComeBack) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  all += "\xe4\xb8 caf\u00e9 \xf0\x9f\x98";
  const Tokenizer tokenizer = tiny();
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(all, SpecialTokens::kParse)), all);
}

TEST_F(TokenizerTest, TellsOfItsTokens) {
  const Tokenizer tokenizer = tiny();
  EXPECT_EQ(tokenizer.size(), 266);
  EXPECT_EQ(tokenizer.bytes(260), " w");
  EXPECT_EQ(tokenizer.bytes(262), "<|im_start|>");
  EXPECT_EQ(tokenizer.bytes(265), "") << "unused";
  EXPECT_EQ(tokenizer.bytes(-1), "");
  EXPECT_EQ(tokenizer.bytes(9999), "");
  EXPECT_TRUE(tokenizer.is_special(263));
  EXPECT_FALSE(tokenizer.is_special(264));
  EXPECT_EQ(tokenizer.find("hello"), 259);
  EXPECT_EQ(tokenizer.find("<tool>"), 264);
  EXPECT_EQ(tokenizer.find("nothing"), std::nullopt);
  EXPECT_EQ(tokenizer.bos(), 262);
  EXPECT_TRUE(tokenizer.adds_bos());
  EXPECT_THAT(tokenizer.stops(), ElementsAre(263));
}

TEST_F(TokenizerTest, DecodingHidesSpecialTokensUnlessAsked) {
  const Tokenizer tokenizer = tiny();
  const std::vector<TokenId> ids = {262, 259, 263};
  EXPECT_EQ(tokenizer.decode(ids), "hello");
  EXPECT_EQ(tokenizer.decode(ids, true), "<|im_start|>hello<|im_end|>");
}

TEST_F(TokenizerTest, Qwen2NormalisesToNfc) {
  const Tokenizer tokenizer = open(TinyVocabulary().gguf("qwen2")).value();
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("e\u0301", SpecialTokens::kAsText)), "\u00e9");
  EXPECT_EQ(tiny().decode(tiny().encode("e\u0301", SpecialTokens::kAsText)), "e\u0301");
}

TEST_F(TokenizerTest, TheSameTokenizerFromBothFilesHasTheSameDigest) {
  TinyVocabulary vocabulary;
  const auto from_json = open(vocabulary.json());
  ASSERT_TRUE(from_json.ok()) << from_json.error().to_string();
  vocabulary.tokens.pop_back();  // a tokenizer.json has no unused tokens
  vocabulary.types.pop_back();
  EXPECT_EQ(open(vocabulary.gguf()).value().digest(), from_json->digest());
  vocabulary.merges.pop_back();
  EXPECT_NE(open(vocabulary.gguf()).value().digest(), from_json->digest());
}

TEST_F(TokenizerTest, ReadsTheOtherFilesOfAFolder) {
  folder_.write("tokenizer_config.json",
                R"({"bos_token": {"content": "<|im_start|>"}, "eos_token": "<|im_end|>"})");
  folder_.write("generation_config.json", R"({"eos_token_id": [263, 264]})");
  const auto tokenizer = open(TinyVocabulary().json());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().to_string();
  EXPECT_EQ(tokenizer->bos(), 262);
  EXPECT_FALSE(tokenizer->adds_bos());
  EXPECT_THAT(tokenizer->stops(), ElementsAre(263, 264));
}

TEST_F(TokenizerTest, KnowsThePreTokenizersOfTokenizerJson) {
  nlohmann::json json = TinyVocabulary().json();
  const nlohmann::json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const std::string llama3 =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  nlohmann::json split = {
      {"type", "Split"}, {"pattern", {{"Regex", llama3}}}, {"behavior", "Isolated"}, {"invert", false}};
  json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}};
  json["model"]["ignore_merges"] = true;
  json["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", {{{"SpecialToken", {{"id", "<|im_start|>"}}}}}}};
  const auto tokenizer = open(json);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().to_string();
  EXPECT_TRUE(tokenizer->adds_bos());
  json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a+)+";
  EXPECT_THAT(refusal(json),
              HasSubstr("pre_tokenizer is not one that Lathe knows: {\"pretokenizers\":[{\"behavior\""));
}

TEST_F(TokenizerTest, RefusesTokenizersOfOtherKinds) {
  GgufWriter spm;
  spm.string("tokenizer.ggml.model", "llama");
  EXPECT_THAT(refusal(spm), HasSubstr("the tokenizer 'llama' is unknown"));
  EXPECT_THAT(refusal(TinyVocabulary().gguf("mpt")), HasSubstr("the pre-tokenizer 'mpt' is unknown"));
  const auto with = [&](const char* pointer, const nlohmann::json& value) {
    nlohmann::json json = TinyVocabulary().json();
    json[nlohmann::json::json_pointer(pointer)] = value;
    return refusal(json);
  };
  EXPECT_THAT(with("/model/type", "Unigram"), HasSubstr("model is not one that Lathe knows"));
  EXPECT_THAT(with("/model/byte_fallback", true), HasSubstr("model is not one"));
  EXPECT_THAT(with("/model/end_of_word_suffix", "</w>"), HasSubstr("model is not one"));
  EXPECT_THAT(with("/normalizer", {{"type", "Lowercase"}}), HasSubstr("normalizer is not one"));
  EXPECT_THAT(with("/pre_tokenizer/add_prefix_space", true), HasSubstr("pre_tokenizer is not one"));
  EXPECT_THAT(with("/added_tokens/0/lstrip", true), HasSubstr("added token is not one"));
}

TEST_F(TokenizerTest, RefusesHostileVocabularies) {
  const auto with = [&](auto change) {
    TinyVocabulary vocabulary;
    change(vocabulary);
    return refusal(vocabulary.gguf());
  };
  EXPECT_THAT(with([](auto& v) { v.tokens[5] = "a"; }), HasSubstr("tokens 5 and 97 are the same"));
  EXPECT_THAT(with([](auto& v) { v.tokens[5] = ""; }), HasSubstr("token 5 is empty"));
  EXPECT_THAT(with([](auto& v) { v.types.pop_back(); }), HasSubstr("266 tokens have 265 types"));
  EXPECT_THAT(with([](auto& v) { v.types[3] = 6; }), HasSubstr("token 3 is of type 6"));
  EXPECT_THAT(with([](auto& v) { v.merges[0] = "he"; }), HasSubstr("merge 0 joins '', which is no token"));
  EXPECT_THAT(with([](auto& v) { v.merges[1] = "x <|im_end|>"; }),
              HasSubstr("merge 1 joins '<|im_end|>', which is no token"));
  EXPECT_THAT(with([](auto& v) { v.merges[1] = "x y"; }), HasSubstr("merge 1 makes 'xy', which is no token"));
  EXPECT_THAT(with([](auto& v) { v.merges.push_back("h e"); }), HasSubstr("merge 6 occurred before"));
  EXPECT_THAT(refusal(TinyVocabulary().gguf().number("tokenizer.ggml.eot_token_id", 9999)),
              HasSubstr("is 9999, which is no token"));
}

TEST_F(TokenizerTest, RefusesHostileTokenizerJson) {
  const auto with = [&](const char* pointer, const nlohmann::json& value) {
    nlohmann::json json = TinyVocabulary().json();
    json[nlohmann::json::json_pointer(pointer)] = value;
    return refusal(json);
  };
  EXPECT_THAT(with("/model/vocab", {1}), HasSubstr("no object with tokens"));
  EXPECT_THAT(with("/model/vocab/hello", 16000000), HasSubstr("far beyond"));
  EXPECT_THAT(with("/model/vocab/hello", -1), HasSubstr("id is no number"));
  EXPECT_THAT(with("/model/vocab/hello", 4), HasSubstr("two tokens have the id 4"));
  EXPECT_THAT(with("/model/merges", 3), HasSubstr("'model.merges' is no array"));
  EXPECT_THAT(with("/model/merges/0", {"h"}), HasSubstr("merge 0 is no pair"));
  EXPECT_THAT(with("/added_tokens/0/id", 99999), HasSubstr("odd id"));
  EXPECT_THAT(with("/added_tokens", "x"), HasSubstr("'added_tokens' is no array"));
  folder_.write("tokenizer.json", "{");
  EXPECT_FALSE(Tokenizer::open(folder_.path()).ok());
}

TEST_F(TokenizerTest, StreamingNeverSplitsACharacter) {
  const std::string text = "caf\u00e9 \u4e2d\U0001f600!";
  const Tokenizer tokenizer = tiny();
  StreamDecoder decoder(tokenizer);
  std::string all;
  for (const TokenId id : tokenizer.encode(text, SpecialTokens::kAsText)) {
    const std::string part = decoder.push(id);
    EXPECT_TRUE(part.empty() || (static_cast<unsigned char>(part[0]) & 0xc0) != 0x80);
    all += part;
  }
  EXPECT_EQ(all + decoder.finish(), text);
}

TEST_F(TokenizerTest, StreamingReplacesWhatIsNoCharacter) {
  StreamDecoder decoder(tiny());
  EXPECT_EQ(decoder.push(0xe4), "");
  EXPECT_EQ(decoder.push('a'), "\ufffda");
  EXPECT_EQ(decoder.push(0xff), "\ufffd");
  EXPECT_EQ(decoder.push(262), "") << "a special token";
  EXPECT_EQ(decoder.push(0xf0), "");
  EXPECT_EQ(decoder.finish(), "\ufffd");
  EXPECT_EQ(decoder.finish(), "");
}

}  // namespace
}  // namespace lathe

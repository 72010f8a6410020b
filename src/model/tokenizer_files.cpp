#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/fd.h"
#include "base/guard.h"
#include "base/visible_text.h"
#include "model/gguf.h"
#include "model/mapped_file.h"
#include "model/tokenizer_builder.h"
#include "record/json.h"

namespace lathe {
namespace {

using Json = nlohmann::json;
using Builder = TokenizerBuilder;

constexpr std::size_t kMostJsonBytes = 64 << 20;
constexpr TokenId kMostIds = 1 << 24;
constexpr const char* kKnown =
    "Lathe knows byte-level BPE as GPT-2, SmolLM2, Qwen2 to Qwen3 and Llama 3 have it (docs/models.md)";

/// What merges are looked up by: tokens in the form that their file has.
using PrintableIds = std::unordered_map<std::string_view, TokenId>;

Status add_merge(Builder& builder, const PrintableIds& ids, std::string_view left, std::string_view right) {
  const auto left_id = ids.find(left);
  const auto right_id = ids.find(right);
  if (left_id == ids.end() || right_id == ids.end())
    return Error{ErrorCode::kCorrupt,
                 fmt::format("merge {} joins '{}', which is no token", builder.merges.size(),
                             visible_line((left_id == ids.end() ? left : right).substr(0, 80))),
                 "the tokenizer is damaged; fetch the model again",
                 {builder.file}};
  builder.merges.emplace_back(left_id->second, right_id->second);
  return Ok{};
}

Status add_merge(Builder& builder, const PrintableIds& ids, std::string_view both) {
  const std::size_t space = both.find(' ');
  if (space == both.npos) return add_merge(builder, ids, both, {});
  return add_merge(builder, ids, both.substr(0, space), both.substr(space + 1));
}

/// Tokens of byte-level BPE stand in printable form; what is not in it is taken as it is.
std::string merged_bytes(std::string_view printable) {
  return bytes_of_printable(printable).value_or(std::string(printable));
}

Status read_gguf_tokens(const Gguf& gguf, Builder& builder, PrintableIds& ids) {
  LATHE_TRY(const auto texts, gguf.texts("tokenizer.ggml.tokens"));
  std::vector<std::int64_t> types(texts.size(), 1);
  if (gguf.has("tokenizer.ggml.token_type")) {
    LATHE_TRY(types, gguf.integers("tokenizer.ggml.token_type"));
  }
  if (types.size() != texts.size() || texts.size() > static_cast<std::size_t>(kMostIds))
    return Error{ErrorCode::kCorrupt,
                 fmt::format("{} tokens have {} types", texts.size(), types.size()),
                 "the file is damaged; fetch it again",
                 {gguf.file()}};
  static constexpr std::array kKinds = {Builder::Kind::kNone,        Builder::Kind::kText,
                                        Builder::Kind::kControl,     Builder::Kind::kControl,
                                        Builder::Kind::kUserDefined, Builder::Kind::kNone};
  ids.reserve(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (types[i] < 1 || types[i] >= static_cast<std::int64_t>(kKinds.size()))
      return invalid(fmt::format("token {} is of type {}", i, types[i]), kKnown, {gguf.file()});
    const Builder::Kind kind = kKinds[static_cast<std::size_t>(types[i])];
    const bool merges = kind == Builder::Kind::kText;
    if (merges) ids.emplace(texts[i], static_cast<TokenId>(i));
    builder.tokens.push_back({merges ? merged_bytes(texts[i]) : std::string(texts[i]), kind});
  }
  return Ok{};
}

/// Reads a tokenizer.json into a Builder.
class JsonTokenizer {
 public:
  JsonTokenizer(const Json& root, Builder& builder) : root_(root), builder_(builder) {}

  Status read() {
    const Json& model = member(root_, "model");
    if (!is(model, "type", "BPE") || is(model, "byte_fallback", true) || !empty(model, "dropout") ||
        !empty(model, "continuing_subword_prefix") || !empty(model, "end_of_word_suffix"))
      return refused("model", model);
    builder_.ignores_merges = is(model, "ignore_merges", true);
    LATHE_CHECK_OK(read_normalizer(member(root_, "normalizer")));
    LATHE_CHECK_OK(read_pre_tokenizer(member(root_, "pre_tokenizer")));
    PrintableIds ids;
    LATHE_CHECK_OK(read_vocabulary(member(model, "vocab"), ids));
    LATHE_CHECK_OK(read_merges(member(model, "merges"), ids));
    LATHE_CHECK_OK(read_added(member(root_, "added_tokens")));
    read_post_processor(member(root_, "post_processor"));
    return Ok{};
  }

  /// "bos_token" is a text or an object with its content.
  std::optional<TokenId> named(const Json& config, const char* name) const {
    const Json& value = member(config, name);
    const Json& text = value.is_object() ? member(value, "content") : value;
    return text.is_string() ? find_token(text.get_ref<const std::string&>()) : std::nullopt;
  }

 private:
  static const Json& member(const Json& object, const char* name) {
    static const Json null;
    if (!object.is_object()) return null;
    const auto found = object.find(name);
    return found == object.end() ? null : *found;
  }
  template <class Value>
  static bool is(const Json& object, const char* name, const Value& value) {
    return member(object, name) == Json(value);
  }
  static bool empty(const Json& object, const char* name) {
    const Json& value = member(object, name);
    return value.is_null() || value == Json("");
  }

  Error refused(const char* part, const Json& value) const {
    Json shown = value;
    if (shown.is_object()) {
      shown.erase("vocab");
      shown.erase("merges");
    }
    return invalid(fmt::format("the tokenizer's {} is not one that Lathe knows: {}", part,
                               visible_line(json_text(shown).substr(0, 300))),
                   kKnown, {builder_.file});
  }
  Error damaged(std::string what) const {
    return {ErrorCode::kCorrupt,
            std::move(what),
            "the tokenizer is damaged; fetch the model again",
            {builder_.file}};
  }

  Status read_normalizer(const Json& normalizer) {
    const Json* step = &normalizer;
    if (is(*step, "type", "Sequence") && member(*step, "normalizers").size() == 1)
      step = &member(*step, "normalizers").front();
    builder_.normalises_nfc = is(*step, "type", "NFC");
    if (!step->is_null() && !builder_.normalises_nfc) return refused("normalizer", normalizer);
    return Ok{};
  }

  static bool is_byte_level(const Json& step, bool splits) {
    const Json& uses = member(step, "use_regex");
    return is(step, "type", "ByteLevel") && is(step, "add_prefix_space", false) &&
           (uses == Json(splits) || (uses.is_null() && splits));
  }

  Status read_pre_tokenizer(const Json& json) {
    std::vector<Json> steps = {json};
    if (is(json, "type", "Sequence") && member(json, "pretokenizers").is_array())
      steps = member(json, "pretokenizers").get<std::vector<Json>>();
    if (steps.size() == 1 && is_byte_level(steps[0], true)) {
      builder_.pre_tokenizer = PreTokenizer::kGpt2;
      return Ok{};
    }
    if (steps.size() != 2) return refused("pre_tokenizer", json);
    const Json& first = steps[0];
    if (is(first, "type", "Digits") && is(first, "individual_digits", true) &&
        is_byte_level(steps[1], true)) {
      builder_.pre_tokenizer = PreTokenizer::kSmolLm;
      return Ok{};
    }
    for (const PreTokenizer kind : {PreTokenizer::kQwen2, PreTokenizer::kLlama3}) {
      if (!is(first, "type", "Split") || !is(first, "behavior", "Isolated") || !is(first, "invert", false) ||
          !is(member(first, "pattern"), "Regex", split_pattern(kind)) || !is_byte_level(steps[1], false))
        continue;
      builder_.pre_tokenizer = kind;
      return Ok{};
    }
    return refused("pre_tokenizer", json);
  }

  Result<std::size_t> id_of(const Json& json) const {
    if (!json.is_number_integer() || json < 0 || json >= kMostIds)
      return damaged("a token's id is no number below " + std::to_string(kMostIds));
    return json.get<std::size_t>();
  }

  Status read_vocabulary(const Json& vocab, PrintableIds& ids) {
    if (!vocab.is_object() || vocab.empty()) return damaged("'model.vocab' is no object with tokens");
    const std::size_t most = 4 * vocab.size() + 4096;  // so that one odd id takes no memory
    ids.reserve(vocab.size());
    for (const auto& [text, json] : vocab.items()) {
      LATHE_TRY(const std::size_t id, id_of(json));
      if (id >= most)
        return damaged(fmt::format("token {} is far beyond the {} that there are", id, vocab.size()));
      LATHE_CHECK_OK(add(id, merged_bytes(text), Builder::Kind::kText));
      const std::string& key = vocab.find(text).key();
      ids.emplace(key, static_cast<TokenId>(id));
    }
    return Ok{};
  }

  Status add(std::size_t id, std::string bytes, Builder::Kind kind) {
    if (builder_.tokens.size() <= id) builder_.tokens.resize(id + 1);
    Builder::Token& token = builder_.tokens[id];
    if (token.kind != Builder::Kind::kNone) return damaged(fmt::format("two tokens have the id {}", id));
    token = {std::move(bytes), kind};
    return Ok{};
  }

  Status read_merges(const Json& merges, const PrintableIds& ids) {
    if (!merges.is_array()) return damaged("'model.merges' is no array");
    const auto is_text = [](const Json& json) { return json.is_string(); };
    for (const Json& merge : merges) {
      if (merge.is_string()) {
        LATHE_CHECK_OK(add_merge(builder_, ids, merge.get_ref<const std::string&>()));
      } else if (merge.is_array() && merge.size() == 2 && std::all_of(merge.begin(), merge.end(), is_text)) {
        LATHE_CHECK_OK(add_merge(builder_, ids, merge[0].get_ref<const std::string&>(),
                                 merge[1].get_ref<const std::string&>()));
      } else {
        return damaged(fmt::format("merge {} is no pair of texts", builder_.merges.size()));
      }
    }
    return Ok{};
  }

  Status read_added(const Json& added) {
    if (added.is_null()) return Ok{};
    if (!added.is_array()) return damaged("'added_tokens' is no array");
    const std::size_t most = builder_.tokens.size() + added.size() + 4096;
    for (const Json& json : added) {
      const Json& content = member(json, "content");
      LATHE_TRY(const std::size_t id, id_of(member(json, "id")));
      if (!content.is_string() || id >= most) return damaged("an added token has no text or an odd id");
      if (is(json, "lstrip", true) || is(json, "rstrip", true) || is(json, "single_word", true))
        return refused("added token", json);
      if (id < builder_.tokens.size()) builder_.tokens[id].kind = Builder::Kind::kNone;
      const bool special = is(json, "special", true);
      LATHE_CHECK_OK(add(id, content.get<std::string>(),
                         special ? Builder::Kind::kControl : Builder::Kind::kUserDefined));
    }
    return Ok{};
  }

  std::optional<TokenId> find_token(std::string_view text) const {
    for (std::size_t id = 0; id < builder_.tokens.size(); ++id)
      if (builder_.tokens[id].kind != Builder::Kind::kNone && builder_.tokens[id].bytes == text)
        return static_cast<TokenId>(id);
    return std::nullopt;
  }

  /// Llama 3 puts BOS in front by a template that begins with it.
  void read_post_processor(const Json& processor) {
    if (is(processor, "type", "Sequence")) {
      for (const Json& step : member(processor, "processors")) read_post_processor(step);
      return;
    }
    const Json& single = member(processor, "single");
    if (!is(processor, "type", "TemplateProcessing") || !single.is_array() || single.empty()) return;
    const Json& name = member(member(single.front(), "SpecialToken"), "id");
    if (!name.is_string()) return;
    builder_.bos = find_token(name.get_ref<const std::string&>());
    builder_.adds_bos = builder_.bos.has_value();
  }

  const Json& root_;
  Builder& builder_;
};

/// The file's JSON, or null where there is none.
Result<Json> read_optional_json(const std::string& path) {
  auto text = read_file(path, kMostJsonBytes);
  if (!text.ok() && text.error().code == ErrorCode::kNotFound) return Json();
  if (!text.ok()) return std::move(text).error();
  return parse_json(*text, path);
}

Result<Tokenizer> build_from_json(std::string_view text, const std::string& file, const Json& config,
                                  const Json& generation) {
  return without_exceptions([&]() -> Result<Tokenizer> {
    LATHE_TRY(const Json root, parse_json(text, file));
    Builder builder;
    builder.file = file;
    JsonTokenizer reader(root, builder);
    LATHE_CHECK_OK(reader.read());
    if (const auto bos = reader.named(config, "bos_token")) builder.bos = bos;
    if (const auto eos = reader.named(config, "eos_token")) builder.stops.push_back(*eos);
    if (generation.is_object() && generation.contains("eos_token_id")) {
      const Json& ids = generation["eos_token_id"];
      for (const Json& id : ids.is_array() ? ids : Json::array({ids}))
        if (id.is_number_integer() && id >= 0 && id < kMostIds) builder.stops.push_back(id.get<TokenId>());
    }
    return std::move(builder).build();
  });
}

}  // namespace

Result<Tokenizer> tokenizer_of(const Gguf& gguf) {
  Builder builder;
  builder.file = gguf.file();
  LATHE_TRY(const auto model, gguf.text("tokenizer.ggml.model"));
  if (model != "gpt2")
    return invalid(fmt::format("the tokenizer '{}' is unknown", visible_line(model.substr(0, 80))), kKnown,
                   {builder.file});
  LATHE_TRY(const auto pre, gguf.text("tokenizer.ggml.pre"));
  auto pre_tokenizer = parse_pre_tokenizer(pre);
  if (!pre_tokenizer.ok()) {
    Error error = std::move(pre_tokenizer).error();
    error.where.file = builder.file;
    return error;
  }
  builder.pre_tokenizer = *pre_tokenizer;
  builder.normalises_nfc = *pre_tokenizer == PreTokenizer::kQwen2;
  builder.ignores_merges = *pre_tokenizer == PreTokenizer::kLlama3;
  PrintableIds ids;
  LATHE_CHECK_OK(read_gguf_tokens(gguf, builder, ids));
  LATHE_TRY(const auto merges, gguf.texts("tokenizer.ggml.merges"));
  builder.merges.reserve(merges.size());
  for (const std::string_view merge : merges) LATHE_CHECK_OK(add_merge(builder, ids, merge));
  const auto read_id = [&](const char* key) -> Result<std::optional<TokenId>> {
    if (!gguf.has(key)) return std::optional<TokenId>();
    LATHE_TRY(const std::int64_t id, gguf.integer(key));
    if (id < 0 || id >= static_cast<std::int64_t>(builder.tokens.size()))
      return Error{ErrorCode::kCorrupt,
                   fmt::format("'{}' is {}, which is no token", key, id),
                   "the file is damaged; fetch it again",
                   {builder.file}};
    return std::optional(static_cast<TokenId>(id));
  };
  LATHE_TRY(builder.bos, read_id("tokenizer.ggml.bos_token_id"));
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    LATHE_TRY(const auto stop, read_id(key));
    if (stop) builder.stops.push_back(*stop);
  }
  if (gguf.has("tokenizer.ggml.add_bos_token")) {
    LATHE_TRY(builder.adds_bos, gguf.boolean("tokenizer.ggml.add_bos_token"));
  } else {
    builder.adds_bos = *pre_tokenizer == PreTokenizer::kLlama3;
  }
  return std::move(builder).build();
}

Result<Tokenizer> tokenizer_from_json(std::string_view json, const std::string& file) {
  return build_from_json(json, file, {}, {});
}

Result<Tokenizer> open_tokenizer_folder(const std::string& folder) {
  const std::string file = folder + "/tokenizer.json";
  LATHE_TRY(const std::string text, read_file(file, kMostJsonBytes));
  LATHE_TRY(const Json config, read_optional_json(folder + "/tokenizer_config.json"));
  LATHE_TRY(const Json generation, read_optional_json(folder + "/generation_config.json"));
  return build_from_json(text, file, config, generation);
}

Result<Tokenizer> Tokenizer::open(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return open_tokenizer_folder(path);
  if (path.ends_with(".safetensors")) {
    const auto folder = std::filesystem::path(path).parent_path();
    return open_tokenizer_folder(folder.empty() ? "." : folder.string());
  }
  LATHE_TRY(const MappedFile file, MappedFile::open(path));
  LATHE_TRY(const Gguf gguf, Gguf::parse(file.bytes(), path));
  return tokenizer_of(gguf);
}

}  // namespace lathe

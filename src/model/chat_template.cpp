#include "model/chat_template.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/guard.h"
#include "model/gguf.h"
#include "model/jinja/render.h"
#include "model/mapped_file.h"
#include "model/tokenizer.h"
#include "record/json.h"

namespace lathe {
namespace {

using Variables = nlohmann::ordered_json;

constexpr std::size_t kMostSourceBytes = 1 << 20;
constexpr std::size_t kMostConfigBytes = 16 << 20;
constexpr const char* kHint = "Lathe renders the part of Jinja2 that docs/models.md lists";

/// `work` with what it throws as an Error at its place in the template `name`.
template <class Work>
auto guarded(const std::string& name, Work work) -> decltype(work()) {
  return without_exceptions([&]() -> decltype(work()) {
    try {
      return work();
    } catch (const jinja::Failure& failure) {
      return invalid(failure.what(), kHint, {name, failure.place.line, failure.place.column});
    }
  });
}

Error no_template(const std::string& path) {
  return {ErrorCode::kNotFound,
          "the model has no chat template",
          "use a model that was trained on conversations",
          {path}};
}

/// A member that is a text, or an object with a text as its "content".
std::string text_member(const nlohmann::json& object, const char* name) {
  if (!object.is_object() || !object.contains(name)) return {};
  const nlohmann::json& value = object[name];
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("content") && value["content"].is_string())
    return value["content"].get<std::string>();
  return {};
}

/// "chat_template" is a text or a list of named ones.
std::string template_of(const nlohmann::json& config) {
  if (!config.is_object() || !config.contains("chat_template")) return {};
  const nlohmann::json& value = config["chat_template"];
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array())
    for (const nlohmann::json& named : value)
      if (text_member(named, "name") == "default") return text_member(named, "template");
  return {};
}

Result<ChatTemplate> open_folder(const std::string& folder) {
  const std::string config_path = folder + "/tokenizer_config.json";
  nlohmann::json config;
  if (auto text = read_file(config_path, kMostConfigBytes); text.ok()) {
    LATHE_TRY(config, parse_json(*text, config_path));
  } else if (text.error().code != ErrorCode::kNotFound) {
    return std::move(text).error();
  }
  const std::string own_path = folder + "/chat_template.jinja";
  auto source = read_file(own_path, kMostSourceBytes);
  if (!source.ok() && source.error().code != ErrorCode::kNotFound) return std::move(source).error();
  std::string text = source.ok() ? *std::move(source) : template_of(config);
  if (text.empty()) return no_template(folder);
  return ChatTemplate::parse(std::move(text), source.ok() ? own_path : config_path,
                             text_member(config, "bos_token"), text_member(config, "eos_token"));
}

}  // namespace

struct ChatTemplate::Program {
  std::string name;
  jinja::Block block;
  std::string bos;
  std::string eos;
};

Result<ChatTemplate> ChatTemplate::parse(std::string source, std::string name, std::string bos,
                                         std::string eos) {
  return guarded(name, [&]() -> Result<ChatTemplate> {
    if (source.size() > kMostSourceBytes) throw jinja::Failure("the template is longer than 1 MiB");
    auto program = std::make_shared<Program>();
    program->block = jinja::parse(source);
    program->name = name;
    program->bos = std::move(bos);
    program->eos = std::move(eos);
    return ChatTemplate(std::move(program));
  });
}

Result<ChatTemplate> ChatTemplate::open(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return without_exceptions([&] { return open_folder(path); });
  if (path.ends_with(".safetensors")) {
    const auto folder = std::filesystem::path(path).parent_path();
    return without_exceptions([&] { return open_folder(folder.empty() ? "." : folder.string()); });
  }
  LATHE_TRY(const MappedFile file, MappedFile::open(path));
  LATHE_TRY(const Gguf gguf, Gguf::parse(file.bytes(), path));
  if (!gguf.has("tokenizer.chat_template")) return no_template(path);
  LATHE_TRY(const auto source, gguf.text("tokenizer.chat_template"));
  const auto token_text = [&](const char* key) -> Result<std::string> {
    if (!gguf.has(key)) return std::string();
    LATHE_TRY(const std::int64_t id, gguf.integer(key));
    LATHE_TRY(const auto tokens, gguf.texts("tokenizer.ggml.tokens"));
    if (id < 0 || id >= static_cast<std::int64_t>(tokens.size())) return std::string();
    return std::string(tokens[static_cast<std::size_t>(id)]);
  };
  LATHE_TRY(std::string bos, token_text("tokenizer.ggml.bos_token_id"));
  LATHE_TRY(std::string eos, token_text("tokenizer.ggml.eos_token_id"));
  return parse(std::string(source), path, std::move(bos), std::move(eos));
}

Result<std::string> ChatTemplate::render(std::span<const ChatMessage> messages,
                                         bool add_generation_prompt) const {
  Variables list = Variables::array();
  for (const ChatMessage& message : messages)
    list.push_back({{"role", message.role}, {"content", message.content}});
  return render(Variables{{"messages", std::move(list)}, {"add_generation_prompt", add_generation_prompt}});
}

Result<std::string> ChatTemplate::render(const Variables& variables) const {
  return guarded(program_->name, [&]() -> Result<std::string> {
    if (!variables.is_object()) throw jinja::Failure("the variables are no object");
    Variables all = variables;
    all.emplace("bos_token", program_->bos);
    all.emplace("eos_token", program_->eos);
    return jinja::render(program_->block, jinja::Value::of(all));
  });
}

}  // namespace lathe

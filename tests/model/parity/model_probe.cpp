/// What Lathe makes of texts, blocks and conversations, for comparison with other implementations:
/// reads frames (a little-endian u32 and as many bytes) from stdin and answers each with one.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/chat_template.h"
#include "model/checkpoint.h"
#include "model/tokenizer.h"

namespace {

using Answer = std::function<std::string(const std::string&)>;

bool read_frame(std::string& frame) {
  std::uint32_t bytes = 0;
  if (std::fread(&bytes, sizeof bytes, 1, stdin) != 1) return false;
  frame.resize(bytes);
  return std::fread(frame.data(), 1, bytes, stdin) == bytes;
}

void write_frame(const std::string& frame) {
  const auto bytes = static_cast<std::uint32_t>(frame.size());
  std::fwrite(&bytes, sizeof bytes, 1, stdout);
  std::fwrite(frame.data(), 1, bytes, stdout);
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

int answer_frames(const Answer& answer) {
  for (std::string frame; read_frame(frame);) write_frame(answer(frame));
  return 0;
}

int fail(const lathe::Error& error) {
  std::fprintf(stderr, "%s\n", error.to_string().c_str());
  return 1;
}

/// MODEL parse|text: ids as i32.
int tokens(const std::string& model, lathe::SpecialTokens special) {
  const auto tokenizer = lathe::Tokenizer::open(model);
  if (!tokenizer.ok()) return fail(tokenizer.error());
  return answer_frames([&](const std::string& text) { return bytes_of(tokenizer->encode(text, special)); });
}

/// FORMAT: blocks become fp32.
int dequantise(const std::string& name) {
  for (const lathe::WeightFormatInfo& row : lathe::all_weight_formats()) {
    if (row.name != name) continue;
    return answer_frames([&](const std::string& blocks) {
      std::vector<float> values(blocks.size() / row.block_bytes * row.block_elements);
      lathe::dequantise(row.format, std::as_bytes(std::span(blocks)), values);
      return bytes_of(values);
    });
  }
  return fail(lathe::invalid("there is no format " + name));
}

/// MODEL: the name of a weight becomes its fp32 elements.
int weights(const std::string& model) {
  const auto checkpoint = lathe::Checkpoint::open(model);
  if (!checkpoint.ok()) return fail(checkpoint.error());
  return answer_frames([&](const std::string& name) {
    const lathe::WeightInfo* info = checkpoint->find(name);
    std::vector<float> values(info == nullptr ? 0 : static_cast<std::size_t>(info->elements()));
    if (const auto status = checkpoint->read(name, values); !status.ok()) fail(status.error());
    return bytes_of(values);
  });
}

/// Frames are {"template": ..., "variables": ...}; answers begin with + (text) or - (an error).
int chat() {
  return answer_frames([](const std::string& frame) -> std::string {
    const auto json = nlohmann::ordered_json::parse(frame);
    const auto parsed = lathe::ChatTemplate::parse(json.at("template"), "template");
    if (!parsed.ok()) return "-" + parsed.error().to_string();
    const auto text = parsed->render(json.at("variables"));
    return text.ok() ? "+" + *text : "-" + text.error().to_string();
  });
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  if (words.size() == 3 && words[0] == "tokens")
    return tokens(words[1],
                  words[2] == "parse" ? lathe::SpecialTokens::kParse : lathe::SpecialTokens::kAsText);
  if (words.size() == 2 && words[0] == "dequantise") return dequantise(words[1]);
  if (words.size() == 2 && words[0] == "weights") return weights(words[1]);
  if (words.size() == 1 && words[0] == "chat") return chat();
  std::fprintf(stderr, "model_probe tokens MODEL parse|text | dequantise FORMAT | weights MODEL | chat\n");
  return 64;
}

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/fd.h"
#include "tests/model/byte_model.h"

// A language model of 10,000 weights that can only give one of the candidates that it is made of:
// in what it learns to choose, methods of reinforcement and those who pay for it show on real
// verdicts without a GPU (bench/rl/hacking.sh).
int main(int argc, char** argv) {
  using namespace lathe;
  std::string out;
  std::vector<std::string> files;
  CLI::App app("Writes a model whose tokens are whole candidates");
  app.add_option("OUT", out, "A GGUF file")->required();
  app.add_option("CANDIDATE", files)->required();
  CLI11_PARSE(app, argc, argv);
  std::vector<std::string> words;
  for (const std::string& file : files) {
    const Result<std::string> text = read_file(file);
    if (!text.ok()) {
      fmt::print(stderr, "{}\n", text.error().to_string());
      return 2;
    }
    words.push_back("```cpp\n" + text->substr(0, text->find_last_of('}')) + "}\n```");
  }
  // Which half of the tokens comes first follows from the weights, so each candidate is in both.
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::string other = words[i];
    words.push_back(other.insert(other.rfind('}'), " "));
  }
  if (const Status written = write_file_atomically(out, byte_model_gguf(words, 32768, words.size()));
      !written.ok()) {
    fmt::print(stderr, "{}\n", written.error().to_string());
    return 4;
  }
  return 0;
}

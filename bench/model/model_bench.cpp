// What reading a model costs: opening it, its tokenizer, text to tokens and back, and stored
// weights to fp32. Prints rows of a Markdown table; each figure is the best of several runs, on one
// thread where it says so.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <limits>

#include "base/fd.h"
#include "model/chat_template.h"
#include "model/checkpoint.h"
#include "model/tokenizer.h"

namespace {

constexpr int kRuns = 5;

double best_seconds(const std::function<void()>& work) {
  double best = std::numeric_limits<double>::max();
  for (int i = 0; i < kRuns; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

template <class T>
T need(lathe::Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "model_bench: %s\n", result.error().to_string().c_str());
  std::exit(1);
}

}  // namespace

int main(int count, char** arguments) {
  std::vector<std::string> models;
  std::string text_path;
  CLI::App app("measures reading models");
  app.add_option("model", models, "GGUF files or folders of safetensors")->required();
  app.add_option("--text", text_path, "what is tokenized")->required();
  CLI11_PARSE(app, count, arguments);
  const std::string text = need(lathe::read_file(text_path));
  const double megabytes = static_cast<double>(text.size()) / 1e6;
  std::printf(
      "| model | open, ms | tokenizer, ms | encode, MB/s | decode, MB/s | bytes a token | weights to fp32, "
      "G/s |\n");
  std::printf("|---|---|---|---|---|---|---|\n");
  for (const std::string& model : models) {
    const double open = best_seconds([&] { (void)need(lathe::Checkpoint::open(model)); });
    const double load = best_seconds([&] { (void)need(lathe::Tokenizer::open(model)); });
    const lathe::Checkpoint checkpoint = need(lathe::Checkpoint::open(model));
    const lathe::Tokenizer tokenizer = need(lathe::Tokenizer::open(model));
    std::vector<lathe::TokenId> ids;
    const double encode = best_seconds([&] { ids = tokenizer.encode(text, lathe::SpecialTokens::kAsText); });
    std::string back;
    const double decode = best_seconds([&] { back = tokenizer.decode(ids); });
    std::int64_t elements = 0;
    std::int64_t largest = 0;
    for (const lathe::WeightInfo& info : checkpoint.weights()) {
      elements += info.elements();
      largest = std::max(largest, info.elements());
    }
    std::vector<float> values(static_cast<std::size_t>(largest));
    const double read = best_seconds([&] {
      for (const lathe::WeightInfo& info : checkpoint.weights())
        (void)need(
            checkpoint.read(info.name, std::span(values).first(static_cast<std::size_t>(info.elements()))));
    });
    const std::size_t slash = model.find_last_of('/');
    std::printf("| %s | %.1f | %.0f | %.1f | %.0f | %.2f | %.2f |\n",
                model.c_str() + (slash == model.npos ? 0 : slash + 1), open * 1e3, load * 1e3,
                megabytes / encode, megabytes / decode,
                static_cast<double>(text.size()) / static_cast<double>(ids.size()),
                static_cast<double>(elements) / read / 1e9);
  }
}

#include <fmt/ranges.h>

#include <chrono>

#include "base/fd.h"
#include "cli/console.h"
#include "cli/exit_code.h"
#include "lm/program/options.h"

namespace lathe::lm {
namespace {

struct GenerateOptions {
  ModelOptions model;
  std::string prompt, prompt_file, tokens;
  bool show_tokens = false;
  GenerationRequest request;
};

Result<GenerationRequest> request_of(const GenerateOptions& options, const Tokenizer& tokenizer) {
  GenerationRequest request = options.request;
  if (!options.tokens.empty()) {
    LATHE_TRY(request.prompt, parse_tokens(options.tokens));
    return request;
  }
  std::string text = options.prompt;
  if (!options.prompt_file.empty()) {
    LATHE_TRY(text, read_file(options.prompt_file, 1 << 24));
  }
  if (tokenizer.adds_bos() && tokenizer.bos()) request.prompt.push_back(*tokenizer.bos());
  const auto tokens = tokenizer.encode(text, SpecialTokens::kParse);
  request.prompt.insert(request.prompt.end(), tokens.begin(), tokens.end());
  return request;
}

std::string_view name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kEnd:
      return "end of text";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kGrammar:
      return "grammar";
  }
  return "?";
}

Result<int> generate_text(const GenerateOptions& options) {
  LATHE_TRY(const OpenOptions open, options.model.parsed());
  LATHE_TRY(OpenedModel opened, open_model(options.model.model, open));
  const Tokenizer& tokenizer = *opened.tokenizer;
  LATHE_TRY(const GenerationRequest request, request_of(options, tokenizer));
  const auto begin = std::chrono::steady_clock::now();
  LATHE_TRY(const auto samples, generate(*opened.engine, request));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::size_t tokens = 0;
  for (const Sample& sample : samples) {
    tokens += sample.tokens.size();
    if (options.show_tokens) {
      cli::print("{}\n", fmt::format("{}", fmt::join(sample.tokens, ",")));
      continue;
    }
    if (samples.size() > 1)
      cli::print("--- {} ({} tokens, {})\n", sample.index, sample.tokens.size(), name_of(sample.finish));
    cli::print_block("", tokenizer.decode(sample.tokens));
    cli::print("\n");
  }
  cli::print_error("{} tokens in {:.2f} s: {:.1f} tokens/s, {} on {}\n", tokens, seconds,
                   static_cast<double>(tokens) / seconds, opened.engine->info().precision,
                   opened.engine->info().device);
  return static_cast<int>(cli::kSuccess);
}

}  // namespace

void add_generate(CLI::App& app, Run& run) {
  const auto options = std::make_shared<GenerateOptions>();
  CLI::App& verb = *app.add_subcommand("generate", "continue a text");
  verb.add_option("--model", options->model.model, "a GGUF file, or a folder of safetensors")->required();
  add_model_options(verb, options->model);
  auto* const text = verb.add_option("--prompt", options->prompt, "the text, with special tokens by name");
  auto* const file =
      verb.add_option("--prompt-file", options->prompt_file, "a file with the text")->excludes(text);
  verb.add_option("--prompt-tokens", options->tokens, "token ids instead: 1,2,3")
      ->excludes(text)
      ->excludes(file);
  GenerationRequest& request = options->request;
  verb.add_option("--samples", request.samples, "answers")->capture_default_str();
  verb.add_option("--max-tokens", request.max_tokens, "of each answer")->capture_default_str();
  verb.add_option("--temperature", request.sampling.temperature, "0: always the most probable token")
      ->capture_default_str();
  verb.add_option("--top-p", request.sampling.top_p, "draw from the fewest tokens of this mass")
      ->capture_default_str();
  verb.add_option("--top-k", request.sampling.top_k, "draw from this many tokens; 0: all")
      ->capture_default_str();
  verb.add_option("--seed", request.sampling.seed, "equal seeds give equal answers")->capture_default_str();
  verb.add_option("--stop", request.stop_texts, "a text that ends the answer; may be repeated");
  verb.add_flag("--ignore-end", request.ignore_end, "go on after the end of text");
  verb.add_flag("--show-tokens", options->show_tokens, "print token ids, not text");
  verb.callback([options, &run] {
    run = [options] {
      const auto code = generate_text(*options);
      return code.ok() ? *code : cli::fail(code.error());
    };
  });
}

}  // namespace lathe::lm

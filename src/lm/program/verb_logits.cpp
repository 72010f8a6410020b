#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/ranges.h>

#include "base/output.h"
#include "cli/console.h"
#include "cli/exit_code.h"
#include "lm/plain_ops.h"
#include "lm/program/options.h"
#include "model/checkpoint.h"
#include "model/tokenizer.h"

namespace lathe::lm {
namespace {

struct LogitsOptions {
  ModelOptions model;
  std::string tokens, out;
};

/// In fp32 on the CPU, without a cache: the computation that others are compared with.
Result<int> write_logits(const LogitsOptions& options) {
  LATHE_CHECK_OK(options.model.parsed());
  LATHE_CHECK_OK(check_output(options.out));
  LATHE_TRY(const auto tokens, parse_tokens(options.tokens));
  LATHE_TRY(const Checkpoint checkpoint, Checkpoint::open(options.model.model));
  GenerationRequest request{.prompt = tokens};
  LATHE_CHECK_OK(check_request(request, static_cast<std::int32_t>(checkpoint.config().vocab),
                               static_cast<std::int32_t>(checkpoint.config().context)));
  LATHE_TRY(const Decoder decoder, Decoder::load(checkpoint, {}));
  const c10::InferenceMode inference;
  const auto count = static_cast<std::int64_t>(tokens.size());
  PlainOps ops(decoder, 1, count);
  const at::Tensor ids = at::tensor(std::vector<std::int64_t>(tokens.begin(), tokens.end()));
  const at::Tensor logits = decoder.logits(decoder.hidden(ids, ops), ops).contiguous();
  LATHE_CHECK_OK(
      write_output(options.out, {static_cast<const char*>(logits.const_data_ptr()), logits.nbytes()}));
  cli::print("{} x {} fp32 logits in {}\n", logits.size(0), logits.size(1), options.out);
  return static_cast<int>(cli::kSuccess);
}

struct TokensOptions {
  std::string model, text;
};

Result<int> print_tokens(const TokensOptions& options) {
  LATHE_TRY(const Tokenizer tokenizer, Tokenizer::open(options.model));
  cli::print("{}\n",
             fmt::format("{}", fmt::join(tokenizer.encode(options.text, SpecialTokens::kParse), ",")));
  return static_cast<int>(cli::kSuccess);
}

}  // namespace

void add_tokens(CLI::App& app, Run& run) {
  const auto options = std::make_shared<TokensOptions>();
  CLI::App& verb = *app.add_subcommand("tokens", "print a text's token ids");
  verb.add_option("--model", options->model, "a GGUF file, or a folder with tokenizer.json")->required();
  verb.add_option("--text", options->text, "with special tokens by name")->required();
  verb.callback([options, &run] {
    run = [options] {
      const auto code = print_tokens(*options);
      return code.ok() ? *code : cli::fail(code.error());
    };
  });
}

void add_logits(CLI::App& app, Run& run) {
  const auto options = std::make_shared<LogitsOptions>();
  CLI::App& verb = *app.add_subcommand(
      "logits", "write the logits after each token of a sequence, to compare with others");
  verb.add_option("--model", options->model.model, "a GGUF file, or a folder of safetensors")->required();
  verb.add_option("--threads", options->model.threads, "default: one for each processor")
      ->check(CLI::Range(1, 1024));
  verb.add_option("--tokens", options->tokens, "token ids: 1,2,3")->required();
  verb.add_option("--out", options->out, "the file: fp32, a row for each token")->required();
  verb.callback([options, &run] {
    run = [options] {
      const auto code = write_logits(*options);
      return code.ok() ? *code : cli::fail(code.error());
    };
  });
}

}  // namespace lathe::lm

#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "lm/open_model.h"

namespace lathe::lm {

/// A verb's work, once its arguments are parsed: the exit code.
using Run = std::function<int()>;

/// Options of all verbs that compute.
struct ModelOptions {
  std::string model;
  std::string device = "auto";
  std::string precision;
  int threads = 0;  ///< 0: one for each processor
  OpenOptions open;

  /// Checks the texts, and sets LibTorch's threads.
  Result<OpenOptions> parsed() const;
};
void add_model_options(CLI::App& verb, ModelOptions& options);

void add_bench(CLI::App& app, Run& run);
void add_generate(CLI::App& app, Run& run);
void add_logits(CLI::App& app, Run& run);
void add_serve(CLI::App& app, Run& run);
void add_tokens(CLI::App& app, Run& run);

/// "1,2,3".
Result<std::vector<TokenId>> parse_tokens(const std::string& text);

}  // namespace lathe::lm

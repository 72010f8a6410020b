#include "lm/program/options.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <charconv>

#include "base/processors.h"

namespace lathe::lm {

Result<OpenOptions> ModelOptions::parsed() const {
  OpenOptions parsed = open;
  if (device == "cpu")
    parsed.device = DeviceKind::kCpu;
  else if (device == "cuda")
    parsed.device = DeviceKind::kCuda;
  else if (device != "auto")
    return invalid(fmt::format("--device '{}': it is auto, cpu or cuda", device));
  if (precision == "f32")
    parsed.precision = Precision::kF32;
  else if (precision == "bf16")
    parsed.precision = Precision::kBF16;
  else if (!precision.empty())
    return invalid(fmt::format("--precision '{}': it is f32 or bf16", precision));
  at::set_num_threads(threads > 0 ? threads : static_cast<int>(usable_processors().size()));
  return parsed;
}

void add_model_options(CLI::App& verb, ModelOptions& options) {
  verb.add_option("--device", options.device, "auto (a GPU where there is one), cpu or cuda");
  verb.add_option("--precision", options.precision, "f32 (default on a CPU) or bf16 (default on a GPU)");
  verb.add_option("--adapter", options.open.adapter, "a folder that lathe-torch train or peft wrote");
  verb.add_option("--threads", options.threads, "of the CPU; default: one for each processor")
      ->check(CLI::Range(1, 1024));
  verb.add_option("--batch", options.open.max_batch, "answers that are computed at once")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  verb.add_option_function<std::int64_t>(
          "--cache-mib", [&](std::int64_t mib) { options.open.cache_bytes = mib << 20; },
          "memory for keys and values; default: for full batches, at most 4096 on a CPU, half of a GPU's "
          "free memory")
      ->check(CLI::Range(1, 1 << 20));
}

Result<std::vector<TokenId>> parse_tokens(const std::string& text) {
  std::vector<TokenId> tokens;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    TokenId token = 0;
    const auto [next, code] = std::from_chars(at, end, token);
    if (code != std::errc() || (next != end && *next != ','))
      return invalid(fmt::format("token ids are numbers with commas between, not '{}'", text.substr(0, 40)));
    tokens.push_back(token);
    at = next == end ? end : next + 1;
  }
  return tokens;
}

}  // namespace lathe::lm

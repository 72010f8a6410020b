#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "lm/decoder.h"
#include "lm/pages.h"
#include "model/engine.h"

namespace lathe::lm {

struct RunnerOptions {
  std::int32_t max_batch = 64;  ///< rows of a step
  std::int32_t context = 2048;  ///< tokens of one sequence
  std::int32_t pages = 0;       ///< of the cache, page 0 included
};

/// What a row of the batch starts with. Its next token is drawn from the logits of `token` at
/// `position`; the cache holds the tokens before it.
struct RowStart {
  TokenId token = 0;
  std::int32_t position = 0;
  std::span<const std::int32_t> pages;  ///< for all tokens that the row may reach
  Sampling sampling;
  std::uint64_t stream = 0;  ///< random numbers: of sampling.seed's streams, this one
  std::shared_ptr<const TokenAutomaton> grammar = {};
};

/// Instead of a token, where the logits are not finite.
inline constexpr TokenId kNoToken = -1;

/// What one step drew for one row.
struct Drawn {
  TokenId token = 0;
  float log_prob = 0;
  float model_log_prob = 0;
};

/// Computes steps of a batch on one device: each active row draws one token. Sequences, pages and
/// ends are the caller's. Not thread-safe.
class Runner {
 public:
  virtual ~Runner() = default;

  /// Writes tokens at positions first, first + 1, ... to the cache's pages (of the whole sequence).
  virtual void prefill(std::span<const TokenId> tokens, std::int32_t first,
                       std::span<const std::int32_t> pages) = 0;
  virtual void copy_page(std::int32_t from, std::int32_t to) = 0;
  virtual void start_row(std::int32_t row, const RowStart& start) = 0;
  virtual void stop_row(std::int32_t row) = 0;

  /// Begins a step of rows [0, rows). At most depth() steps may be under way. Rows started and
  /// stopped later do not affect it.
  virtual void launch(std::int32_t rows) = 0;
  /// Of the oldest step under way, one for each of its rows; idle ones say nothing of use.
  virtual Result<std::span<const Drawn>> collect() = 0;
  virtual std::int32_t depth() const = 0;
  /// Waits until nothing of it computes on the device; no step may be under way.
  virtual void settle() {}
  /// "cpu (2 threads)".
  virtual std::string device() const = 0;
};

/// The cache's bytes for each token of context.
std::int64_t cache_bytes_per_token(const Decoder& decoder);

Result<std::unique_ptr<Runner>> make_cpu_runner(std::shared_ptr<const Decoder> decoder,
                                                const RunnerOptions& options);

}  // namespace lathe::lm

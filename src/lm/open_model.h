#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lm/local_engine.h"
#include "lm/runner.h"
#include "model/tokenizer.h"

namespace lathe::lm {

enum class DeviceKind { kAuto, kCpu, kCuda };

struct OpenOptions {
  DeviceKind device = DeviceKind::kAuto;  ///< auto: a GPU where there is one
  std::optional<Precision> precision;     ///< default: fp32 on a CPU, bf16 on a GPU
  std::int32_t max_batch = 64;
  std::int32_t context = 0;      ///< 0: the model's own, at most kLongestContext
  std::int64_t cache_bytes = 0;  ///< 0: for max_batch sequences of full context, or what memory allows
  std::string adapter;           ///< a folder, whose additions become part of the weights; empty: none
};

inline constexpr std::int32_t kLongestContext = 8192;

/// Whether a GPU can be used; the error says what is missing.
Status check_cuda();

/// Where a decoder of these options lies. Errors: kUnavailable without a GPU that was asked for.
Result<DecoderOptions> choose_placement(const OpenOptions& options);

/// Batch, context and cache for this decoder.
Result<RunnerOptions> choose_runner(const Decoder& decoder, const OpenOptions& options);

/// On the decoder's device.
Result<std::unique_ptr<Runner>> make_runner(std::shared_ptr<const Decoder> decoder,
                                            const RunnerOptions& options);

/// A model file, ready to generate. Without a tokenizer it serves tokens only.
struct OpenedModel {
  std::unique_ptr<Engine> engine;
  std::optional<Tokenizer> tokenizer;
};
/// `name`: as find_model() takes it.
Result<OpenedModel> open_model(const std::string& name, const OpenOptions& options);

}  // namespace lathe::lm

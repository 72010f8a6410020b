#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "lm/decoder.h"
#include "train/example.h"
#include "train/links.h"
#include "train/program/bench.h"
#include "train/reducer.h"
#include "train/token_kernels.h"

namespace lathe::train {

/// The options of `lathe-torch train`.
struct TrainOptions {
  std::string recipe, model, data, held_out, out;
  std::string adapter;            ///< that is trained on
  std::string table, gym, tasks;  ///< of reinforcement learning
  std::string device = "auto", precision;
  int threads = 0;
  int devices = 1, rank = 0;           ///< of the processes that share a run, and which this one is
  std::vector<std::string> arguments;  ///< all, the program's name included
  std::int64_t steps = 0, seed = -1;
  bool resume = false, bench = false;
  BenchOptions measured = {};
};

struct Placement {
  lm::DecoderOptions decoder;
  const TokenKernels* kernels = &aten_kernels();
};
/// `wanted` is the recipe's precision.
Result<Placement> placement_of(const TrainOptions& options, std::optional<lm::Precision> wanted);

/// How the processes of `links` add up what each has computed. `links` must outlive it.
Result<std::unique_ptr<Reducer>> reducer_of(const Placement& placement, const Links& links);

/// Held by the process that works on a run: two would write over each other's checkpoints. The
/// system gives it back when the process ends, however it ends.
Result<UniqueFd> lock_run(const std::string& folder);

struct ModelSource {
  std::string model;  ///< a file, a folder, or "random:tiny"
  std::string system;
  bool chat = true;
  std::uint64_t seed = 1;  ///< of random weights
};
struct OpenedModel {
  lm::Decoder decoder;
  TextCoding coding;
};
/// What an adapter's card says of its model: a folder, which peft can open, or a file's name alone,
/// for where the file lay here says nothing elsewhere.
std::string name_on_card(const std::string& model);
Result<OpenedModel> open_model(const ModelSource& source, const lm::DecoderOptions& placement);

}  // namespace lathe::train

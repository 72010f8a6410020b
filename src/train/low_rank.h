#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "lm/adapter.h"
#include "lm/decoder.h"

namespace lathe::train {

struct LowRankOptions {
  std::int64_t rank = 16;
  double alpha = 32;
  double dropout = 0;
  std::int64_t bits = 32;            ///< as lm::Adapter::bits
  std::vector<std::string> targets;  ///< lm::AdaptableMatrix names
};

/// Low-rank additions to a decoder's matrices, to be trained. Each part of a joined matrix has its
/// own pair, so that adapters are what peft would make of the separate matrices.
class LowRank {
 public:
  /// Pairs that add nothing yet: `down` as peft draws it, `up` zero. Errors: kInvalid for unknown
  /// targets.
  static Result<LowRank> create(const lm::Decoder& decoder, const LowRankOptions& options,
                                std::uint64_t seed);
  /// Of the adapter's own rank and targets.
  static Result<LowRank> create(const lm::Decoder& decoder, const lm::Adapter& adapter);

  const LowRankOptions& options() const { return options_; }
  /// fp32 leaves by peft's names without its prefix.
  std::vector<std::pair<std::string, at::Tensor>> named_parameters() const;

  /// What is added to `matrix`'s result for x; undefined where nothing is. `generator` draws what
  /// dropout drops: undefined outside of training.
  at::Tensor addition(const at::Tensor& x, const lm::Linear& matrix,
                      std::optional<at::Generator> generator) const;

  /// What is added to a part's weight, [out, in] in fp32; undefined where nothing is. For use
  /// outside of gradients.
  at::Tensor addition_to(const std::string& weight) const;

  lm::Adapter to_adapter(const std::string& base_model) const;

 private:
  struct Part {
    std::string weight;
    std::int64_t rows = 0;
    lm::Adapter::Pair pair;  ///< undefined tensors: this part has none
  };
  explicit LowRank(LowRankOptions options) : options_(std::move(options)) {}
  template <class MakePair>
  void add_parts(const lm::Decoder& decoder, const MakePair& make_pair);

  LowRankOptions options_;
  std::unordered_map<const void*, std::vector<Part>> parts_;  ///< by the joined matrix's tensor
  std::vector<const void*> order_;
};

}  // namespace lathe::train

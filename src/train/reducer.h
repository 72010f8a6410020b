#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "base/result.h"

namespace lathe::train {

/// How processes that train one model together meet: each computes its share of a step's batches,
/// and sums of gradients make all of them do the same update.
class Reducer {
 public:
  virtual ~Reducer() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Each tensor becomes the sum over all processes, bit for bit the same in each. Tensors have no
  /// gaps, and are the processor's or this process's device's. Errors: kUnavailable where a process
  /// is gone.
  virtual Status sum(std::span<at::Tensor> tensors) = 0;
};

/// Errors: kInternal where another process has another number, telling that `what` differs.
Status check_equal(Reducer& reducer, std::int64_t number, const char* what);

/// One process alone.
class SoloReducer final : public Reducer {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Status sum(std::span<at::Tensor>) override { return Ok{}; }
};

}  // namespace lathe::train

#pragma once

#include <array>
#include <functional>
#include <memory>

#include "base/result.h"
#include "train/reducer.h"

namespace lathe::train::cuda {

/// By which the processes of one run find each other.
using NcclMeeting = std::array<char, 128>;

/// One process's place in a meeting, on the GPU that it computes on.
struct NcclSeat {
  NcclMeeting meeting;
  int rank = 0, size = 1;
  std::unique_ptr<Reducer> processor;  ///< sums what is not on the GPU
  std::function<bool()> broken;        ///< whether another process is gone: NCCL would wait for it
};

/// What liblathe-torch-train-cuda.so has as lathe_train_cuda_nccl().
struct Nccl {
  Result<NcclMeeting> (*call_meeting)();
  /// Returns once all have joined.
  Result<std::unique_ptr<Reducer>> (*join)(NcclSeat seat);
};

}  // namespace lathe::train::cuda

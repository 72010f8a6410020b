// Sums over GPUs by NCCL, through the functions that LibTorch exports for it. c10d's
// ProcessGroupNCCL is not used: its options hold a struct of NCCL's by value, so a program fits the
// one version of nccl.h that LibTorch was built with.

#include "train/cuda/nccl_reducer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAEvent.h>
#include <torch/csrc/cuda/nccl.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "base/guard.h"

namespace lathe::train::cuda {
namespace {

namespace nccl = torch::cuda::nccl;

static_assert(sizeof(NcclMeeting) == sizeof(nccl::ncclUniqueId));
constexpr std::chrono::microseconds kBetweenLooks{20};

/// The communicator stays open until the process ends: LibTorch closes none.
class NcclReducer final : public Reducer {
 public:
  NcclReducer(NcclSeat seat, nccl::ncclComm_t communicator)
      : seat_(std::move(seat)), communicator_(communicator) {}

  int rank() const override { return seat_.rank; }
  int size() const override { return seat_.size; }

  Status sum(std::span<at::Tensor> tensors) override {
    return without_exceptions([&]() -> Status {
      const at::NoGradGuard no_grad;
      std::vector<at::Tensor> on_processor;
      for (const at::Tensor& tensor : tensors) {
        if (tensor.is_cpu()) {
          on_processor.push_back(tensor);
          continue;
        }
        std::vector<at::Tensor> one{tensor.detach()};
        nccl::all_reduce(one, one, static_cast<std::int32_t>(nccl::ncclRedOp::Sum), {}, {communicator_});
      }
      if (on_processor.size() < tensors.size()) LATHE_CHECK_OK(wait());
      return seat_.processor->sum(on_processor);
    });
  }

 private:
  /// Until the GPU is done: whoever needs the sums would wait too, but not see that a process is
  /// gone.
  Status wait() const {
    at::cuda::CUDAEvent done;
    done.record();
    while (!done.query()) {
      if (seat_.broken())
        return Error{ErrorCode::kUnavailable, "a process of the run is gone",
                     "go on from the last checkpoint: --resume"};
      std::this_thread::sleep_for(kBetweenLooks);
    }
    return Ok{};
  }

  const NcclSeat seat_;
  const nccl::ncclComm_t communicator_;
};

Result<NcclMeeting> call_meeting() {
  return without_exceptions([]() -> Result<NcclMeeting> {
    nccl::ncclUniqueId id{};
    nccl::get_unique_id(id);
    NcclMeeting meeting{};
    std::memcpy(meeting.data(), id.internal, meeting.size());
    return meeting;
  });
}

Result<std::unique_ptr<Reducer>> join(NcclSeat seat) {
  return without_exceptions([&]() -> Result<std::unique_ptr<Reducer>> {
    nccl::ncclUniqueId id{};
    std::memcpy(id.internal, seat.meeting.data(), seat.meeting.size());
    const nccl::ncclComm_t communicator = nccl::comm_init_rank(seat.size, id, seat.rank);
    return std::unique_ptr<Reducer>(std::make_unique<NcclReducer>(std::move(seat), communicator));
  });
}

}  // namespace
}  // namespace lathe::train::cuda

extern "C" __attribute__((visibility("default"))) const lathe::train::cuda::Nccl* lathe_train_cuda_nccl() {
  using namespace lathe::train::cuda;
  static const Nccl functions{call_meeting, join};
  return &functions;
}

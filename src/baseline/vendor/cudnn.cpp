#include <algorithm>
#include <optional>

#include "baseline/vendor/cudnn_plans.h"
#include "baseline/vendor/gpu_calls.h"

namespace lathe::vendor {
namespace {

constexpr std::size_t kMostWorkspace = std::size_t{64} << 20;
/// Plans within this factor of each other count as equal; every process then takes the first.
constexpr float kTieFactor = 1.03F;

/// Per-process state. Calls run in order on one stream, so they share one workspace.
struct Process {
  const Cudnn* cudnn;
  CudnnHandle handle;
  GpuClock clock;
  GpuMemory workspace;
};

std::optional<Result<Process>>& process() {
  static std::optional<Result<Process>> made;
  return made;
}

Result<Process> make_process() {
  if (!cudnn().ok()) return cudnn().error();
  Process made{&*cudnn(), nullptr, {}, {}};
  if (const CudnnCode code = made.cudnn->create(&made.handle); code != 0)
    return Error{ErrorCode::kUnavailable,
                 std::string("cuDNN cannot be used in this context: ") + made.cudnn->error_string(code),
                 "install the cuDNN 9 that fits the driver's CUDA"};
  LATHE_TRY(made.clock, GpuClock::create());
  return made;
}

class CudnnCall final : public PreparedCall {
 public:
  explicit CudnnCall(CudnnPlan plan) : plan_(std::move(plan)) {}
  int execute(void* const* buffers) override {
    return plan_.run(buffers, process()->value().workspace.pointer());
  }

 private:
  CudnnPlan plan_;
};

Result<std::vector<CudnnPlan>> plans_of(const Process& made, const NodeCall& call) {
  LATHE_TRY(const CudnnShape shape, cudnn_shape(call));
  const Cudnn& cudnn = *made.cudnn;
  if (const auto* convolution = std::get_if<ConvolutionShape>(&shape))
    return convolution_plans(cudnn, made.handle, call, *convolution);
  if (const auto* pooling = std::get_if<PoolingShape>(&shape))
    return pooling_plans(cudnn, made.handle, call, *pooling);
  if (const auto* softmax = std::get_if<SoftmaxShape>(&shape))
    return softmax_plans(cudnn, made.handle, call, *softmax);
  return norm_plans(cudnn, made.handle, call, std::get<NormShape>(shape));
}

/// Zeroed substitutes for the caller's buffers.
Result<std::vector<GpuMemory>> make_buffers(const NodeCall& call) {
  std::vector<std::size_t> bytes;
  const auto note = [&](const Operand& operand) {
    if (operand.buffer < 0) return;
    const auto at = static_cast<std::size_t>(operand.buffer);
    bytes.resize(std::max(bytes.size(), at + 1));
    bytes[at] = static_cast<std::size_t>(count(operand.shape)) * sizeof(float);
  };
  for (const Node& node : call.nodes) {
    for (const Operand& operand : node.in) note(operand);
    note(node.out);
  }
  std::vector<GpuMemory> buffers;
  for (const std::size_t size : bytes) {
    LATHE_TRY(GpuMemory memory, GpuMemory::create(size));
    buffers.push_back(std::move(memory));
  }
  return buffers;
}

Status reserve_workspace(Process& made, std::size_t bytes) {
  if (bytes <= made.workspace.bytes()) return Ok{};
  made.workspace = {};
  LATHE_TRY(made.workspace, GpuMemory::create(bytes));
  return Ok{};
}

/// Runs each implementation once, so that its kernels are loaded before calls are captured.
Result<std::size_t> fastest(Process& made, const NodeCall& call, const std::vector<CudnnPlan>& plans) {
  LATHE_TRY(const std::vector<GpuMemory> memory, make_buffers(call));
  std::vector<void*> buffers;
  for (const GpuMemory& one : memory) buffers.push_back(one.pointer());
  std::optional<std::size_t> best;
  float best_ms = 0;
  CudnnCode refusal = 0;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].workspace_bytes > kMostWorkspace) continue;
    LATHE_CHECK_OK(reserve_workspace(made, plans[i].workspace_bytes));
    const auto ms = made.clock.time([&] {
      const CudnnCode code = plans[i].run(buffers.data(), made.workspace.pointer());
      if (code != 0) refusal = code;
      return code;
    });
    if (!ms.ok() && ms.error().code == ErrorCode::kInvalid) continue;
    if (!ms.ok()) return ms.error();
    if (best && *ms * kTieFactor >= best_ms) continue;
    best = i;
    best_ms = *ms;
  }
  if (best) return *best;
  return invalid("cuDNN has no fp32 algorithm for " + call.nodes[0].op + " of this shape" +
                 (refusal == 0 ? "" : std::string(": ") + made.cudnn->error_string(refusal)));
}

}  // namespace

int set_cudnn_stream(void* stream) {
  if (!process() || !process()->ok()) return 0;
  const Process& made = process()->value();
  return made.cudnn->set_stream(made.handle, stream);
}

Result<std::unique_ptr<PreparedCall>> prepare_cudnn(const NodeCall& call) {
  LATHE_TRY([[maybe_unused]] const CudnnShape mapped, cudnn_shape(call));
  if (!process()) process().emplace(make_process());
  if (!process()->ok()) return process()->error();
  Process& made = process()->value();
  made.cudnn->set_stream(made.handle, made.clock.stream());
  LATHE_TRY(std::vector<CudnnPlan> plans, plans_of(made, call));
  LATHE_TRY(const std::size_t best, fastest(made, call, plans));
  return std::unique_ptr<PreparedCall>(std::make_unique<CudnnCall>(std::move(plans[best])));
}

}  // namespace lathe::vendor

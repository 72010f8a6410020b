#include "backend/cuda/workload.h"

#include <algorithm>
#include <cstring>

namespace lathe::cuda {

Result<std::shared_ptr<const CudaWorkload>> CudaWorkload::make(Workload workload,
                                                               std::shared_ptr<KeeperClient> keeper) {
  if (workload.trials.empty()) return Error{ErrorCode::kInternal, "a workload needs a trial"};
  auto made = std::make_shared<CudaWorkload>();
  static_cast<Workload&>(*made) = std::move(workload);
  made->keeper_ = std::move(keeper);
  made->layout_.trials = static_cast<std::uint32_t>(made->trials.size());
  made->layout_.inputs = input_region(made->input_bytes());
  made->layout_.outputs = output_region(made->output_bytes());
  const auto& tensors = made->task.spec->tensors;
  for (const OutputDecl& output : made->task.spec->outputs) {
    const auto source = std::find_if(tensors.begin(), tensors.end(),
                                     [&](const TensorDecl& tensor) { return tensor.name == output.name; });
    made->layout_.inout_source.push_back(
        source == tensors.end() ? -1 : static_cast<std::int32_t>(source - tensors.begin()));
  }
  made->read_scalars();
  LATHE_CHECK_OK(made->upload());
  return std::shared_ptr<const CudaWorkload>(std::move(made));
}

CudaWorkload::~CudaWorkload() {
  if (held_) keeper_->destroy(held_);
}

std::vector<std::uint64_t> CudaWorkload::input_bytes() const {
  std::vector<std::uint64_t> bytes;
  for (const HostTensor& tensor : trials.front().inputs) bytes.push_back(tensor.bytes.size());
  return bytes;
}

std::vector<std::uint64_t> CudaWorkload::output_bytes() const {
  std::vector<std::uint64_t> bytes;
  for (const Expected& output : trials.front().expected) bytes.push_back(output.bytes());
  return bytes;
}

void CudaWorkload::read_scalars() {
  for (const Trial& trial : trials)
    for (std::size_t i = 0; i < trial.inputs.size(); ++i) {
      std::uint64_t bits = 0;
      if (task.spec->tensors[i].role == Role::kScalar)
        std::memcpy(&bits, trial.inputs[i].bytes.data(), std::min(sizeof bits, trial.inputs[i].bytes.size()));
      scalars_.push_back(bits);
    }
}

Status CudaWorkload::upload() {
  LATHE_TRY(const UniqueFd inputs, make_memfd("inputs", layout_.inputs.stride * layout_.trials));
  LATHE_TRY(const UniqueFd outputs, make_memfd("outputs", layout_.outputs.stride * layout_.trials));
  LATHE_TRY(outputs_, map_shared(outputs, layout_.outputs.stride * layout_.trials, true));
  LATHE_TRY(const Mapping staging, map_shared(inputs, layout_.inputs.stride * layout_.trials, true));
  for (std::size_t t = 0; t < trials.size(); ++t)
    for (std::size_t i = 0; i < trials[t].inputs.size(); ++i) {
      auto& bytes = trials[t].inputs[i].bytes;
      std::memcpy(staging.data() + t * layout_.inputs.stride + layout_.inputs.offsets[i], bytes.data(),
                  bytes.size());
      bytes = {};
    }
  LATHE_TRY(held_, keeper_->create(layout_, inputs, outputs));
  return Ok{};
}

Status CudaWorkload::reset(std::uint8_t poison) const { return keeper_->reset(held_, poison); }

Status CudaWorkload::collect(const BlockRequest& request) const {
  std::vector<Piece> pieces;
  for (const int trial : request.trials)
    for (std::size_t i = 0; i < layout_.outputs.slots.size(); ++i) add_pieces(request, trial, i, pieces);
  return keeper_->collect(held_, std::move(pieces));
}

void CudaWorkload::add_pieces(const BlockRequest& request, int trial, std::size_t output,
                              std::vector<Piece>& pieces) const {
  const Slot& slot = layout_.outputs.slots[output];
  const auto add = [&](std::uint64_t offset, std::uint64_t bytes) {
    if (bytes > 0)
      pieces.push_back(
          {static_cast<std::uint32_t>(trial), static_cast<std::uint32_t>(output), offset, bytes});
  };
  const Expected& expected = trials[static_cast<std::size_t>(trial)].expected[output];
  const std::size_t bytes = info(expected.dtype).bytes, count = expected.value.data.size();
  const TileChoice choice = choice_of(request, trial);
  add(0, kRedzoneBytes);
  if (choice.fraction >= 1) add(kRedzoneBytes + expected.before * bytes, count * bytes);
  for (std::size_t tile = 0; choice.fraction < 1 && tile < tile_count(count); ++tile)
    if (choice.includes(tile, tile_count(count)))
      add(kRedzoneBytes + (expected.before + tile * kRmsTile) * bytes,
          std::min<std::size_t>(kRmsTile, count - tile * kRmsTile) * bytes);
  add(kRedzoneBytes + slot.bytes, slot.window_bytes() - kRedzoneBytes - slot.bytes);
}

Status CudaWorkload::share(const Channel& launcher) const { return keeper_->share(held_, layout_, launcher); }

std::span<const std::byte> CudaWorkload::output(int trial, int index) const {
  const auto i = static_cast<std::size_t>(index);
  const Slot& slot = layout_.outputs.slots[i];
  const std::byte* const window =
      outputs_.data() + static_cast<std::size_t>(trial) * layout_.outputs.stride + layout_.outputs.offsets[i];
  return {window + kRedzoneBytes, slot.bytes};
}

int CudaWorkload::broken_canary(int trial) const {
  const auto intact = [](const std::byte* from, const std::byte* to) {
    return std::all_of(from, to, [](std::byte byte) { return byte == std::byte{kCanary}; });
  };
  for (std::size_t i = 0; i < layout_.outputs.slots.size(); ++i) {
    const auto tensor = output(trial, static_cast<int>(i));
    const std::byte* const window = tensor.data() - kRedzoneBytes;
    const std::byte* const end = window + layout_.outputs.slots[i].window_bytes();
    if (!intact(window, tensor.data()) || !intact(tensor.data() + tensor.size(), end))
      return static_cast<int>(i);
  }
  return -1;
}

}  // namespace lathe::cuda

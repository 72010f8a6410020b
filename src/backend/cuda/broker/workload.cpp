#include "backend/cuda/broker/workload.h"

#include <algorithm>
#include <cstring>

#include "backend/cuda/wire/output_memory.h"

namespace lathe::cuda {

Result<std::shared_ptr<const CudaWorkload>> CudaWorkload::make(Workload workload,
                                                               std::shared_ptr<KeeperClient> keeper,
                                                               DeviceLane& lane) {
  if (workload.trials.empty()) return Error{ErrorCode::kInternal, "a workload needs a trial"};
  auto made = std::make_shared<CudaWorkload>();
  static_cast<Workload&>(*made) = std::move(workload);
  made->keeper_ = std::move(keeper);
  made->layout_.trials = static_cast<std::uint32_t>(made->trials.size());
  made->layout_.sharing = made->timed ? Sharing::kTrial : Sharing::kAllButFirst;
  made->layout_.inputs = region_of(made->input_bytes());
  made->layout_.outputs = region_of(made->output_bytes());
  const auto& tensors = made->task.spec->tensors;
  for (const OutputDecl& output : made->task.spec->outputs) {
    const auto source = std::find_if(tensors.begin(), tensors.end(),
                                     [&](const TensorDecl& tensor) { return tensor.name == output.name; });
    made->layout_.inout_source.push_back(
        source == tensors.end() ? -1 : static_cast<std::int32_t>(source - tensors.begin()));
  }
  made->read_scalars();
  LATHE_CHECK_OK(made->upload(lane));
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

Status CudaWorkload::upload(DeviceLane& lane) {
  LATHE_TRY(UniqueFd inputs, make_memfd("inputs", layout_.inputs.stride * layout_.trials));
  const std::size_t output_bytes = host_output_bytes(layout_);
  LATHE_TRY(UniqueFd outputs, make_memfd("outputs", output_bytes));
  LATHE_TRY(outputs_, map_shared(outputs, output_bytes, true));
  LATHE_TRY(const Mapping staging, map_shared(inputs, layout_.inputs.stride * layout_.trials, true));
  for (std::size_t t = 0; t < trials.size(); ++t)
    for (std::size_t i = 0; i < trials[t].inputs.size(); ++i) {
      auto& bytes = trials[t].inputs[i].bytes;
      std::memcpy(staging.data() + t * layout_.inputs.stride + layout_.inputs.offsets[i], bytes.data(),
                  bytes.size());
      bytes = {};
    }
  const auto lease = lane.take(DeviceLane::Use::kWork, DeviceLane::Grain::kBlock);
  LATHE_TRY(held_, keeper_->create(layout_, std::move(inputs), std::move(outputs)));
  return Ok{};
}

Status CudaWorkload::reset(std::uint8_t poison) const { return keeper_->reset(held_, poison); }

Result<int> CudaWorkload::collect(const BlockRequest& request) const {
  std::vector<Piece> pieces;
  for (const int trial : request.trials)
    for (std::size_t i = 0; i < layout_.outputs.slots.size(); ++i) add_pieces(request, trial, i, pieces);
  for (const Piece& line : lines_of_trials(request)) pieces.push_back(line);
  for (const Piece& line : lines_of_others(request)) pieces.push_back(line);
  LATHE_TRY(const int broken, keeper_->collect(held_, std::move(pieces)));
  return broken < 0 ? -1 : broken % static_cast<int>(layout_.outputs.slots.size());
}

Status CudaWorkload::sample_outputs(const BlockRequest& request) const {
  return keeper_->sample(held_, lines_of_trials(request));
}

Piece CudaWorkload::draw_line(int trial, Rng& rng) const {
  const auto& slots = layout_.outputs.slots;
  const auto output = static_cast<std::size_t>(rng.below(slots.size()));
  const std::uint64_t bytes = std::min(slots[output].bytes, kLineBytes);
  const std::uint64_t lines = std::max<std::uint64_t>(1, slots[output].bytes / kLineBytes);
  return {static_cast<std::uint32_t>(trial), static_cast<std::uint32_t>(output),
          rng.below(lines) * kLineBytes, bytes};
}

/// Half of them in the last call, where a clock that stops too early is seen first.
std::vector<Piece> CudaWorkload::lines_of_trials(const BlockRequest& request) const {
  Rng rng(Seed::from_number(request.secret).derive("sample"));
  std::vector<Piece> lines;
  for (std::uint64_t i = 0; i < kSampledLines; ++i)
    lines.push_back(draw_line(
        i % 2 == 0 ? request.trials.back() : request.trials[rng.below(request.trials.size())], rng));
  return lines;
}

std::vector<Piece> CudaWorkload::lines_of_others(const BlockRequest& request) const {
  Rng rng(Seed::from_number(request.secret).derive("others"));
  std::vector<bool> mine(trials.size(), false);
  for (const int trial : request.trials) mine[static_cast<std::size_t>(trial)] = true;
  std::vector<Piece> lines;
  for (std::size_t t = 0; t < trials.size(); ++t)
    if (!mine[t]) lines.push_back(draw_line(static_cast<int>(t), rng));
  return lines;
}

const std::byte* CudaWorkload::collected(const Piece& piece) const {
  return outputs_.data() + piece.trial * layout_.outputs.stride + layout_.outputs.offsets[piece.output] +
         piece.offset;
}

bool CudaWorkload::changed_since_sample(const BlockRequest& request) const {
  const std::byte* seen = outputs_.data() + layout_.outputs.stride * layout_.trials;
  for (const Piece& line : lines_of_trials(request)) {
    if (std::memcmp(seen, collected(line), line.bytes) != 0) return true;
    seen += kLineBytes;
  }
  return false;
}

bool CudaWorkload::others_untouched(const BlockRequest& request) const {
  for (const Piece& line : lines_of_others(request)) {
    if (layout_.inout_source[line.output] >= 0) continue;  // starts as its input does
    const std::byte* const bytes = collected(line);
    if (std::any_of(bytes, bytes + line.bytes, [&](std::byte b) { return b != std::byte{request.poison}; }))
      return false;
  }
  return true;
}

void CudaWorkload::add_pieces(const BlockRequest& request, int trial, std::size_t output,
                              std::vector<Piece>& pieces) const {
  const auto add = [&](std::uint64_t offset, std::uint64_t bytes) {
    pieces.push_back({static_cast<std::uint32_t>(trial), static_cast<std::uint32_t>(output), offset, bytes});
  };
  const Expected& expected = trials[static_cast<std::size_t>(trial)].expected[output];
  const std::size_t bytes = info(expected.dtype).bytes, count = expected.value.data.size();
  const TileChoice choice = choice_of(request, trial);
  if (choice.fraction >= 1) return add(expected.before * bytes, count * bytes);
  for (std::size_t tile = 0; tile < tile_count(count); ++tile)
    if (choice.includes(tile))
      add((expected.before + tile * kRmsTile) * bytes,
          std::min<std::size_t>(kRmsTile, count - tile * kRmsTile) * bytes);
}

Status CudaWorkload::share(const Channel& launcher) const {
  std::vector<int> fds;
  {
    std::lock_guard lock(handles_mutex_);
    if (handles_.empty() || handles_generation_ != keeper_->generation()) {
      handles_generation_ = keeper_->generation();
      LATHE_TRY(handles_, keeper_->handles(held_, layout_));
    }
    for (const UniqueFd& handle : handles_) fds.push_back(handle.get());
  }
  for (std::size_t first = 0; first < fds.size(); first += kMaxFrameFds) {
    const auto begin = fds.begin() + static_cast<std::ptrdiff_t>(first);
    const auto count = static_cast<std::ptrdiff_t>(std::min(kMaxFrameFds, fds.size() - first));
    LATHE_CHECK_OK(launcher.send("memory", {begin, begin + count}));
  }
  return Ok{};
}

std::int64_t CudaWorkload::host_bytes() const {
  return Workload::host_bytes() +
         static_cast<std::int64_t>(outputs_.size() + layout_.inputs.stride * layout_.trials);
}

std::span<const std::byte> CudaWorkload::output(int trial, int index) const {
  const auto i = static_cast<std::size_t>(index);
  return {
      outputs_.data() + static_cast<std::size_t>(trial) * layout_.outputs.stride + layout_.outputs.offsets[i],
      layout_.outputs.slots[i].bytes};
}

}  // namespace lathe::cuda

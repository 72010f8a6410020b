#include "backend/cpu/slots.h"

#include <algorithm>
#include <cstring>

namespace lathe {
namespace {

constexpr std::uint64_t kAlign = 64;
constexpr std::uint64_t kRedzoneBytes = 128;
constexpr std::uint8_t kCanary = 0xa5;

constexpr std::uint64_t aligned(std::uint64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

protocol::Region lay_out(const std::vector<std::uint64_t>& sizes, std::size_t trials) {
  protocol::Region region;
  region.sizes = sizes;
  std::uint64_t at = 0;
  for (const std::uint64_t size : sizes) {
    const std::uint64_t pages = round_to_pages(aligned(size) + kRedzoneBytes);
    region.offsets.push_back(at + pages - aligned(size));
    region.guards.push_back(at + pages);
    at += pages + kPageBytes;
  }
  region.stride = at;
  region.total_bytes = region.stride * trials;
  return region;
}

std::vector<std::uint64_t> input_sizes(const Trial& trial) {
  std::vector<std::uint64_t> sizes;
  for (const HostTensor& tensor : trial.inputs) sizes.push_back(tensor.bytes.size());
  return sizes;
}

std::vector<std::uint64_t> output_sizes(const Trial& trial) {
  std::vector<std::uint64_t> sizes;
  for (const Expected& output : trial.expected) sizes.push_back(output.bytes());
  return sizes;
}

}  // namespace

Result<std::shared_ptr<const CpuWorkload>> CpuWorkload::make(Workload workload) {
  if (workload.trials.empty()) return Error{ErrorCode::kInternal, "a workload needs a trial"};
  auto made = std::make_shared<CpuWorkload>();
  static_cast<Workload&>(*made) = std::move(workload);
  const Trial& first = made->trials.front();
  made->inputs_ = lay_out(input_sizes(first), made->trials.size());
  made->outputs_ = lay_out(output_sizes(first), made->trials.size());
  LATHE_TRY(made->inputs_fd_, make_memfd("inputs", made->inputs_.total_bytes));
  LATHE_TRY(made->outputs_fd_, make_memfd("outputs", made->outputs_.total_bytes));
  LATHE_TRY(made->inputs_read_only_, reopen_read_only(made->inputs_fd_));
  LATHE_TRY(made->input_map_, map_shared(made->inputs_fd_, made->inputs_.total_bytes, true));
  LATHE_TRY(made->output_map_, map_shared(made->outputs_fd_, made->outputs_.total_bytes, true));
  LATHE_CHECK_OK(made->move_inputs(made->inputs_fd_, made->inputs_.stride, made->inputs_.offsets));
  const auto& tensors = made->task.spec->tensors;
  for (const OutputDecl& output : made->task.spec->outputs) {
    const auto source = std::find_if(tensors.begin(), tensors.end(),
                                     [&](const TensorDecl& tensor) { return tensor.name == output.name; });
    made->inout_source_.push_back(source == tensors.end() ? -1 : static_cast<int>(source - tensors.begin()));
  }
  return std::shared_ptr<const CpuWorkload>(std::move(made));
}

MemoryUse CpuWorkload::memory() const {
  MemoryUse use = Workload::memory();
  return use += {.host = static_cast<std::int64_t>(inputs_.total_bytes + outputs_.total_bytes)};
}

std::byte* CpuWorkload::output_at(int trial, int index) const {
  return output_map_.data() + static_cast<std::size_t>(trial) * outputs_.stride +
         outputs_.offsets[static_cast<std::size_t>(index)];
}

std::span<const std::byte> CpuWorkload::output(int trial, int index) const {
  return {output_at(trial, index), outputs_.sizes[static_cast<std::size_t>(index)]};
}

void CpuWorkload::reset_outputs(int trial, std::uint8_t poison) const {
  for (const auto& gap : gaps(trial)) std::memset(gap.data(), kCanary, gap.size());
  for (std::size_t i = 0; i < outputs_.sizes.size(); ++i) {
    std::byte* const at = output_at(trial, static_cast<int>(i));
    if (const int source = inout_source_[i]; source >= 0)
      std::memcpy(at,
                  input_map_.data() + static_cast<std::size_t>(trial) * inputs_.stride +
                      inputs_.offsets[static_cast<std::size_t>(source)],
                  outputs_.sizes[i]);
    else
      std::memset(at, poison, outputs_.sizes[i]);
  }
}

std::vector<std::span<std::byte>> CpuWorkload::gaps(int trial) const {
  std::vector<std::span<std::byte>> found;
  std::byte* const base = output_map_.data() + static_cast<std::size_t>(trial) * outputs_.stride;
  std::byte* previous_end = base;
  for (std::size_t i = 0; i < outputs_.sizes.size(); ++i) {
    std::byte* const begin = base + outputs_.offsets[i];
    std::byte* const end = begin + outputs_.sizes[i];
    std::byte* const guard = base + outputs_.guards[i];
    found.emplace_back(previous_end, begin);
    found.emplace_back(end, guard);
    previous_end = guard + kPageBytes;
  }
  return found;
}

std::optional<CpuWorkload::Overrun> CpuWorkload::overrun(int trial) const {
  const auto around = gaps(trial);
  const auto broken = [](std::byte canary) { return canary != std::byte{kCanary}; };
  for (std::size_t i = 0; i < around.size(); ++i) {
    const auto gap = around[i];
    const int output = static_cast<int>(i / 2);
    if (i % 2 == 1) {
      if (const auto at = std::ranges::find_if(gap, broken); at != gap.end())
        return Overrun{output, false, static_cast<std::size_t>(at - gap.begin())};
    } else if (const auto at = std::find_if(gap.rbegin(), gap.rend(), broken); at != gap.rend()) {
      return Overrun{output, true, static_cast<std::size_t>(at - gap.rbegin()) + 1};
    }
  }
  return std::nullopt;
}

}  // namespace lathe

#include "backend/cpu/runner/program.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace lathe {
namespace {

constexpr unsigned kDefaultMxcsr = 0x1f80;  // exceptions masked, denormals kept, round to nearest

std::byte* input_at(const protocol::Load& load, const BlockMemory& memory, std::uint32_t trial,
                    std::int64_t index) {
  return memory.inputs + trial * load.inputs.stride + load.inputs.offsets[static_cast<std::size_t>(index)];
}

void* buffer_at(const protocol::Load& load, const BlockMemory& memory, std::uint32_t trial,
                const protocol::Arg& arg) {
  const auto index = static_cast<std::size_t>(arg.value);
  if (arg.kind == protocol::ArgKind::kOutput)
    return memory.outputs + trial * load.outputs.stride + load.outputs.offsets[index];
  if (arg.kind == protocol::ArgKind::kInput) return input_at(load, memory, trial, arg.value);
  const auto bytes = load.scratch[index].bytes;
  // Aligns the end of the buffer, not its start, with the guard page: overruns are the common
  // fault.
  return memory.scratch[index].data() + (round_to_pages(bytes) - (bytes + 63) / 64 * 64);
}

template <class T>
T scalar_at(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

void push_arg(const protocol::Load& load, const BlockMemory& memory, std::uint32_t trial,
              const protocol::Arg& arg, CallFrame& frame) {
  using protocol::ArgKind;
  switch (arg.kind) {
    case ArgKind::kInteger:
      frame.words.push_back(static_cast<std::uint64_t>(arg.value));
      return;
    case ArgKind::kScalarF16:
    case ArgKind::kScalarF32: {
      double slot = 0;
      std::memcpy(&slot, input_at(load, memory, trial, arg.value), arg.kind == ArgKind::kScalarF16 ? 2 : 4);
      frame.reals.push_back(slot);
      return;
    }
    case ArgKind::kScalarF64:
      frame.reals.push_back(scalar_at<double>(input_at(load, memory, trial, arg.value)));
      return;
    case ArgKind::kScalarI8:
      frame.words.push_back(static_cast<std::uint64_t>(
          std::int64_t{scalar_at<std::int8_t>(input_at(load, memory, trial, arg.value))}));
      return;
    case ArgKind::kScalarI32:
      frame.words.push_back(static_cast<std::uint64_t>(
          std::int64_t{scalar_at<std::int32_t>(input_at(load, memory, trial, arg.value))}));
      return;
    case ArgKind::kScalarI64:
      frame.words.push_back(scalar_at<std::uint64_t>(input_at(load, memory, trial, arg.value)));
      return;
    case ArgKind::kScalarBits8:
      frame.words.push_back(scalar_at<std::uint8_t>(input_at(load, memory, trial, arg.value)));
      return;
    case ArgKind::kScalarBits16:
      frame.words.push_back(scalar_at<std::uint16_t>(input_at(load, memory, trial, arg.value)));
      return;
    default:
      frame.words.push_back(reinterpret_cast<std::uint64_t>(buffer_at(load, memory, trial, arg)));
      return;
  }
}

}  // namespace

void CallFrame::run(std::int64_t begin, std::int64_t end) const {
  using W = std::uint64_t;
  using Kernel = void (*)(W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W,
                          double, double, double, double, double, double, double, double);
  std::array<W, kMaxWords> w{};
  std::array<double, protocol::kMaxReals> r{};
  std::copy(words.begin(), words.end(), w.begin());
  std::copy(reals.begin(), reals.end(), r.begin());
  w[words.size()] = static_cast<W>(begin);
  w[words.size() + 1] = static_cast<W>(end);
  reinterpret_cast<Kernel>(function)(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11],
                                     w[12], w[13], w[14], w[15], w[16], w[17], w[18], w[19], w[20], w[21],
                                     w[22], w[23], w[24], w[25], r[0], r[1], r[2], r[3], r[4], r[5], r[6],
                                     r[7]);
}

TrialCalls::TrialCalls(const protocol::Load& load, const BlockMemory& memory, std::uint32_t trial,
                       const LoadedImage* image, std::span<lathe_vendor_call* const> vendor_calls) {
  steps_.resize(load.steps.size());
  for (std::size_t i = 0; i < load.steps.size(); ++i) {
    const protocol::Step& from = load.steps[i];
    Step& to = steps_[i];
    if (from.is_node) {
      to.vendor_call = vendor_calls[i];
      for (const protocol::Arg& arg : from.args) to.buffers.push_back(buffer_at(load, memory, trial, arg));
      continue;
    }
    to.frame.function = image->function(from.kernel);
    to.frame.items = from.items;
    for (const protocol::Arg& arg : from.args) push_arg(load, memory, trial, arg, to.frame);
  }
}

int TrialCalls::run(const protocol::Load& load, const BlockMemory& memory, ThreadTeam& team,
                    const LoadedImage* image, const VendorLibrary* vendor) const {
  if (image) image->restore_writable();
  for (std::size_t i = 0; i < load.scratch.size(); ++i)
    if (load.scratch[i].fill == protocol::ScratchFill::kZero)
      std::memset(memory.scratch[i].data(), 0, round_to_pages(load.scratch[i].bytes));
  for (const Step& step : steps_) {
    if (step.vendor_call) {
      if (const int error = vendor->execute(step.vendor_call, step.buffers.data()); error != 0) return error;
      continue;
    }
    team.run(step.frame.items, [&step](std::int64_t begin, std::int64_t end) {
      _mm_setcsr(kDefaultMxcsr);
      step.frame.run(begin, end);
      _mm_sfence();  // makes non-temporal stores visible before completion is signalled
    });
  }
  return 0;
}

}  // namespace lathe

#include "backend/cuda/broker/output_bank.h"

#include <algorithm>
#include <cstring>

#include "backend/cuda/wire/output_memory.h"

namespace lathe::cuda {

Result<std::unique_ptr<OutputBank>> OutputBank::make(const Workload& workload, const Layout& layout,
                                                     KeeperClient& keeper, std::uint64_t held,
                                                     std::uint32_t index) {
  const std::size_t bytes = host_output_bytes(layout);
  std::unique_ptr<OutputBank> bank(new OutputBank(workload, layout, keeper, held, index));
  LATHE_TRY(UniqueFd outputs, make_memfd("outputs", bytes));
  LATHE_TRY(bank->host_, map_shared(outputs, bytes, true));
  LATHE_CHECK_OK(keeper.add_bank(held, index, std::move(outputs)));
  return bank;
}

Status OutputBank::reset(std::uint8_t poison) const { return keeper_.reset(held_, index_, poison); }

Result<int> OutputBank::collect(const BlockRequest& request) const {
  std::vector<Piece> pieces;
  for (const int trial : request.trials)
    for (std::size_t i = 0; i < layout_.outputs.slots.size(); ++i) add_pieces(request, trial, i, pieces);
  for (const Piece& line : lines_of_trials(request)) pieces.push_back(line);
  for (const Piece& line : lines_of_others(request)) pieces.push_back(line);
  LATHE_TRY(const int broken, keeper_.collect(held_, index_, std::move(pieces)));
  return broken < 0 ? -1 : broken % static_cast<int>(layout_.outputs.slots.size());
}

Status OutputBank::sample(KeeperClient::Reserved& reserved, const BlockRequest& request) const {
  return keeper_.sample(reserved, held_, index_, lines_of_trials(request));
}

Piece OutputBank::draw_line(int trial, Rng& rng) const {
  const auto& slots = layout_.outputs.slots;
  const auto output = static_cast<std::size_t>(rng.below(slots.size()));
  const std::uint64_t bytes = std::min(slots[output].bytes, kLineBytes);
  const std::uint64_t lines = std::max<std::uint64_t>(1, slots[output].bytes / kLineBytes);
  return {static_cast<std::uint32_t>(trial), static_cast<std::uint32_t>(output),
          rng.below(lines) * kLineBytes, bytes};
}

/// Half of them in the last call, where a clock that stops too early is seen first.
std::vector<Piece> OutputBank::lines_of_trials(const BlockRequest& request) const {
  Rng rng(Seed::from_number(request.secret).derive("sample"));
  std::vector<Piece> lines;
  for (std::uint64_t i = 0; i < kSampledLines; ++i)
    lines.push_back(draw_line(
        i % 2 == 0 ? request.trials.back() : request.trials[rng.below(request.trials.size())], rng));
  return lines;
}

std::vector<Piece> OutputBank::lines_of_others(const BlockRequest& request) const {
  Rng rng(Seed::from_number(request.secret).derive("others"));
  std::vector<bool> mine(workload_.trials.size(), false);
  for (const int trial : request.trials) mine[static_cast<std::size_t>(trial)] = true;
  std::vector<Piece> lines;
  for (std::size_t t = 0; t < workload_.trials.size(); ++t)
    if (!mine[t]) lines.push_back(draw_line(static_cast<int>(t), rng));
  return lines;
}

const std::byte* OutputBank::collected(const Piece& piece) const {
  return host_.data() + piece.trial * layout_.outputs.stride + layout_.outputs.offsets[piece.output] +
         piece.offset;
}

bool OutputBank::changed_since_sample(const BlockRequest& request) const {
  const std::byte* seen = host_.data() + layout_.outputs.stride * layout_.trials;
  for (const Piece& line : lines_of_trials(request)) {
    if (std::memcmp(seen, collected(line), line.bytes) != 0) return true;
    seen += kLineBytes;
  }
  return false;
}

bool OutputBank::others_untouched(const BlockRequest& request) const {
  for (const Piece& line : lines_of_others(request)) {
    if (layout_.inout_source[line.output] >= 0) continue;  // starts as its input does
    const std::byte* const bytes = collected(line);
    if (std::any_of(bytes, bytes + line.bytes, [&](std::byte b) { return b != std::byte{request.poison}; }))
      return false;
  }
  return true;
}

void OutputBank::add_pieces(const BlockRequest& request, int trial, std::size_t output,
                            std::vector<Piece>& pieces) const {
  const auto add = [&](std::uint64_t offset, std::uint64_t bytes) {
    pieces.push_back({static_cast<std::uint32_t>(trial), static_cast<std::uint32_t>(output), offset, bytes});
  };
  const Expected& expected = workload_.trials[static_cast<std::size_t>(trial)].expected[output];
  const std::size_t bytes = info(expected.dtype).bytes, count = expected.value.data.size();
  const TileChoice choice = choice_of(request, trial);
  const auto add_values = [&](std::size_t begin, std::size_t size) {
    expected.for_ranges(begin, size,
                        [&](const KnownRange& range) { add(range.element * bytes, range.count * bytes); });
  };
  if (choice.fraction >= 1) return add_values(0, count);
  for (std::size_t tile = 0; tile < tile_count(count); ++tile)
    if (choice.includes(tile))
      add_values(tile * kRmsTile, std::min<std::size_t>(kRmsTile, count - tile * kRmsTile));
}

Status OutputBank::share(const Channel& launcher) const {
  std::vector<int> fds;
  {
    std::lock_guard lock(handles_mutex_);
    if (handles_.empty() || handles_generation_ != keeper_.generation()) {
      handles_generation_ = keeper_.generation();
      LATHE_TRY(handles_, keeper_.handles(held_, index_, layout_));
    }
    for (const UniqueFd& handle : handles_) fds.push_back(handle.get());
  }
  return send_handles(launcher, fds);
}

std::span<const std::byte> OutputBank::output(int trial, int index) const {
  const auto i = static_cast<std::size_t>(index);
  return {
      host_.data() + static_cast<std::size_t>(trial) * layout_.outputs.stride + layout_.outputs.offsets[i],
      layout_.outputs.slots[i].bytes};
}

}  // namespace lathe::cuda

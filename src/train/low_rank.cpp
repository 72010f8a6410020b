#include "train/low_rank.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace lathe::train {
namespace {

/// Linear objects are copied with their layer; the tensor inside stays the same.
const void* key_of(const lm::Linear& matrix) { return matrix.weight.unsafeGetTensorImpl(); }

at::Tensor leaf(const at::Tensor& values, at::Device device) {
  return values.to(device, at::kFloat).clone().requires_grad_(true);
}

}  // namespace

template <class MakePair>
void LowRank::add_parts(const lm::Decoder& decoder, const MakePair& make_pair) {
  const auto matrices = lm::adaptable_matrices(decoder.config());
  for (std::size_t i = 0; i < decoder.layers().size(); ++i) {
    const lm::LayerWeights& layer = decoder.layers()[i];
    std::size_t next = 0;
    for (const auto& [linear, count] :
         {std::pair{&layer.qkv, 3}, {&layer.attention_out, 1}, {&layer.gate_up, 2}, {&layer.down, 1}}) {
      std::vector<Part> parts;
      for (int part = 0; part < count; ++part) {
        const lm::AdaptableMatrix& matrix = matrices[next++];
        const std::string weight = matrix.weight(static_cast<std::int64_t>(i));
        parts.push_back({weight, matrix.out, make_pair(matrix, weight)});
      }
      if (std::ranges::none_of(parts, [](const Part& part) { return part.pair.down.defined(); })) continue;
      order_.push_back(key_of(*linear));
      parts_.emplace(order_.back(), std::move(parts));
    }
  }
}

Result<LowRank> LowRank::create(const lm::Decoder& decoder, const LowRankOptions& options,
                                std::uint64_t seed) {
  std::vector<std::string_view> names;
  for (const auto& matrix : lm::adaptable_matrices(decoder.config())) names.push_back(matrix.name);
  for (const std::string& target : options.targets)
    if (std::ranges::find(names, target) == names.end())
      return invalid(fmt::format("there is no matrix '{}' to adapt", target),
                     fmt::format("there are {}", fmt::join(names, ", ")));
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  LowRank made(options);
  made.add_parts(decoder, [&](const lm::AdaptableMatrix& matrix, const std::string&) -> lm::Adapter::Pair {
    if (std::ranges::find(options.targets, matrix.name) == options.targets.end()) return {};
    // kaiming_uniform with a = sqrt(5): the bound is 1 / sqrt(in).
    const double bound = 1 / std::sqrt(static_cast<double>(matrix.in));
    const at::Tensor down = (at::rand({options.rank, matrix.in}, generator, at::kFloat) * 2 - 1) * bound;
    const at::Device device = decoder.options().device;
    return {leaf(down, device), leaf(at::zeros({matrix.out, options.rank}), device)};
  });
  return made;
}

Result<LowRank> LowRank::create(const lm::Decoder& decoder, const lm::Adapter& adapter) {
  LATHE_CHECK_OK(check_fits(adapter, decoder.config()));
  LowRank made({adapter.rank, adapter.alpha, adapter.dropout, adapter.bits, adapter.targets});
  made.add_parts(decoder, [&](const lm::AdaptableMatrix&, const std::string& weight) -> lm::Adapter::Pair {
    const auto found = adapter.pairs.find(weight);
    if (found == adapter.pairs.end()) return {};
    const at::Device device = decoder.options().device;
    return {leaf(found->second.down, device), leaf(found->second.up, device)};
  });
  return made;
}

std::vector<std::pair<std::string, at::Tensor>> LowRank::named_parameters() const {
  std::vector<std::pair<std::string, at::Tensor>> named;
  for (const void* matrix : order_)
    for (const Part& part : parts_.at(matrix)) {
      if (!part.pair.down.defined()) continue;
      named.emplace_back(part.weight + ".lora_A", part.pair.down);
      named.emplace_back(part.weight + ".lora_B", part.pair.up);
    }
  return named;
}

at::Tensor LowRank::addition(const at::Tensor& x, const lm::Linear& matrix,
                             std::optional<at::Generator> generator) const {
  const auto found = parts_.find(key_of(matrix));
  if (found == parts_.end()) return {};
  const std::vector<Part>& parts = found->second;
  at::Tensor kept = x;
  if (generator && options_.dropout > 0) {
    const double keep = 1 - options_.dropout;
    const at::Tensor mask = at::empty_like(x).bernoulli_(keep, generator);
    kept = x * mask / keep;
  }
  std::vector<at::Tensor> downs;
  for (const Part& part : parts)
    if (part.pair.down.defined()) downs.push_back(part.pair.down);
  const at::Tensor low = at::linear(kept, at::cat(downs).to(x.scalar_type()));
  const double scale = options_.alpha / static_cast<double>(options_.rank);
  std::vector<at::Tensor> added;
  std::int64_t first = 0;
  for (const Part& part : parts) {
    if (!part.pair.down.defined()) {
      added.push_back(at::zeros({x.size(0), part.rows}, x.options()));
      continue;
    }
    added.push_back(at::linear(low.narrow(1, first, options_.rank), part.pair.up.to(x.scalar_type())));
    first += options_.rank;
  }
  return (added.size() == 1 ? added[0] : at::cat(added, 1)) * scale;
}

at::Tensor LowRank::addition_to(const std::string& weight) const {
  const double scale = options_.alpha / static_cast<double>(options_.rank);
  for (const auto& [matrix, parts] : parts_)
    for (const Part& part : parts)
      if (part.weight == weight && part.pair.down.defined())
        return at::matmul(part.pair.up.detach(), part.pair.down.detach()) * scale;
  return {};
}

lm::Adapter LowRank::to_adapter(const std::string& base_model) const {
  lm::Adapter adapter{.base_model = base_model,
                      .rank = options_.rank,
                      .alpha = options_.alpha,
                      .dropout = options_.dropout,
                      .bits = options_.bits,
                      .targets = options_.targets,
                      .pairs = {}};
  for (const auto& [matrix, parts] : parts_)
    for (const Part& part : parts)
      if (part.pair.down.defined())
        adapter.pairs[part.weight] = {part.pair.down.detach().cpu(), part.pair.up.detach().cpu()};
  return adapter;
}

}  // namespace lathe::train

#include "train/parameters.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>

namespace lathe::train {
namespace {

bool decays(const at::Tensor& leaf) { return leaf.dim() >= 2; }

}  // namespace

Parameters::Parameters(const NamedTensors& leaves) {
  const at::NoGradGuard no_grad;
  Hasher hasher;
  for (const auto& [name, leaf] : leaves) {
    hasher.add(name).add(static_cast<std::int64_t>(leaf.scalar_type()));
    for (const std::int64_t extent : leaf.sizes()) hasher.add(extent);
  }
  layout_ = hasher.finish();
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat})
    for (const bool decay : {true, false}) {
      std::vector<at::Tensor> members;
      for (const auto& [name, leaf] : leaves)
        if (leaf.scalar_type() == type && decays(leaf) == decay) members.push_back(leaf);
      if (members.empty()) continue;
      std::vector<at::Tensor> flat;
      for (const at::Tensor& leaf : members) flat.push_back(leaf.detach().reshape({-1}));
      Block block{.type = type, .decays = decay, .values = at::cat(flat)};
      const auto wide = block.values.options().dtype(at::kFloat);
      block.value_grads = at::zeros_like(block.values);
      block.master = type == at::kFloat ? block.values : block.values.to(at::kFloat);
      block.grads = type == at::kFloat ? block.value_grads : at::zeros(block.values.sizes(), wide);
      block.mean = at::zeros(block.values.sizes(), wide);
      block.square = at::zeros(block.values.sizes(), wide);
      std::int64_t first = 0;
      for (const at::Tensor& leaf : members) {
        const auto part = [&](const at::Tensor& array) {
          return array.narrow(0, first, leaf.numel()).view(leaf.sizes());
        };
        leaf.set_data(part(block.values));
        leaf.mutable_grad() = part(block.value_grads);
        first += leaf.numel();
      }
      blocks_.push_back(std::move(block));
    }
}

std::int64_t Parameters::count() const {
  std::int64_t count = 0;
  for (const Block& block : blocks_) count += block.values.numel();
  return count;
}

void Parameters::collect_gradients() {
  const at::NoGradGuard no_grad;
  for (Block& block : blocks_) {
    if (block.type == at::kFloat) continue;
    block.grads.add_(block.value_grads);
    block.value_grads.zero_();
  }
}

std::vector<at::Tensor> Parameters::gradients() const {
  std::vector<at::Tensor> gradients;
  for (const Block& block : blocks_) gradients.push_back(block.grads);
  return gradients;
}

double Parameters::clip(double most) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> norms;
  for (const Block& block : blocks_) norms.push_back(at::linalg_vector_norm(block.grads));
  const double norm = at::linalg_vector_norm(at::stack(norms)).item<float>();
  // torch.nn.utils.clip_grad_norm_ has this 1e-6 too.
  if (most > 0 && norm > most)
    for (Block& block : blocks_) block.grads.mul_(most / (norm + 1e-6));
  return norm;
}

void Parameters::update(const AdamW& options, double learning_rate, std::int64_t step) {
  const at::NoGradGuard no_grad;
  for (Block& block : blocks_) {
    const at::Tensor steps = at::full({}, static_cast<float>(step + 1), block.master.options());
    at::_fused_adamw_({block.master}, {block.grads}, {block.mean}, {block.square}, {}, {steps}, learning_rate,
                      options.beta1, options.beta2, block.decays ? options.weight_decay : 0.0,
                      options.epsilon,
                      /*amsgrad=*/false, /*maximize=*/false);
    if (block.type != at::kFloat) block.values.copy_(block.master);
    block.grads.zero_();
  }
}

NamedTensors Parameters::state() const {
  NamedTensors state;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    state.emplace_back(fmt::format("block{}.master", i), blocks_[i].master);
    state.emplace_back(fmt::format("block{}.mean", i), blocks_[i].mean);
    state.emplace_back(fmt::format("block{}.square", i), blocks_[i].square);
  }
  return state;
}

void Parameters::state_was_loaded() {
  const at::NoGradGuard no_grad;
  for (Block& block : blocks_)
    if (block.type != at::kFloat) block.values.copy_(block.master);
}

at::Tensor Parameters::master_of(const at::Tensor& leaf) const {
  for (const Block& block : blocks_)
    if (leaf.storage().is_alias_of(block.values.storage()))
      return block.master.as_strided(leaf.sizes(), leaf.strides(), leaf.storage_offset());
  return leaf;
}

}  // namespace lathe::train

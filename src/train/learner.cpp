#include "train/learner.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/guard.h"
#include "model/mapped_file.h"
#include "model/safetensors_writer.h"
#include "record/json.h"
#include "train/to_tensor.h"

namespace lathe::train {
namespace {

/// Tensors on their way to a file: on the CPU and without gaps.
class TensorFile {
 public:
  void add(const std::string& name, const at::Tensor& tensor) {
    const at::Tensor& plain = kept_.emplace_back(tensor.detach().to(at::kCPU).contiguous());
    entries_.push_back(
        {.name = name,
         .shape = plain.sizes().vec(),
         .format = plain.scalar_type() == at::kFloat ? WeightFormat::kF32 : WeightFormat::kBF16,
         .bytes = {static_cast<const std::byte*>(plain.const_data_ptr()), plain.nbytes()}});
  }
  Status write(const std::string& path) const {
    return write_safetensors(path, entries_, {{"format", "pt"}});
  }

 private:
  std::vector<at::Tensor> kept_;
  std::vector<SafetensorsEntry> entries_;
};

}  // namespace

NamedTensors trainable_weights(const lm::Decoder& decoder) {
  NamedTensors weights;
  for (const auto& [name, tensor] : decoder.named_weights())
    if (name.find(".layers.") == std::string::npos) weights.emplace_back(name, tensor);
  for (std::size_t i = 0; i < decoder.layers().size(); ++i) {
    const lm::LayerWeights& layer = decoder.layers()[i];
    const auto add = [&](std::string_view name, const at::Tensor& tensor) {
      if (tensor.defined()) weights.emplace_back(fmt::format("model.layers.{}.{}", i, name), tensor);
    };
    add("attention_norm", layer.attention_norm);
    add("qkv", layer.qkv.weight);
    add("qkv.bias", layer.qkv.bias);
    add("q_norm", layer.q_norm);
    add("k_norm", layer.k_norm);
    add("attention_out", layer.attention_out.weight);
    add("ffn_norm", layer.ffn_norm);
    add("gate_up", layer.gate_up.weight);
    add("down", layer.down.weight);
  }
  return weights;
}

Result<Learner> Learner::create(lm::Decoder decoder, const std::optional<LowRankOptions>& adapter,
                                std::uint64_t seed) {
  const auto kept = std::make_shared<const lm::Decoder>(std::move(decoder));
  if (!adapter) return Learner(kept, nullptr);
  LATHE_TRY(LowRank low_rank, LowRank::create(*kept, *adapter, seed));
  return Learner(kept, std::make_shared<const LowRank>(std::move(low_rank)));
}

Result<Learner> Learner::create(lm::Decoder decoder, const lm::Adapter& adapter) {
  const auto kept = std::make_shared<const lm::Decoder>(std::move(decoder));
  LATHE_TRY(LowRank low_rank, LowRank::create(*kept, adapter));
  return Learner(kept, std::make_shared<const LowRank>(std::move(low_rank)));
}

Learner::Learner(const std::shared_ptr<const lm::Decoder>& decoder,
                 const std::shared_ptr<const LowRank>& low_rank)
    : scorer_(decoder, low_rank) {
  NamedTensors leaves;
  if (low_rank) {
    leaves = low_rank->named_parameters();
  } else {
    leaves = trainable_weights(*decoder);
    for (const auto& [name, leaf] : leaves) leaf.set_requires_grad(true);
  }
  parameters_ = std::make_unique<Parameters>(leaves);
}

Result<Scorer> Learner::freeze() const {
  if (low_rank() != nullptr) {
    LATHE_TRY(LowRank copy, LowRank::create(decoder(), low_rank()->to_adapter({})));
    return scorer_.with(std::make_shared<const LowRank>(std::move(copy)));
  }
  LATHE_TRY(lm::Decoder copy, lm::Decoder::assemble(decoder().config(), decoder().options(), weights()));
  return scorer_.with(std::make_shared<const lm::Decoder>(std::move(copy)));
}

lm::WeightReader Learner::weights() const {
  const at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> named;
  for (const auto& [name, tensor] : decoder().named_weights()) named.emplace(name, tensor);
  return [this, named = std::move(named)](const std::string& name) -> Result<at::Tensor> {
    const at::NoGradGuard none;
    const auto found = named.find(name);
    if (found == named.end()) return Error{ErrorCode::kNotFound, "the model has no weight " + name};
    at::Tensor values =
        parameters_->master_of(found->second).detach().to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
    const at::Tensor addition = low_rank() != nullptr ? low_rank()->addition_to(name) : at::Tensor();
    return addition.defined() ? values.add_(addition) : values;
  };
}

void Learner::backward(const at::Tensor& loss) {
  loss.backward();
  parameters_->collect_gradients();
}

std::int64_t Learner::fingerprint() const {
  at::Tensor bits = at::zeros({}, at::kLong);  // modulo 2^64, so that the order does not matter
  for (const auto& [name, tensor] : parameters_->state())
    bits.add_(tensor.detach().view(at::kInt).sum(at::kLong).cpu());
  return bits.item<std::int64_t>();
}

Status Learner::save_state(const std::string& path) const {
  TensorFile file;
  for (const auto& [name, tensor] : parameters_->state()) file.add(name, tensor);
  return file.write(path);
}

Status Learner::load_state(const std::string& path) {
  LATHE_TRY(const MappedFile mapped, MappedFile::open(path));
  LATHE_TRY(const auto entries, parse_safetensors(mapped.bytes(), path));
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : parameters_->state()) {
    const auto found = std::ranges::find(entries, name, &SafetensorsEntry::name);
    if (found == entries.end() || found->shape != tensor.sizes() || found->format != WeightFormat::kF32)
      return invalid(fmt::format("the state has no '{}' of {} numbers", name, tensor.numel()),
                     "it is of another model or adapter", {path});
    at::Tensor values = at::empty(tensor.sizes(), at::kFloat);
    std::memcpy(values.mutable_data_ptr(), found->bytes.data(), found->bytes.size());
    at::Tensor(tensor).copy_(values);
  }
  parameters_->state_was_loaded();
  return Ok{};
}

Status Learner::write_result(const std::string& folder, const std::string& base) const {
  if (low_rank() != nullptr) return lm::write_adapter(low_rank()->to_adapter(base), folder + "/adapter");
  const at::NoGradGuard no_grad;
  const std::string model = folder + "/model";
  LATHE_CHECK_OK(make_directories(model));
  TensorFile file;
  const lm::Precision precision = decoder().options().precision;
  for (const auto& [name, tensor] : decoder().named_weights())
    file.add(name, parameters_->master_of(tensor).to(lm::scalar_type(precision)));
  LATHE_CHECK_OK(file.write(model + "/model.safetensors"));
  return write_file_atomically(model + "/config.json", config_json(decoder().config(), precision) + "\n");
}

std::string config_json(const ModelConfig& config, lm::Precision precision) {
  const auto architecture = [&] {
    switch (config.architecture) {
      case Architecture::kLlama:
        return "LlamaForCausalLM";
      case Architecture::kQwen2:
        return "Qwen2ForCausalLM";
      case Architecture::kQwen3:
        return "Qwen3ForCausalLM";
    }
    return "";
  };
  const nlohmann::json json = {
      {"architectures", {architecture()}},
      {"model_type", std::string(name_of(config.architecture))},
      {"hidden_size", config.hidden},
      {"intermediate_size", config.ffn},
      {"num_hidden_layers", config.layers},
      {"num_attention_heads", config.heads},
      {"num_key_value_heads", config.kv_heads},
      {"head_dim", config.head_dim},
      {"vocab_size", config.vocab},
      {"max_position_embeddings", config.context},
      {"rms_norm_eps", config.rms_eps},
      {"rope_theta", config.rope_theta},
      {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", config.rope_theta}}},
      {"tie_word_embeddings", config.tied_embeddings},
      {"attention_bias", config.qkv_bias && config.architecture != Architecture::kQwen2},
      {"hidden_act", "silu"},
      {"torch_dtype", precision == lm::Precision::kF32 ? "float32" : "bfloat16"}};
  return json_text(json, 2);
}

}  // namespace lathe::train

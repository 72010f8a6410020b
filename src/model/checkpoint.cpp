#include "model/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/parallel.h"
#include "base/visible_text.h"
#include "model/checkpoint_builder.h"

namespace lathe {
namespace {

constexpr std::size_t kReadBytes = 1 << 20;  // a thread's share of a read: long enough to repay its start

struct Expected {
  std::string name;
  std::vector<std::int64_t> shape;
};

std::vector<Expected> weights_of_layer(const ModelConfig& c, std::int64_t layer) {
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  const std::int64_t q_rows = c.heads * c.head_dim;
  const std::int64_t kv_rows = c.kv_heads * c.head_dim;
  std::vector<Expected> weights;
  const auto add = [&](const char* name, std::vector<std::int64_t> shape) {
    weights.push_back({prefix + name, std::move(shape)});
  };
  add("input_layernorm.weight", {c.hidden});
  add("self_attn.q_proj.weight", {q_rows, c.hidden});
  add("self_attn.k_proj.weight", {kv_rows, c.hidden});
  add("self_attn.v_proj.weight", {kv_rows, c.hidden});
  if (c.qkv_bias) {
    add("self_attn.q_proj.bias", {q_rows});
    add("self_attn.k_proj.bias", {kv_rows});
    add("self_attn.v_proj.bias", {kv_rows});
  }
  if (c.qk_norm) {
    add("self_attn.q_norm.weight", {c.head_dim});
    add("self_attn.k_norm.weight", {c.head_dim});
  }
  add("self_attn.o_proj.weight", {c.hidden, q_rows});
  add("post_attention_layernorm.weight", {c.hidden});
  add("mlp.gate_proj.weight", {c.ffn, c.hidden});
  add("mlp.up_proj.weight", {c.ffn, c.hidden});
  add("mlp.down_proj.weight", {c.hidden, c.ffn});
  return weights;
}

/// The stored row of a canonical one, where the pairs of a head's rotation lie side by side.
std::size_t interleaved_row(std::size_t row, std::size_t rows_of_head) {
  const std::size_t in_head = row % rows_of_head;
  const std::size_t half = rows_of_head / 2;
  return row - in_head + 2 * (in_head % half) + in_head / half;
}

std::string text_of(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace

std::string_view name_of(Architecture architecture) {
  switch (architecture) {
    case Architecture::kLlama:
      return "llama";
    case Architecture::kQwen2:
      return "qwen2";
    case Architecture::kQwen3:
      return "qwen3";
  }
  return "";
}

std::int64_t WeightInfo::elements() const {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= extent;
  return elements;
}

std::size_t WeightInfo::stored_bytes() const {
  const WeightFormatInfo& layout = lathe::info(format);
  return static_cast<std::size_t>(elements()) / layout.block_elements * layout.block_bytes;
}

Status CheckpointBuilder::check_config() const {
  const auto senseless = [&](std::string what) {
    return invalid(std::move(what), "check where the file comes from", {path});
  };
  struct Range {
    const char* name;
    std::int64_t value;
    std::int64_t most;
  };
  for (const Range& range :
       {Range{"number of layers", config.layers, 4096}, Range{"hidden size", config.hidden, 1 << 20},
        Range{"number of heads", config.heads, 4096},
        Range{"number of key-value heads", config.kv_heads, 4096}, Range{"head size", config.head_dim, 4096},
        Range{"feed-forward size", config.ffn, 1 << 22}, Range{"vocabulary's size", config.vocab, 1 << 24},
        Range{"context length", config.context, std::int64_t{1} << 32}}) {
    if (range.value < 1 || range.value > range.most)
      return senseless(
          fmt::format("the model's {} is {}, not between 1 and {}", range.name, range.value, range.most));
  }
  if (config.heads % config.kv_heads != 0)
    return senseless(fmt::format("{} heads cannot share {} key-value heads", config.heads, config.kv_heads));
  if (config.head_dim % 2 != 0)
    return senseless(fmt::format("heads of {} elements have no rotary pairs", config.head_dim));
  if (!(config.rms_eps > 0 && config.rms_eps < 1) || !(config.rope_theta >= 1 && config.rope_theta < 1e15))
    return senseless(
        fmt::format("rms_norm_eps {} or rope_theta {} makes no sense", config.rms_eps, config.rope_theta));
  const auto sound = [](float factor) { return std::isfinite(factor) && factor > 0; };
  if (!config.rope_factors.empty() &&
      (config.rope_factors.size() != static_cast<std::size_t>(config.head_dim / 2) ||
       !std::all_of(config.rope_factors.begin(), config.rope_factors.end(), sound)))
    return senseless("the factors of the rotary frequencies are no half a head of positive numbers");
  return Ok{};
}

Result<Checkpoint> CheckpointBuilder::build() && {
  LATHE_CHECK_OK(check_config());
  Checkpoint checkpoint;
  const auto take = [&](const Expected& expected) -> Status {
    const auto node = weights.extract(expected.name);
    if (node.empty())
      return Error{ErrorCode::kCorrupt,
                   fmt::format("the weight '{}' is missing", expected.name),
                   "the file is incomplete or of another kind of model; fetch it again",
                   {path}};
    FoundWeight& found = node.mapped();
    if (found.shape != expected.shape)
      return Error{ErrorCode::kCorrupt,
                   fmt::format("the weight '{}' has the shape {} where the configuration asks for {}",
                               expected.name, text_of(found.shape), text_of(expected.shape)),
                   "configuration and weights are of different models",
                   {found.file}};
    if (found.shape.size() == 1 && info(found.format).block_elements > 1)
      return invalid(
          fmt::format("the vector '{}' is stored in blocks ({})", expected.name, info(found.format).name),
          "convert the model with vectors in F32", {found.file});
    checkpoint.infos_.push_back({expected.name, std::move(found.shape), found.format});
    checkpoint.places_.push_back({found.bytes, found.interleaved_heads, std::move(found.file)});
    return Ok{};
  };
  LATHE_CHECK_OK(take({"model.embed_tokens.weight", {config.vocab, config.hidden}}));
  for (std::int64_t layer = 0; layer < config.layers; ++layer)
    for (const Expected& expected : weights_of_layer(config, layer)) LATHE_CHECK_OK(take(expected));
  LATHE_CHECK_OK(take({"model.norm.weight", {config.hidden}}));
  if (!config.tied_embeddings) LATHE_CHECK_OK(take({"lm_head.weight", {config.vocab, config.hidden}}));
  if (!weights.empty())
    return invalid(
        fmt::format("the weight '{}' is no part of a {} model as Lathe computes it",
                    visible_line(weights.begin()->first.substr(0, 200)), name_of(config.architecture)),
        "Lathe runs plain Llama, Qwen2 and Qwen3 models (docs/models.md)", {weights.begin()->second.file});
  checkpoint.config_ = std::move(config);
  checkpoint.files_ = std::move(files);
  checkpoint.path_ = std::move(path);
  return checkpoint;
}

Result<Checkpoint> Checkpoint::open(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored) || path.ends_with(".safetensors"))
    return open_safetensors_checkpoint(path);
  return open_gguf_checkpoint(path);
}

const WeightInfo* Checkpoint::find(std::string_view name) const {
  const auto found =
      std::find_if(infos_.begin(), infos_.end(), [&](const auto& info) { return info.name == name; });
  return found == infos_.end() ? nullptr : &*found;
}

Result<std::size_t> Checkpoint::index_of(std::string_view name) const {
  const WeightInfo* found = find(name);
  if (found == nullptr)
    return Error{ErrorCode::kNotFound, fmt::format("the model has no weight '{}'", name), {}, {path_}};
  return static_cast<std::size_t>(found - infos_.data());
}

Status Checkpoint::for_each_run(std::size_t index, const RunReader& read_run) const {
  const WeightInfo& info = infos_[index];
  const Place& place = places_[index];
  const auto rows = static_cast<std::size_t>(info.shape.front());
  const std::size_t row_bytes = place.bytes.size() / rows;
  const std::size_t row_elements = static_cast<std::size_t>(info.elements()) / rows;
  const auto checked = [&](std::size_t row, std::span<const std::byte> run) -> Status {
    if (const auto bad = first_not_finite(info.format, run))
      return Error{
          ErrorCode::kCorrupt,
          fmt::format("the weight '{}' is not finite in row {}", info.name, row + *bad / row_elements),
          "the file is damaged; fetch it again and compare its digest",
          {place.file}};
    read_run(row, run);
    return Ok{};
  };
  const std::size_t rows_of_job = std::max<std::size_t>(1, kReadBytes / row_bytes);
  const std::size_t jobs = (rows + rows_of_job - 1) / rows_of_job;
  return for_each_index(static_cast<int>(jobs), [&](int job) -> Status {
    const std::size_t begin = static_cast<std::size_t>(job) * rows_of_job;
    const std::size_t end = std::min(rows, begin + rows_of_job);
    if (place.interleaved_heads == 0)
      return checked(begin, place.bytes.subspan(begin * row_bytes, (end - begin) * row_bytes));
    const std::size_t rows_of_head = rows / static_cast<std::size_t>(place.interleaved_heads);
    for (std::size_t row = begin; row < end; ++row)
      LATHE_CHECK_OK(
          checked(row, place.bytes.subspan(interleaved_row(row, rows_of_head) * row_bytes, row_bytes)));
    return Ok{};
  });
}

Status Checkpoint::read(std::string_view name, std::span<float> to) const {
  LATHE_TRY(const std::size_t index, index_of(name));
  const WeightInfo& info = infos_[index];
  const auto elements = static_cast<std::size_t>(info.elements());
  if (to.size() != elements)
    return invalid(fmt::format("'{}' has {} elements, not {}", info.name, elements, to.size()));
  const std::size_t row_elements = elements / static_cast<std::size_t>(info.shape.front());
  const WeightFormatInfo& layout = lathe::info(info.format);
  return for_each_run(index, [&](std::size_t row, std::span<const std::byte> run) {
    const std::size_t count = run.size() / layout.block_bytes * layout.block_elements;
    dequantise(info.format, run, to.subspan(row * row_elements, count));
  });
}

Status Checkpoint::read_stored(std::string_view name, std::span<std::byte> to) const {
  LATHE_TRY(const std::size_t index, index_of(name));
  const WeightInfo& info = infos_[index];
  if (to.size() != info.stored_bytes())
    return invalid(
        fmt::format("'{}' is stored in {} bytes, not {}", info.name, info.stored_bytes(), to.size()));
  const std::size_t row_bytes = to.size() / static_cast<std::size_t>(info.shape.front());
  return for_each_run(index, [&](std::size_t row, std::span<const std::byte> run) {
    std::memcpy(to.data() + row * row_bytes, run.data(), run.size());
  });
}

}  // namespace lathe

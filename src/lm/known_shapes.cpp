#include "lm/known_shapes.h"

#include <fmt/format.h>

namespace lathe::lm {

Result<ModelConfig> known_shape(const std::string& name) {
  ModelConfig config{.context = 32768, .rms_eps = 1e-6, .rope_theta = 1e6, .tied_embeddings = true};
  if (name == "smollm2-135m") {
    config.layers = 30, config.hidden = 576, config.heads = 9, config.kv_heads = 3, config.head_dim = 64;
    config.ffn = 1536, config.vocab = 49152;
    return config;
  }
  if (name == "qwen2.5-0.5b") {
    config.architecture = Architecture::kQwen2, config.qkv_bias = true;
    config.layers = 24, config.hidden = 896, config.heads = 14, config.kv_heads = 2, config.head_dim = 64;
    config.ffn = 4864, config.vocab = 151936;
    return config;
  }
  if (name == "tiny") {
    config.layers = 2, config.hidden = 64, config.heads = 4, config.kv_heads = 2, config.head_dim = 16;
    config.ffn = 128, config.vocab = 256;
    return config;
  }
  return invalid(fmt::format("no shape is called '{}'", name),
                 "there are smollm2-135m, qwen2.5-0.5b and tiny");
}

}  // namespace lathe::lm

#include "model/checkpoint.h"

#include <cmath>

#include "tests/model/tiny_model.h"

namespace lathe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<float> read(const Checkpoint& checkpoint, const std::string& name) {
  const WeightInfo* info = checkpoint.find(name);
  std::vector<float> values(info == nullptr ? 0 : static_cast<std::size_t>(info->elements()));
  const auto status = checkpoint.read(name, values);
  EXPECT_TRUE(status.ok()) << status.error().to_string();
  return values;
}

class CheckpointTest : public testing::Test {
 protected:
  Result<Checkpoint> open(const GgufWriter& writer) {
    return Checkpoint::open(folder_.write("m.gguf", writer.bytes()));
  }
  std::string refusal(const GgufWriter& writer) { return refusal_of(open(writer)); }
  static std::string refusal_of(const Result<Checkpoint>& checkpoint) {
    if (checkpoint.ok()) return "it was opened";
    EXPECT_FALSE(checkpoint.error().where.file.empty()) << checkpoint.error().message;
    EXPECT_FALSE(checkpoint.error().hint.empty()) << checkpoint.error().message;
    return checkpoint.error().message;
  }

  /// A folder with the tiny model in safetensors.
  Result<Checkpoint> open_folder(const nlohmann::json& config,
                                 const SafetensorsWriter& weights = tiny_safetensors()) {
    folder_.write("config.json", config.dump());
    folder_.write("model.safetensors", weights.bytes());
    return Checkpoint::open(folder_.path());
  }

  TemporaryFolder folder_;
};

TEST_F(CheckpointTest, ReadsTheConfigurationOfAGgufFile) {
  const auto checkpoint = open(TinyModel().gguf());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
  const ModelConfig& config = checkpoint->config();
  EXPECT_EQ(config.architecture, Architecture::kLlama);
  EXPECT_EQ(config.layers, 1);
  EXPECT_EQ(config.hidden, 8);
  EXPECT_EQ(config.heads, 2);
  EXPECT_EQ(config.kv_heads, 1);
  EXPECT_EQ(config.head_dim, 4);
  EXPECT_EQ(config.ffn, 12);
  EXPECT_EQ(config.vocab, 5);
  EXPECT_EQ(config.context, 64);
  EXPECT_FLOAT_EQ(static_cast<float>(config.rms_eps), 1e-5f);
  EXPECT_EQ(config.rope_theta, 5000);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_TRUE(config.rope_factors.empty());
}

TEST_F(CheckpointTest, NamesWeightsAsHuggingFaceDoesInTheOrderOfTheirUse) {
  const auto checkpoint = open(TinyModel().gguf());
  ASSERT_TRUE(checkpoint.ok());
  std::vector<std::string> names;
  for (const WeightInfo& info : checkpoint->weights()) names.push_back(info.name);
  EXPECT_THAT(names,
              ElementsAre("model.embed_tokens.weight", "model.layers.0.input_layernorm.weight",
                          "model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight",
                          "model.layers.0.self_attn.v_proj.weight", "model.layers.0.self_attn.o_proj.weight",
                          "model.layers.0.post_attention_layernorm.weight",
                          "model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.up_proj.weight",
                          "model.layers.0.mlp.down_proj.weight", "model.norm.weight"));
  EXPECT_THAT(checkpoint->find("model.layers.0.mlp.down_proj.weight")->shape, ElementsAre(8, 12));
}

/// Row r of the stored k becomes canonical row (r % 2) * 2 + r / 2, of heads of four.
TEST_F(CheckpointTest, PutsRowsOfLlamasQAndKBackInOrder) {
  const auto checkpoint = open(TinyModel().gguf());
  ASSERT_TRUE(checkpoint.ok());
  const auto k = read(*checkpoint, "model.layers.0.self_attn.k_proj.weight");
  const float first = 5000;
  EXPECT_THAT((std::vector<float>{k[0], k[8], k[16], k[24]}),
              ElementsAre(first, first + 16, first + 8, first + 24));
  const auto q = read(*checkpoint, "model.layers.0.self_attn.q_proj.weight");
  EXPECT_THAT((std::vector<float>{q[32], q[40], q[48], q[56]}), ElementsAre(4032, 4048, 4040, 4056));
  const auto v = read(*checkpoint, "model.layers.0.self_attn.v_proj.weight");
  EXPECT_EQ(v[8], 6008);
  std::vector<float> stored(k.size());
  ASSERT_TRUE(
      checkpoint
          ->read_stored("model.layers.0.self_attn.k_proj.weight", std::as_writable_bytes(std::span(stored)))
          .ok());
  EXPECT_EQ(stored, k);
}

TEST_F(CheckpointTest, LeavesRowsOfQwenAsTheyAre) {
  TinyModel model;
  for (const char* name : {"q", "k", "v"})
    model.set(std::string("blk.0.attn_") + name + ".bias", {name[0] == 'q' ? 8 : 4}, 1);
  const auto checkpoint = open(model.gguf("qwen2"));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
  EXPECT_TRUE(checkpoint->config().qkv_bias);
  EXPECT_EQ(read(*checkpoint, "model.layers.0.self_attn.k_proj.weight")[8], 5008);
}

TEST_F(CheckpointTest, KnowsTheNormsOfQwen3) {
  TinyModel model;
  model.set("blk.0.attn_q_norm.weight", {4}, 1);
  model.set("blk.0.attn_k_norm.weight", {4}, 1);
  const auto checkpoint = open(model.gguf("qwen3"));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
  EXPECT_TRUE(checkpoint->config().qk_norm);
  EXPECT_NE(checkpoint->find("model.layers.0.self_attn.q_norm.weight"), nullptr);
  EXPECT_THAT(refusal(TinyModel().gguf("qwen3")),
              HasSubstr("'model.layers.0.self_attn.q_norm.weight' is missing"));
}

TEST_F(CheckpointTest, AHeadOfItsOwnIsNotTied) {
  TinyModel model;
  model.set("output.weight", {5, 8}, 1);
  const auto checkpoint = open(model.gguf());
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_FALSE(checkpoint->config().tied_embeddings);
  EXPECT_EQ(checkpoint->weights().back().name, "lm_head.weight");
}

TEST_F(CheckpointTest, RefusesWeightsThatAreMissingOfAnotherShapeOrUnknown) {
  TinyModel missing;
  missing.weights.erase("blk.0.ffn_up.weight");
  EXPECT_THAT(refusal(missing.gguf()), HasSubstr("'model.layers.0.mlp.up_proj.weight' is missing"));
  TinyModel turned;
  turned.set("blk.0.ffn_up.weight", {8, 12}, 1);
  EXPECT_THAT(refusal(turned.gguf()),
              HasSubstr("has the shape [8, 12] where the configuration asks for [12, 8]"));
  TinyModel more;
  more.set("blk.0.attn_output.bias", {8}, 1);
  EXPECT_THAT(refusal(more.gguf()), HasSubstr("no part of a llama model as Lathe computes it"));
}

TEST_F(CheckpointTest, RefusesModelsThatItWouldComputeWrongly) {
  const auto with = [](auto change) {
    GgufWriter writer = TinyModel().gguf();
    change(writer);
    return writer;
  };
  EXPECT_THAT(refusal(TinyModel().gguf("gemma")), HasSubstr("the architecture 'gemma' is unknown"));
  EXPECT_THAT(refusal(with([](auto& w) { w.number("llama.expert_count", 8); })),
              HasSubstr("mixture of 8 experts"));
  EXPECT_THAT(refusal(with([](auto& w) { w.number("llama.attention.sliding_window", 32); })),
              HasSubstr("sliding window"));
  EXPECT_THAT(refusal(with([](auto& w) { w.string("llama.rope.scaling.type", "yarn"); })),
              HasSubstr("scaled by 'yarn'"));
  EXPECT_THAT(refusal(with([](auto& w) { w.number("llama.rope.dimension_count", 2); })),
              HasSubstr("2 are rotated"));
  EXPECT_THAT(refusal(with([](auto& w) { w.number("llama.attention.key_length", 3); })),
              HasSubstr("heads of 3 elements have no rotary pairs"));
}

TEST_F(CheckpointTest, RefusesSizesBeyondItsLimitsBeforeItAllocates) {
  GgufWriter writer = TinyModel().gguf();
  const std::string key = GgufWriter::text("llama.block_count");
  writer.head.replace(writer.head.find(key) + key.size() + 4, 4, "\xff\xff\xff\xff");
  EXPECT_THAT(refusal(writer), HasSubstr("number of layers is 4294967295"));
}

TEST_F(CheckpointTest, UnderstandsRopeFactors) {
  GgufWriter linear = TinyModel().gguf();
  linear.string("llama.rope.scaling.type", "linear").real("llama.rope.scaling.factor", 4);
  auto checkpoint = open(linear);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
  EXPECT_THAT(checkpoint->config().rope_factors, ElementsAre(4, 4));
  TinyModel model;
  model.weights["rope_freqs.weight"] = {{2}, bytes_of({1, 8})};
  checkpoint = open(model.gguf());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
  EXPECT_THAT(checkpoint->config().rope_factors, ElementsAre(1, 8));
  model.weights["rope_freqs.weight"] = {{2}, bytes_of({1, -8})};
  EXPECT_THAT(refusal(model.gguf()), HasSubstr("no half a head of positive numbers"));
}

TEST_F(CheckpointTest, SaysWhichRowIsNotFinite) {
  TinyModel model;
  auto& bytes = model.weights["blk.0.ffn_up.weight"].second;
  bytes.replace(3 * 8 * 4, 4, bytes_of({NAN}));
  const auto checkpoint = open(model.gguf());
  ASSERT_TRUE(checkpoint.ok());
  std::vector<float> values(96);
  const auto status = checkpoint->read("model.layers.0.mlp.up_proj.weight", values);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message,
              HasSubstr("'model.layers.0.mlp.up_proj.weight' is not finite in row 3"));
  EXPECT_FALSE(
      checkpoint->read_stored("model.layers.0.mlp.up_proj.weight", std::as_writable_bytes(std::span(values)))
          .ok());
}

TEST_F(CheckpointTest, ChecksWhatIsAskedFor) {
  const auto checkpoint = open(TinyModel().gguf());
  ASSERT_TRUE(checkpoint.ok());
  std::vector<float> few(3);
  EXPECT_EQ(checkpoint->read("model.norm.weight", few).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(checkpoint->read("lm_head.weight", few).error().code, ErrorCode::kNotFound);
}

TEST_F(CheckpointTest, NamesFilesThatAreNotThere) {
  EXPECT_EQ(Checkpoint::open(folder_.path() + "/none.gguf").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Checkpoint::open(folder_.path()).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(Checkpoint::open("/dev/null").ok());
}

TEST_F(CheckpointTest, ReadsSafetensorsAsTheyStand) {
  const auto checkpoint = open_folder(tiny_config());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
  EXPECT_TRUE(checkpoint->config().tied_embeddings);
  EXPECT_EQ(checkpoint->config().head_dim, 4);
  EXPECT_EQ(read(*checkpoint, "model.layers.0.self_attn.k_proj.weight")[8], 5008);
  EXPECT_TRUE(Checkpoint::open(folder_.path() + "/model.safetensors").ok());
}

TEST_F(CheckpointTest, ReadsShards) {
  folder_.write("config.json", tiny_config().dump());
  nlohmann::json map;
  for (int shard = 0; shard < 2; ++shard) {
    const std::string file = "model-" + std::to_string(shard) + ".safetensors";
    const SafetensorsWriter weights = tiny_safetensors(shard);
    folder_.write(file, weights.bytes());
    for (const auto& item : weights.header.items()) map[item.key()] = file;
  }
  folder_.write("model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
  const auto checkpoint = Checkpoint::open(folder_.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
  EXPECT_EQ(read(*checkpoint, "model.norm.weight")[0], 2000);
  map["model.norm.weight"] = "../model-0.safetensors";
  folder_.write("model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
  EXPECT_THAT(refusal_of(Checkpoint::open(folder_.path())), HasSubstr("lies in no file of this folder"));
  folder_.write("model.safetensors.index.json", R"({"weight_map": {"a": "gone.safetensors"}})");
  EXPECT_EQ(Checkpoint::open(folder_.path()).error().code, ErrorCode::kNotFound);
}

TEST_F(CheckpointTest, ReadsHalfPrecision) {
  SafetensorsWriter weights = tiny_safetensors();
  weights.header.erase("model.norm.weight");
  std::string ones;
  for (int i = 0; i < 8; ++i) ones += std::string("\x80\x3f", 2);
  weights.add("model.norm.weight", {8}, ones, "BF16");
  const auto checkpoint = open_folder(tiny_config(), weights);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
  EXPECT_EQ(checkpoint->find("model.norm.weight")->format, WeightFormat::kBF16);
  EXPECT_THAT(read(*checkpoint, "model.norm.weight"), testing::Each(1.0f));
}

/// Against Meta's rule worked out by hand: wave lengths of 2 pi and 2 pi * sqrt(theta), trained on 8192.
TEST_F(CheckpointTest, UnderstandsLlama3sScaling) {
  nlohmann::json config = tiny_config();
  config["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 8192}};
  config["rope_theta"] = 1e8;  // the second pair's wave is 62832 long: beyond 8192
  auto checkpoint = open_folder(config);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
  EXPECT_THAT(checkpoint->config().rope_factors, ElementsAre(1, 8));
  config["rope_theta"] = 2.5e5;  // 3141.6 long: between 2048 and 8192
  checkpoint = open_folder(config);
  ASSERT_TRUE(checkpoint.ok());
  const double smooth = (8192 / (2 * M_PI * 500) - 1) / 3;
  EXPECT_NEAR(checkpoint->config().rope_factors[1], 1 / ((1 - smooth) / 8 + smooth), 1e-6);
}

TEST_F(CheckpointTest, UnderstandsConfigurationsOfTransformers5) {
  nlohmann::json config = tiny_config();
  config.erase("rope_theta");
  config["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 777.0}};
  const auto checkpoint = open_folder(config);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
  EXPECT_EQ(checkpoint->config().rope_theta, 777);
  EXPECT_THAT(checkpoint->config().rope_factors, ElementsAre(2, 2));
}

TEST_F(CheckpointTest, RefusesConfigurationsThatItWouldComputeWrongly) {
  const auto with = [&](const char* name, const nlohmann::json& value) {
    nlohmann::json config = tiny_config();
    config[name] = value;
    return refusal_of(open_folder(config));
  };
  EXPECT_THAT(with("model_type", "gemma2"), HasSubstr("'model_type' is \"gemma2\""));
  EXPECT_THAT(with("hidden_act", "gelu"), HasSubstr("activation"));
  EXPECT_THAT(with("mlp_bias", true), HasSubstr("'mlp_bias' is set"));
  EXPECT_THAT(with("use_sliding_window", true), HasSubstr("'use_sliding_window' is set"));
  EXPECT_THAT(with("partial_rotary_factor", 0.5), HasSubstr("only a part"));
  EXPECT_THAT(with("quantization_config", nlohmann::json::object()),
              HasSubstr("quantised by a method of their own"));
  EXPECT_THAT(with("layer_types", {"sliding_attention"}), HasSubstr("whole context"));
  EXPECT_THAT(with("rope_scaling", {{"type", "yarn"}}), HasSubstr("scaled by \"yarn\""));
  EXPECT_THAT(with("num_hidden_layers", "one"), HasSubstr("'num_hidden_layers' is no integer"));
  EXPECT_THAT(with("num_attention_heads", 0), HasSubstr("no attention heads"));
  EXPECT_THAT(with("num_key_value_heads", 3), HasSubstr("2 heads cannot share 3"));
  EXPECT_THAT(with("rms_norm_eps", -1), HasSubstr("makes no sense"));
  EXPECT_THAT(with("tie_word_embeddings", false), HasSubstr("'lm_head.weight' is missing"));
}

TEST_F(CheckpointTest, RefusesHostileSafetensors) {
  const auto refused = [&](const std::string& bytes) {
    folder_.write("config.json", tiny_config().dump());
    folder_.write("model.safetensors", bytes);
    return refusal_of(Checkpoint::open(folder_.path()));
  };
  const auto header = [](const std::string& text) {
    return SafetensorsWriter::of(text, std::string(16, '\0'));
  };
  EXPECT_THAT(refused("abc"), HasSubstr("first 8 bytes"));
  EXPECT_THAT(refused(little_endian(~std::uint64_t{0}) + "{}"), HasSubstr("the header would take"));
  EXPECT_THAT(refused(header("[1]")), HasSubstr("no JSON object"));
  EXPECT_THAT(refused(header(std::string(100000, '['))), HasSubstr("no JSON object"));
  EXPECT_THAT(refused(header(R"({"a": [[[[1]]]]})")), HasSubstr("nested too deeply"));
  EXPECT_THAT(refused(header(R"({"a": {"dtype": "F32", "shape": [1]}})")),
              HasSubstr("no dtype, shape and data_offsets"));
  const auto tensor = [&](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"dtype": ")" + dtype + R"(", "shape": )" + shape + R"(, "data_offsets": )" + offsets + "}";
  };
  const auto one = [&](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return refused(header(R"({"a": )" + tensor(dtype, shape, offsets) + "}"));
  };
  EXPECT_THAT(one("F64", "[1]", "[0, 8]"), HasSubstr("stored as F64"));
  EXPECT_THAT(one("Q8_0", "[32]", "[0, 34]"), HasSubstr("stored as Q8_0"));
  EXPECT_THAT(one("F32", "[-1]", "[0, 4]"), HasSubstr("no dtype, shape"));
  EXPECT_THAT(one("F32", "[0]", "[0, 0]"), HasSubstr("impossible shape"));
  EXPECT_THAT(one("F32", "[4294967296, 4294967296]", "[0, 4]"), HasSubstr("impossible shape"));
  EXPECT_THAT(one("F32", "[4]", "[8, 4]"), HasSubstr("lies from 8 to 4"));
  EXPECT_THAT(one("F32", "[9]", "[0, 36]"), HasSubstr("but the data has 16 bytes"));
  EXPECT_THAT(one("F32", "[2]", "[0, 4]"), HasSubstr("has 4 bytes where its shape and dtype ask for 8"));
  const std::string sound = tensor("F32", "[2]", "[0, 8]");
  EXPECT_THAT(refused(header(R"({"a": )" + sound + R"(, "a": )" + sound + "}")),
              HasSubstr("'a' occurs twice"));
  EXPECT_THAT(refused(header(R"({"a": )" + sound + R"(, "b": )" + tensor("F32", "[2]", "[4, 12]") + "}")),
              HasSubstr("overlap"));
}

TEST_F(CheckpointTest, RefusesEveryPrefixOfASafetensorsFile) {
  folder_.write("config.json", tiny_config().dump());
  const std::string bytes = tiny_safetensors().bytes();
  for (std::size_t size = 0; size < bytes.size(); size += 7) {
    folder_.write("model.safetensors", bytes.substr(0, size));
    EXPECT_FALSE(Checkpoint::open(folder_.path()).ok()) << size;
  }
}

}  // namespace
}  // namespace lathe

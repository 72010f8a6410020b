#include "train/example.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "record/json.h"

namespace lathe::train {
namespace {

using testing::HasSubstr;

std::string written(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + name;
  EXPECT_TRUE(write_file_atomically(path, text).ok());
  return path;
}

std::string error_of(const std::string& line) {
  const auto example = example_from_json(nlohmann::json::parse(line), {});
  return example.ok() ? "" : example.error().to_string();
}

TEST(Example, CarriesWhatAnExperienceRecords) {
  nlohmann::json line = {{"prompt_tokens", {1, 2}},
                         {"answer_tokens", {3, 4}},
                         {"loss_mask", {0, 1}},
                         {"log_probabilities", {-0.5, -1.5}},
                         {"experience", 9},
                         {"run", "r"},
                         {"sequence", 4},
                         {"task_name", "softmax"},
                         {"task", digest_of("t").hex()},
                         {"candidate", digest_of("c").hex()}};
  const Lineage lineage{.parents = {digest_of("parent")}, .policy = "local:m", .operation = "refine"};
  const Generation generation{
      .model = "m", .tokenizer = "k", .sampling = {{"temperature", 1}}, .group = 5, .turn = 2};
  line["lineage"] = to_json(lineage);
  line["generation"] = to_json(generation);
  const auto example = example_from_json(line, {});
  ASSERT_TRUE(example.ok()) << example.error().to_string();
  EXPECT_THAT(example->weights, testing::ElementsAre(0, 1));
  EXPECT_THAT(example->log_probs, testing::ElementsAre(-0.5, -1.5));
  EXPECT_EQ(example->origin.experience, 9);
  EXPECT_EQ(example->origin.run, "r");
  EXPECT_EQ(example->origin.sequence, 4);
  EXPECT_EQ(example->origin.task, digest_of("t"));
  EXPECT_EQ(example->origin.candidate, digest_of("c"));
  EXPECT_EQ(example->origin.lineage.parents, lineage.parents);
  ASSERT_TRUE(example->origin.generation);
  EXPECT_EQ(example->origin.generation->tokenizer, "k");
  EXPECT_EQ(example->origin.generation->sampling.at("temperature"), 1);
  EXPECT_EQ(example->origin.generation->group, 5);
  EXPECT_EQ(example->origin.generation->turn, 2);
}

TEST(Example, SaysWhichFieldIsWrong) {
  EXPECT_THAT(error_of(R"({"prompt": "a"})"), HasSubstr("'prompt' and 'answer'"));
  EXPECT_THAT(error_of(R"({"prompt": "a", "answer": "b"})"), HasSubstr("tokenizer"));
  EXPECT_THAT(error_of(R"({"prompt_tokens": [1], "answer_tokens": [-1]})"), HasSubstr("'answer_tokens'"));
  EXPECT_THAT(error_of(R"({"prompt_tokens": [1], "answer_tokens": [1], "loss_mask": [1, 1]})"),
              HasSubstr("loss_mask of 2"));
  EXPECT_THAT(error_of(R"({"prompt_tokens": [1], "answer_tokens": [1], "lossmask": [1]})"),
              HasSubstr("'lossmask' is unknown"));
  EXPECT_THAT(error_of(R"({"prompt_tokens": [], "answer_tokens": [1]})"), HasSubstr("no tokens"));
  EXPECT_THAT(error_of("[1]"), HasSubstr("no JSON object"));
}

TEST(ReadDataset, LeavesOutWhatIsTooLongOrCountsForNothing) {
  const std::string path = written("data.jsonl", R"({"prompt_tokens": [1], "answer_tokens": [2]}

{"prompt_tokens": [1], "answer_tokens": [2, 3, 4]}
{"prompt_tokens": [1], "answer_tokens": [2], "loss_mask": [0]})");
  const auto data = read_dataset(path, {}, {.vocab = 9, .most_tokens = 3});
  ASSERT_TRUE(data.ok()) << data.error().to_string();
  EXPECT_EQ(data->examples.size(), 1u);
  EXPECT_EQ(data->too_long, 1);
  EXPECT_EQ(data->uncounted, 1);
}

TEST(ReadDataset, NamesTheLineOfAnError) {
  const std::string good = R"({"prompt_tokens": [1], "answer_tokens": [2]})";
  for (const std::string& bad :
       {std::string("{"), std::string(R"({"prompt_tokens": [1], "answer_tokens": [9]})")}) {
    const auto data =
        read_dataset(written("bad.jsonl", good + "\n" + bad), {}, {.vocab = 9, .most_tokens = 8});
    ASSERT_FALSE(data.ok());
    EXPECT_EQ(data.error().where.line, 2) << data.error().to_string();
  }
}

}  // namespace
}  // namespace lathe::train

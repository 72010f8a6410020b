#include "report/documents.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "record/json.h"
#include "tests/report/sample_run.h"

namespace lathe {
namespace {

using nlohmann::json;

json document_of(const SampleRun& sample) {
  return optimize_document(sample.run, sample.experiences, sample.extras);
}

TEST(OptimizeDocument, HasTheDocumentedFields) {
  const SampleRun sample = make_sample_run();
  const json document = document_of(sample);
  EXPECT_EQ(document["schema"], "lathe.optimize/1");
  EXPECT_EQ(document["task"], "softmax_rows");
  EXPECT_EQ(document["evaluations"], 120);
  EXPECT_EQ(document["seconds"], 93.4);
  EXPECT_DOUBLE_EQ(document["device_seconds"], 0.22 + 3.1) << "compiling is not the device's";
  EXPECT_EQ(document["baselines"][0]["name"], "naive");
  EXPECT_GT(document["baselines"][0]["median_ns"], 0);
  const json& best = document["best"];
  const Experience& winner = *best_experience(sample.experiences, "onednn");
  EXPECT_EQ(best["verdict"], "PASS");
  EXPECT_EQ(best["reason"], "ok");
  EXPECT_EQ(best["candidate"], winner.candidate_text);
  EXPECT_EQ(best["median_ns"], winner.verdict.median_ns());
  EXPECT_EQ(best["speedup"], winner.verdict.speedup("naive")->mid);
  EXPECT_EQ(best["speedup_best_low"], winner.verdict.speedup("onednn")->low);
  EXPECT_LT(best["speedup_low"], best["speedup"]);
  EXPECT_LT(best["speedup_best"], best["speedup_best_high"]);
}

TEST(OptimizeDocument, CountsEveryVerdictAndNamesEveryOutcome) {
  const json verdicts = document_of(make_sample_run())["verdicts"];
  EXPECT_EQ(verdicts.size(), 8u);
  EXPECT_EQ(verdicts["TIMEOUT"], 0);
  int sum = 0;
  for (const json& count : verdicts) sum += count.get<int>();
  EXPECT_EQ(sum, 120);
}

TEST(OptimizeDocument, OfARunWithoutAPassHasNoBest) {
  SampleRun sample = make_sample_run();
  for (Experience& e : sample.experiences) e.verdict.outcome = Outcome::kCrash;
  EXPECT_TRUE(document_of(sample)["best"].is_null());
}

TEST(OptimizeDocument, HoldsAllThatTheReportNeeds) {
  const SampleRun sample = make_sample_run();
  const auto parsed = parse_json(json_text(document_of(sample)), "summary");
  ASSERT_TRUE(parsed.ok());
  const auto extras = extras_from_document(*parsed);
  ASSERT_TRUE(extras.ok()) << extras.error().to_string();
  EXPECT_EQ(*render_report(sample.run, sample.experiences, *extras),
            *render_report(sample.run, sample.experiences, sample.extras));
}

TEST(ExtrasFromDocument, NamesWhatIsWrong) {
  json document = document_of(make_sample_run());
  document["schema"] = "lathe.optimize/9";
  EXPECT_THAT(extras_from_document(document).error().message, testing::HasSubstr("lathe.optimize/9"));
  document = document_of(make_sample_run());
  document["work"][1].erase("bytes");
  EXPECT_EQ(extras_from_document(document).error().message, "optimize.work[1].bytes: missing");
}

TEST(EvalDocument, IsAListInTheOrderGiven) {
  const SampleRun sample = make_sample_run();
  Verdict failed;
  failed.outcome = Outcome::kWrong;
  failed.reason = "bound";
  Verdict passed = best_experience(sample.experiences, "onednn")->verdict;
  passed.provenance = {.device_kind = "cuda", .device_uuid = "GPU-1", .driver = "570", .gym_version = "3"};
  const json document = eval_document("softmax_rows", {{"a.cpp", passed}, {"b.cpp", failed}}, sample.extras);
  ASSERT_TRUE(document.is_array());
  ASSERT_EQ(document.size(), 2u);
  EXPECT_EQ(document[0]["schema"], "lathe.eval/1");
  EXPECT_EQ(document[0]["candidate"], "a.cpp");
  EXPECT_EQ(document[0]["verdict"], "PASS");
  EXPECT_GT(document[0]["speedup_best"], 0);
  EXPECT_EQ(document[0]["cases"].size(), 12u);
  EXPECT_EQ(document[0]["stage_seconds"], json::parse(R"({"build": 0.41, "verify": 0.22, "time": 3.1})"));
  EXPECT_EQ(document[0]["provenance"]["device_uuid"], "GPU-1");
  EXPECT_EQ(document[0]["provenance"]["gym_version"], "3");
  EXPECT_EQ(document[1]["provenance"], json::object());
  EXPECT_EQ(document[1]["verdict"], "WRONG");
  EXPECT_TRUE(document[1]["speedup"].is_null());
  EXPECT_TRUE(document[1]["median_ns"].is_null());
}

TEST(BuildDocument, SaysHowToLaunchTheKernelAtOneShape) {
  const TaskSpec task = *parse_task(
      "name = \"t\"\ndims = [\"n\"]\ntensor = [{ name = \"x\", shape = [\"n\"] }]\n"
      "graph = \"y = relu(x)\"\n[[shape]]\nname = \"s\"\nn = 1000\n",
      "t.toml");
  const Candidate candidate = *parse_candidate(
      "/*lathe\n[[scratch]]\nname = \"turns\"\nbytes = \"4\"\ninit = \"counter\"\n[[launch]]\nkernel = "
      "\"k\"\n"
      "grid = [\"min(sm_count, cdiv(n, 256))\"]\nblock = [256]\nargs = [\"x\", \"y\", \"turns\", "
      "\"n\"]\n*/\n",
      "k.cu");
  const BoundTask bound = *lathe::bind(task, {{"n", 1000}});
  const LaunchProgram program = *compile_plan(candidate, bound, {{"sm_count", 132}});
  const json document = build_document(bound, program, "sm_90a", "k.cubin");
  EXPECT_EQ(document["schema"], "lathe.build/1");
  EXPECT_EQ(document["object"], "k.cubin");
  EXPECT_EQ(document["inputs"], json::parse(R"([{"name": "x", "dtype": "fp32", "shape": [1000]}])"));
  EXPECT_EQ(document["scratch"], json::parse(R"([{"bytes": 4, "init": "counter"}])"));
  const json& step = document["steps"][0];
  EXPECT_EQ(step["grid"], json::parse("[4]"));
  EXPECT_EQ(step["args"], json::parse(R"([{"input": 0}, {"output": 0}, {"scratch": 0}, {"integer": 1000}])"));
}

TEST(BuildDocument, SaysHowToMakeTensorMaps) {
  const TaskSpec task = *parse_task(
      "name = \"t\"\ndims = [\"n\"]\ntensor = [{ name = \"x\", shape = [\"n\", \"64\"] }]\n"
      "graph = \"y = relu(x)\"\n[[shape]]\nname = \"s\"\nn = 8\n",
      "t.toml");
  const Candidate candidate = *parse_candidate(
      "/*lathe\n[[tma]]\nname = \"m\"\nbase = \"x\"\ndims = [64, \"n\"]\nbox = [32, 4]\nswizzle = 128\n"
      "[[launch]]\nkernel = \"k\"\ngrid = [1]\nblock = [32]\nargs = [\"m\", \"y\"]\n*/\n",
      "k.cu");
  const BoundTask bound = *lathe::bind(task, {{"n", 8}});
  const json document = build_document(bound, *compile_plan(candidate, bound, {}), "sm_90a", "k.cubin");
  EXPECT_EQ(document["steps"][0]["args"], json::parse(R"([{"map": 0}, {"output": 0}])"));
  EXPECT_EQ(document["maps"], json::parse(R"([{"base": {"input": 0}, "dtype": "fp32", "dims": [64, 8],
    "strides": [256], "box": [32, 4], "swizzle": 128, "fill": "zero"}])"));
}

}  // namespace
}  // namespace lathe

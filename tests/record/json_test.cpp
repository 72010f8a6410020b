#include "record/json.h"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace lathe {
namespace {

using nlohmann::json;

Verdict full_verdict() {
  Verdict v;
  v.outcome = Outcome::kPass;
  v.reason = "ok";
  v.detail = "8 cases\nworst 0.31 of the bound";
  v.depth = Depth::kFinal;
  v.candidate = digest_of("candidate");
  v.task = digest_of("task");
  v.build = {.log = "warning: unused", .seconds = 0.125, .code_bytes = 4096, .facts = {{"spills", 3}}};
  v.evidence.cases = {{.shape = "rows=4096", .distribution = "normal", .worst_ratio = 0.1, .rms_error = 1e-7},
                      {.shape = "rows=31",
                       .distribution = "spikes",
                       .hidden = true,
                       .pass = false,
                       .reason = "bound",
                       .worst_ratio = 12,
                       .rms_error = 0.5}};
  v.timings = {
      {.shape = "rows=4096", .median_ns = 1234.5678901234567, .spread = 0.01, .pairs = 30, .processes = 3}};
  v.speedups = {{.baseline = "naive", .shape = "rows=4096", .ratio = {3.0, 3.1, 3.3}, .ambiguous = true}};
  v.profile = {{"joules", 0.5}};
  v.stage_seconds = {{"build", 0.2}, {"verify", 0.3}};
  return v;
}

std::string error_of(const json& object) {
  const auto verdict = verdict_from_json(object);
  return verdict.ok() ? "" : verdict.error().message;
}

TEST(VerdictJson, RoundTripsThroughTextWithoutLosingABit) {
  const json first = to_json(full_verdict());
  const auto parsed = parse_json(json_text(first), "verdict");
  ASSERT_TRUE(parsed.ok());
  const auto verdict = verdict_from_json(*parsed);
  ASSERT_TRUE(verdict.ok()) << verdict.error().to_string();
  EXPECT_EQ(to_json(*verdict), first);
  EXPECT_EQ(verdict->timings[0].median_ns, 1234.5678901234567);
  EXPECT_EQ(verdict->evidence.cases[1].reason, "bound");
  EXPECT_TRUE(verdict->speedups[0].ambiguous);
}

TEST(VerdictJson, SaysWhatItWasReachedWithAndWhatIsNotCovered) {
  Verdict verdict = full_verdict();
  verdict.uncovered = {"rows=31"};
  verdict.provenance = {.device_kind = "cuda",
                        .device_name = "H200",
                        .device_uuid = "GPU-1",
                        .driver = "570.1",
                        .compiler = "NVRTC 12.8",
                        .gym_version = "0.1.0",
                        .jail = "reduced",
                        .tier = "HOST"};
  verdict.unchecked = {"own_kernels"};
  verdict.text_bytes = 512;
  verdict.speedups[0].roof = 4.5;
  const auto back = verdict_from_json(to_json(verdict));
  ASSERT_TRUE(back.ok()) << back.error().to_string();
  EXPECT_EQ(back->uncovered, verdict.uncovered);
  EXPECT_EQ(back->provenance, verdict.provenance);
  EXPECT_EQ(back->unchecked, verdict.unchecked);
  EXPECT_EQ(back->text_bytes, 512);
  EXPECT_EQ(back->speedups[0].roof, 4.5);
}

TEST(VerdictJson, OfAnOlderVersionHasNoProvenanceAndCoversAll) {
  json older = to_json(full_verdict());
  EXPECT_FALSE(older.contains("uncovered") || older.contains("provenance"));
  const auto verdict = verdict_from_json(older);
  ASSERT_TRUE(verdict.ok()) << verdict.error().to_string();
  EXPECT_TRUE(verdict->uncovered.empty());
  EXPECT_EQ(verdict->text_bytes, 0);
  EXPECT_EQ(verdict->speedups[0].roof, 0);
  EXPECT_EQ(verdict->provenance, Provenance{});
  older["provenance"] = {{"device_kind", 7}};
  EXPECT_THAT(error_of(older), testing::HasSubstr("verdict.provenance.device_kind"));
}

TEST(VerdictJson, AProfileIsThereOnlyWhereOneWasMade) {
  EXPECT_FALSE(to_json(full_verdict()).contains("profiles")) << "records from before profiles are the same";
  Verdict verdict = full_verdict();
  verdict.profiles = {{.shape = "rows=4096",
                       .counters = {{"dram_share", 0.83}, {"stall.barrier", 0.1}},
                       .bottlenecks = {{"dram_bound", 0.83, "83% of DRAM's bandwidth"}},
                       .notes = {"no energy: NVML is missing"}}};
  const json first = to_json(verdict);
  const auto again = verdict_from_json(*parse_json(json_text(first), "verdict"));
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(to_json(*again), first);
  EXPECT_EQ(again->profiles[0].bottlenecks[0].name, "dram_bound");
  json damaged = first;
  damaged["profiles"][0]["notes"][0] = 3;
  EXPECT_EQ(error_of(damaged), "verdict.profiles[0].notes[0]: expected text");
  damaged = first;
  damaged["profiles"][0].erase("counters");
  EXPECT_EQ(error_of(damaged), "verdict.profiles[0].counters: missing");
}

TEST(VerdictJson, ToleratesFieldsOfANewerWriter) {
  json object = to_json(full_verdict());
  object["invented_later"] = {{"x", 1}};
  object["timings"][0]["clock_hz"] = 4e9;
  EXPECT_EQ(error_of(object), "");
}

TEST(VerdictJson, NamesTheMissingField) {
  const json whole = to_json(full_verdict());
  for (const auto& item : whole.items()) {
    json object = to_json(full_verdict());
    object.erase(item.key());
    EXPECT_EQ(error_of(object), "verdict." + item.key() + ": missing");
  }
  json object = to_json(full_verdict());
  object["evidence"]["cases"][1].erase("hidden");
  EXPECT_EQ(error_of(object), "verdict.evidence.cases[1].hidden: missing");
}

TEST(VerdictJson, RefusesNumbersThatAreNotFinite) {
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    Verdict verdict = full_verdict();
    verdict.speedups[0].ratio.high = bad;
    EXPECT_EQ(error_of(to_json(verdict)), "verdict.speedups[0].high: expected a finite number");
    verdict = full_verdict();
    verdict.profile["joules"] = bad;
    EXPECT_EQ(error_of(to_json(verdict)), "verdict.profile.joules: expected a finite number");
  }
}

TEST(VerdictJson, RefusesNonFiniteNumbersAfterTextTurnedThemIntoNull) {
  Verdict verdict = full_verdict();
  verdict.timings[0].median_ns = HUGE_VAL;
  EXPECT_EQ(error_of(*parse_json(json_text(to_json(verdict)), "v")),
            "verdict.timings[0].median_ns: expected a finite number");
}

TEST(VerdictJson, RefusesWrongKindsAndUnknownNames) {
  const std::vector<std::pair<json::json_pointer, json>> damages = {
      {json::json_pointer("/outcome"), "SPLENDID"},
      {json::json_pointer("/depth"), 3},
      {json::json_pointer("/candidate"), "abc"},
      {json::json_pointer("/build"), json::array()},
      {json::json_pointer("/build/code_bytes"), 1.5},
      {json::json_pointer("/build/code_bytes"), 18446744073709551615u},
      {json::json_pointer("/timings"), json::object()},
      {json::json_pointer("/timings/0"), 7},
      {json::json_pointer("/timings/0/pairs"), 3000000000},
      {json::json_pointer("/evidence/cases/0/pass"), "yes"},
      {json::json_pointer("/profile"), json::array({1, 2})},
  };
  for (const auto& [where, value] : damages) {
    json object = to_json(full_verdict());
    object[where] = value;
    EXPECT_THAT(error_of(object), testing::StartsWith("verdict")) << where.to_string();
  }
  EXPECT_EQ(error_of(json(3)), "verdict: expected an object");
}

TEST(LineageJson, RoundTrips) {
  const Lineage lineage{.parents = {digest_of("a"), digest_of("b")},
                        .policy = "catalog",
                        .operation = "crossover",
                        .description = "rows from a, \"unroll\" from b",
                        .branch = 2,
                        .turn = 5};
  const auto back = lineage_from_json(to_json(lineage));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->parents, lineage.parents);
  EXPECT_EQ(back->description, lineage.description);
  EXPECT_EQ(back->branch, 2);
  EXPECT_EQ(back->turn, 5);
}

TEST(LineageJson, NamesABadParent) {
  json object = to_json(Lineage{.parents = {digest_of("a")}});
  object["parents"].push_back("zz");
  const auto lineage = lineage_from_json(object);
  ASSERT_FALSE(lineage.ok());
  EXPECT_THAT(lineage.error().message, testing::StartsWith("lineage.parents[1]: "));
}

TEST(GenerationJson, NamesItsBlobsByDigest) {
  const Generation generation{.model = "qwen@1f2e",
                              .tokenizer = "qwen",
                              .sampling = {{"temperature", 0.7}},
                              .group = 3,
                              .turn = 2,
                              .cost = {{"usd", 0.5}},
                              .prompt = Blob::of("write a kernel"),
                              .answer_tokens = pack<std::int32_t>({5, -7, 9})};
  const auto back = generation_from_json(to_json(generation));
  ASSERT_TRUE(back.ok()) << back.error().to_string();
  EXPECT_EQ(to_json(*back), to_json(generation));
  EXPECT_EQ(back->turn, 2);
  EXPECT_EQ(back->cost.at("usd"), 0.5);
  EXPECT_EQ(back->prompt.digest, digest_of("write a kernel"));
  EXPECT_EQ(back->prompt.bytes, "") << "a store has them";
  EXPECT_FALSE(back->loss_mask.exists());
}

TEST(GenerationJson, NamesABadDigest) {
  json object = to_json(Generation{.prompt = Blob::of("p")});
  object["blobs"]["prompt"] = "zz";
  const auto generation = generation_from_json(object);
  ASSERT_FALSE(generation.ok());
  EXPECT_THAT(generation.error().message, testing::StartsWith("generation.blobs.prompt: "));
}

TEST(Blobs, GiveBackTheArraysThatWerePacked) {
  const std::vector<float> values = {-1.5F, 0, 3e-38F};
  EXPECT_EQ(*unpack<float>(pack(values).bytes), values);
  EXPECT_TRUE(unpack<std::int32_t>(pack<std::int32_t>({}).bytes)->empty());
  EXPECT_EQ(unpack<float>("12345").error().code, ErrorCode::kCorrupt);
}

TEST(JsonText, NeverThrowsOnBytesThatAreNotText) {
  Verdict verdict = full_verdict();
  verdict.build.log = std::string("caf\xe9 \0 \xff\xfe", 9);
  const auto parsed = parse_json(json_text(to_json(verdict)), "verdict");
  ASSERT_TRUE(parsed.ok());
  EXPECT_THAT((*parsed)["build"]["log"].get<std::string>(), testing::StartsWith("caf\xef\xbf\xbd"));
}

TEST(ParseJson, DoesNotRepeatALongText) {
  const auto parsed = parse_json("\"" + std::string(5000, 'a') + "\\ud800\"", "the body");
  EXPECT_THAT(parsed.error().message, testing::HasSubstr("surrogate"));
  EXPECT_THAT(parsed.error().message, testing::EndsWith("aaaa\\ud800\"'"));
  EXPECT_LT(parsed.error().message.size(), 300U);
}

TEST(ParseJson, SaysWhichTextAndWhere) {
  const auto parsed = parse_json("{\"a\": }", "run.config");
  ASSERT_FALSE(parsed.ok());
  EXPECT_THAT(parsed.error().message,
              testing::AllOf(testing::StartsWith("run.config"), testing::HasSubstr("column 7")));
}

}  // namespace
}  // namespace lathe

#include "report/training_page.h"

#include <gmock/gmock.h>

namespace lathe {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kMetrics =
    R"({"step":1,"loss":0.1,"reward":0.5,"pass_rate":0.25,"log_speedup_low":0,"outcomes":{"PASS":1,"WRONG":2,"TAMPERED":1},"hacks":{"canary":1},"rollout_seconds":6,"judging_seconds":3,"update_seconds":1,"seconds":12}
{"step":2,"loss":0.1,"reward":1.5,"pass_rate":0.75,"log_speedup_low":0.7,"outcomes":{"PASS":3,"WRONG":1},"hacks":{},"rollout_seconds":2,"judging_seconds":3,"update_seconds":1,"seconds":8}
)";
constexpr std::string_view kSamples =
    R"({"step":1,"task":"softmax","candidate":"aaaa","outcome":"WRONG","reason":"bound","detail":"output 'y': <3> off","reward":0,"advantage":-0.5,"tokens":9}
{"step":1,"task":"softmax","candidate":"bbbb","outcome":"PASS","reason":"ok","reward":2,"speedup_low":1.5,"text":"<script>alert(1)</script>"}
{"step":1,"task":"softmax","candidate":"cccc","outcome":"PASS","reason":"ok","reward":1}
{"step":2,"task":"relu","candidate":"dddd","outcome":"PASS","reason":"ok","reward":3,"text":"float late;"}
{"step":3,"task":"relu","candi)";

std::string page_of(const TrainingRun& run) {
  const auto page = training_page(run);
  EXPECT_TRUE(page.ok()) << page.error().to_string();
  return page.ok() ? *page : "";
}

TEST(TrainingPage, TellsWhatEachStepWasJudged) {
  const std::string page = page_of({"a run", kMetrics, kSamples});
  EXPECT_THAT(page, HasSubstr("step 1: PASS 25.0%"));
  EXPECT_THAT(page, HasSubstr("step 1: TAMPERED 25.0%"));
  EXPECT_THAT(page, HasSubstr("step 2: PASS 75.0%"));
  EXPECT_THAT(page, Not(HasSubstr("step 2: TAMPERED")));
}

TEST(TrainingPage, CountsAttemptsByReasonAndSecondsByPhase) {
  const std::string page = page_of({"a run", kMetrics, kSamples});
  EXPECT_THAT(page, HasSubstr("<td>canary</td><td class=\"num\">1</td><td class=\"num\">12.5%</td>"
                              "<td class=\"num\">0</td><td class=\"num\">1 to 1</td>"));
  EXPECT_THAT(page,
              HasSubstr("<td>drawing answers</td><td class=\"num\">8.0 s</td><td class=\"num\">4.00 s</td>"
                        "<td class=\"num\">40.0%</td>"));
  EXPECT_THAT(page, HasSubstr("<td>else</td><td class=\"num\">4.0 s</td>")) << "20 s less 16";
}

TEST(TrainingPage, ShowsTheBestAnswerOfAStepAndOneOfEachOtherVerdict) {
  const std::string page = page_of({"a run", kMetrics, kSamples});
  EXPECT_THAT(page, HasSubstr("step 1: 3 answers"));
  EXPECT_THAT(page, HasSubstr("candidate bbbb"));
  EXPECT_THAT(page, Not(HasSubstr("cccc"))) << "passed too, and earned less";
  EXPECT_THAT(page, HasSubstr("candidate aaaa: output &#39;y&#39;: &lt;3&gt; off"));
  EXPECT_THAT(page, HasSubstr("float late;"));
  EXPECT_THAT(page, Not(HasSubstr("step 3"))) << "its line was cut";
}

TEST(TrainingPage, EscapesWhatAModelWrote) {
  const std::string page = page_of({"<b>", kMetrics, kSamples});
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)"));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("<b>")));
}

TEST(TrainingPage, OfSupervisedTrainingHasTheCurves) {
  const std::string page = page_of({"a run", "{\"step\":1,\"loss\":2}\n{\"step\":2,\"loss\":1}\n", ""});
  EXPECT_THAT(page, HasSubstr("supervised training"));
  EXPECT_THAT(page, HasSubstr("<svg"));
  EXPECT_THAT(page, Not(HasSubstr("Answers to read")));
}

TEST(TrainingPage, WithoutStepsIsAnError) {
  EXPECT_FALSE(training_page({"a run", "", ""}).ok());
  EXPECT_FALSE(training_page({"a run", "{\"step\":1,\"lo", ""}).ok());
}

TEST(TrainingPage, TakesFieldsOfOtherTypesForMissing) {
  const std::string page =
      page_of({"a run",
               R"({"step":1,"loss":1,"reward":1,"outcomes":[1],"hacks":{"a":"b"},"seconds":"x"})"
               "\n",
               R"({"step":1,"outcome":3,"reason":null,"reward":"high","text":5})"
               "\n"});
  EXPECT_THAT(page, HasSubstr("The metrics have no times."));
}

}  // namespace
}  // namespace lathe

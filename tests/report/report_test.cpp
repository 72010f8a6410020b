#include "report/report.h"

#include <gmock/gmock.h>

#include <cmath>

#include "report/html.h"
#include "report/svg.h"
#include "tests/report/sample_run.h"

namespace lathe {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string render(const SampleRun& sample) {
  const auto page = render_report(sample.run, sample.experiences, sample.extras);
  if (!page.ok()) {
    ADD_FAILURE() << page.error().to_string();
    return {};
  }
  return *page;
}

Experience& best_of(SampleRun& sample) {
  return const_cast<Experience&>(*best_experience(sample.experiences, sample.extras.best_baseline));
}

TEST(Report, LoadsNothingAndRunsNothing) {
  const std::string page = render(make_sample_run());
  for (const char* forbidden :
       {"<script", "<link", "<img", "<iframe", "http://", "https://", "url(", "@import", "src="})
    EXPECT_THAT(page, Not(HasSubstr(forbidden)));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
}

TEST(Report, HasEverySection) {
  const std::string page = render(make_sample_run());
  for (const char* title :
       {"Against the baselines", "Speedup at each shape", "Search progress", "Roofline", "Verdicts",
        "The winning kernel", "Where it came from", "Evidence that it is correct"})
    EXPECT_THAT(page, HasSubstr("<h2>" + std::string(title) + "</h2>"));
  EXPECT_THAT(page, HasSubstr("20261121-101502-softmax_rows-3f2a"));
  EXPECT_THAT(page, HasSubstr("class=\"added\""));
  EXPECT_THAT(page, HasSubstr("TAMPERED"));
}

TEST(Report, EscapesWhateverACandidateATaskOrAPolicyWrote) {
  const std::string attack =
      "</script></style></pre><img src=x onerror=alert(1)>\"'><svg onload=alert(2)>&amp;";
  SampleRun sample = make_sample_run();
  sample.run.id += attack;
  sample.run.task_name = attack;
  sample.run.task_text = attack;
  sample.run.config = attack;
  sample.run.status = attack;
  sample.extras.device = attack;
  sample.extras.best_baseline = attack;
  sample.extras.baselines[1].name = attack;
  for (auto& work : sample.extras.work) work.shape = attack;
  sample.extras.peaks.levels[0].name = attack;
  for (Experience& e : sample.experiences) {
    e.candidate_text += attack;
    e.lineage.description = e.lineage.operation = e.lineage.policy = attack;
    e.verdict.reason = e.verdict.detail = attack;
    for (auto& c : e.verdict.evidence.cases) c.shape = c.distribution = attack;
    for (auto& t : e.verdict.timings) t.shape = attack;
    for (auto& s : e.verdict.speedups) {
      s.shape = attack;
      if (s.baseline == "onednn") s.baseline = attack;
    }
    e.verdict.stage_seconds[attack] = 1;
  }
  const std::string page = render(sample);
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("<svg onload")));
  EXPECT_THAT(page, Not(HasSubstr("</script")));
  EXPECT_THAT(page, Not(HasSubstr("&amp;amp;amp;"))) << "escaped once";
  EXPECT_THAT(page, HasSubstr("&lt;img src=x onerror=alert(1)&gt;&quot;&#39;&gt;"));
}

TEST(Axis, BeginsAtZeroWithoutASign) {
  const Axis axis{.low = 0, .high = 1.3};
  EXPECT_FALSE(std::signbit(axis.ticks().front()));
}

TEST(Report, ShowsLossesFirst) {
  SampleRun sample = make_sample_run();
  for (Speedup& s : best_of(sample).verdict.speedups) {
    if (s.baseline == "openblas") s.ratio = {0.55, 0.6, 0.65};
  }
  const std::string page = render(sample);
  const std::string table = page.substr(page.find("Against the baselines"));
  EXPECT_LT(table.find("openblas"), table.find("onednn"));
  EXPECT_LT(table.find("onednn"), table.find(">naive"));
  EXPECT_THAT(table, HasSubstr("pill bad\">loss"));
}

TEST(Report, CallsAnIntervalAroundOneATie) {
  SampleRun sample = make_sample_run();
  for (Speedup& s : best_of(sample).verdict.speedups) {
    if (s.baseline == "onednn") s.ratio = {0.98, 1.01, 1.04};
  }
  EXPECT_THAT(render(sample), HasSubstr("pill even\">tie"));
}

TEST(Report, OfARunWithoutEvaluationsOrPassesStillRenders) {
  SampleRun sample = make_sample_run();
  sample.experiences.clear();
  EXPECT_THAT(render(sample), HasSubstr("no evaluation passed"));
  sample = make_sample_run();
  for (Experience& e : sample.experiences) e.verdict.outcome = Outcome::kWrong;
  EXPECT_THAT(render(sample), HasSubstr("No kernel has passed."));
  sample.extras = {};
  EXPECT_THAT(render(sample), HasSubstr("No baseline has been timed."));
}

TEST(Report, OfATaskWithoutArithmeticShowsBandwidth) {
  SampleRun sample = make_sample_run();
  for (ShapeWork& work : sample.extras.work) work.flops = 0;
  const std::string page = render(sample);
  EXPECT_THAT(page, HasSubstr("Achieved bandwidth"));
  EXPECT_THAT(page, HasSubstr("peak of memory"));
}

TEST(Report, OfAKernelWithoutAParentListsItWhole) {
  SampleRun sample = make_sample_run();
  best_of(sample).lineage.parents.clear();
  const std::string page = render(sample);
  EXPECT_THAT(page, Not(HasSubstr("class=\"added\"")));
  EXPECT_THAT(page, HasSubstr("#include &lt;lathe/cpu.h&gt;"));
}

TEST(Report, SaysWhichPeersAreNotThere) {
  SampleRun sample = make_sample_run();
  EXPECT_THAT(render(sample), HasSubstr("Left out, for they fail on this machine: eigen: rms."));
  sample.extras.left_out.clear();
  EXPECT_THAT(render(sample), Not(HasSubstr("Left out")));
}

TEST(Report, RefusesABestBaselineThatWasNotTimed) {
  SampleRun sample = make_sample_run();
  sample.extras.best_baseline = "cublas";
  const auto page = render_report(sample.run, sample.experiences, sample.extras);
  ASSERT_FALSE(page.ok());
  EXPECT_THAT(page.error().message, HasSubstr("cublas"));
}

TEST(Report, OfALongRunStaysSmall) {
  SampleRun sample = make_sample_run();
  const auto pattern = sample.experiences;
  while (sample.experiences.size() < 12'000) {
    for (Experience e : pattern) {
      e.sequence = static_cast<std::int64_t>(sample.experiences.size());
      sample.experiences.push_back(std::move(e));
    }
  }
  EXPECT_LT(render(sample).size(), 2u << 20);
}

TEST(BestExperience, PrefersFinalDepthThenTheHigherLowerBound) {
  SampleRun sample = make_sample_run();
  const auto make = [](Depth depth, double low, double mid) {
    Experience e;
    e.candidate = digest_of(std::to_string(low));
    e.verdict.outcome = Outcome::kPass;
    e.verdict.depth = depth;
    e.verdict.speedups = {{.baseline = "onednn", .shape = "s", .ratio = {low, mid, 2 * mid}}};
    return e;
  };
  std::vector<Experience> all = {make(Depth::kScreen, 1.9, 2.5), make(Depth::kScreen, 2.0, 2.1)};
  EXPECT_EQ(best_experience(all, "onednn"), &all[1]);
  all.push_back(make(Depth::kFinal, 1.5, 1.6));
  EXPECT_EQ(best_experience(all, "onednn"), &all[2]);
  all[2].verdict.outcome = Outcome::kSuspect;
  EXPECT_EQ(best_experience(all, "onednn"), &all[1]);
  EXPECT_EQ(best_experience({}, "onednn"), nullptr);
}

TEST(RankedExperiences, AreThoseThatPassedBestFirstAndEachCandidateOnce) {
  const auto make = [](const char* text, Depth depth, double low, Outcome outcome = Outcome::kPass) {
    Experience e;
    e.candidate = digest_of(text);
    e.verdict.outcome = outcome;
    e.verdict.depth = depth;
    e.verdict.speedups = {{.baseline = "onednn", .shape = "s", .ratio = {low, low, low}}};
    return e;
  };
  const std::vector<Experience> all = {
      make("a", Depth::kScreen, 3),  make("b", Depth::kScreen, 2),
      make("b", Depth::kFinal, 1.5), make("c", Depth::kScreen, 9, Outcome::kWrong),
      make("d", Depth::kScreen, 8),  make("d", Depth::kFinal, 8, Outcome::kWrong)};
  EXPECT_THAT(ranked_experiences(all, "onednn"), testing::ElementsAre(&all[2], &all[0]));
}

TEST(EscapeHtml, ShowsWhatWouldMislead) {
  EXPECT_EQ(escape_html("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  EXPECT_EQ(escape_html("x\xe2\x80\xaey"), "x⟨U+202E⟩y");
  EXPECT_EQ(escape_html(std::string("a\0b\x1b", 4)), "a⟨U+0000⟩b⟨U+001B⟩");
  EXPECT_EQ(escape_html("caf\xe9 \xc0\xaf \xed\xa0\x80"),
            "caf\xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(escape_html("größer 🙂\n\t"), "größer 🙂\n\t");
}

TEST(Format, IsShortAndHasItsUnit) {
  EXPECT_EQ(format_ns(1234), "1.23 µs");
  EXPECT_EQ(format_ns(56'789'000), "56.8 ms");
  EXPECT_EQ(format_ns(0), "–");
  EXPECT_EQ(format_ratio(2.314), "2.31×");
  EXPECT_EQ(format_interval({0, 2, 1.0 / 0.0}), "2.00× [0.00, ∞]");
  EXPECT_EQ(format_si(6.12e10, "FLOP/s"), "61.2 GFLOP/s");
  EXPECT_EQ(format_percent(0.1234), "12.3%");
  EXPECT_EQ(format_seconds(125), "2 min 05 s");
  EXPECT_EQ(shorten("größer als", 4), "grö…");
  EXPECT_EQ(shorten("kurz", 4), "kurz");
}

}  // namespace
}  // namespace lathe

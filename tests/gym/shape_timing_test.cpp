#include "gym/shape_timing.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "gym/pair_timer.h"
#include "task/slices.h"
#include "tests/gym/fake_task.h"

namespace lathe {
namespace {

/// One shape with baselines "naive" and "peer"; every instance has its own noise.
class Bench {
 public:
  Bench(std::uint64_t number, double block_noise, double session_noise)
      : task_(twice_task()), backend_(Seed::from_number(number)), reference_(*make_reference(task_)) {
    shape_.name = "n=16";
    shape_.task = *lathe::bind(task_, task_.shapes[0].dims);
    const Seed seed = Seed::from_number(number + 1'000'000);
    shape_.timing = *make_timing_workload(backend_, *reference_, shape_.task, seed, 4, {.with_guest = true});
    shape_.timing_rms.assign(5, {RmsLimit{}});
    backend_.script("naive", timed(9000, block_noise, session_noise));
    backend_.script("peer", timed(1000, block_noise, session_noise));
    secret_ = seed;
    anchors_.push_back(tied("naive", true));
    anchors_.push_back(tied("peer", true));
  }

  void script(const FakeKernel& kernel) { backend_.script("candidate", kernel); }
  void script_naive(const FakeKernel& kernel) { backend_.script("naive", kernel); }
  void add_stand_in(const std::string& name, double call_ns) { add_stand_in(name, timed(call_ns)); }
  void add_stand_in(const std::string& name, const FakeKernel& kernel) {
    backend_.script(name, kernel);
    stand_ins_.push_back(tied(name, false));
  }
  void forget_stand_ins() { stand_ins_are_made_ = false; }
  Interval tie_of(const FakeKernel& kernel) {
    backend_.script("another", kernel);
    return tied("another", true).log_vs_naive;
  }
  std::int64_t blocks_of(const std::string& name) const { return backend_.blocks_of(name); }
  void set_process_spread(double spread) { backend_.set_process_spread(spread); }
  ShapeTiming screen() { return timer().screen(scripted("candidate"), {}); }
  ShapeTiming final() { return timer().final(scripted("candidate"), {}); }

 private:
  ShapeTimer timer() {
    return {{backend_, *reference_, shape_, 10.0},
            anchors_,
            secret_.derive("timer", ++timers_),
            stand_ins_are_made_ ? std::optional<std::span<const Anchor>>(stand_ins_) : std::nullopt};
  }
  Anchor tied(const std::string& name, bool peer) {
    TiedAnchor tied = timer().tie(name, peer, scripted(name), {});
    EXPECT_TRUE(tied.finding.passed());
    return std::move(tied.anchor);
  }

  TaskSpec task_;
  FakeBackend backend_;
  std::unique_ptr<Reference> reference_;
  BenchShape shape_;
  Seed secret_;
  std::uint64_t timers_ = 0;
  std::vector<Anchor> anchors_, stand_ins_;
  bool stand_ins_are_made_ = true;
};

Interval over(const ShapeTiming& timing, const std::string& baseline) {
  for (const Speedup& speedup : timing.speedups)
    if (speedup.baseline == baseline) return speedup.ratio;
  ADD_FAILURE() << "no speedup over " << baseline;
  return {};
}

bool holds(const Interval& interval, double value) { return interval.low <= value && value <= interval.high; }

TEST(ShapeTiming, SpeedupsOverEveryBaselineAreComposedThroughTheAnchor) {
  for (const double call_ns : {300.0, 1000.0, 2900.0, 9000.0, 30000.0}) {
    Bench bench(1, 0, 0);
    bench.script(timed(call_ns));
    const ShapeTiming timing = bench.screen();
    ASSERT_TRUE(timing.finding.passed());
    EXPECT_NEAR(over(timing, "naive").mid, 9000 / call_ns, 1e-6 * 9000 / call_ns);
    EXPECT_NEAR(over(timing, "peer").mid, 1000 / call_ns, 1e-6 * 1000 / call_ns);
  }
}

TEST(ShapeTiming, AKernelThatIsRightOnlyOnInputsLikeTheTimedOnesMeetsOthersToo) {
  Bench bench(1, 0, 0);
  FakeKernel kernel = timed(1000);
  kernel.wrong = "bound";
  kernel.wrong_when_mixed = true;
  bench.script(kernel);
  EXPECT_EQ(bench.screen().finding.outcome, Outcome::kWrong);
  EXPECT_EQ(bench.final().finding.outcome, Outcome::kWrong);
}

TEST(ShapeTiming, NoBlockWhoseTimeCountsHasOtherInputs) {
  Bench bench(1, 0, 0);
  FakeKernel naive = timed(9000);
  naive.wrong = "bound";
  naive.wrong_when_mixed = true;
  bench.script_naive(naive);
  bench.script(timed(9000));
  EXPECT_TRUE(bench.screen().finding.passed()) << "its anchor draws the same trials";
}

TEST(TimedBlocks, DrawFromAllButTheGuest) {
  Workload workload;
  workload.trials.resize(4);
  EXPECT_EQ(trials_of_timed_blocks(workload), (std::vector<int>{0, 1, 2, 3}));
  workload.guest = 1;
  EXPECT_EQ(trials_of_timed_blocks(workload), (std::vector<int>{0, 2, 3}));
  EXPECT_EQ(workload.timed_trials(), 3U);
}

struct NotedBlock {
  bool of_anchor = false;
  std::vector<int> trials;

  bool has(int trial) const { return std::ranges::find(trials, trial) != trials.end(); }
};

/// Notes what its blocks are.
class NotingSession final : public Session {
 public:
  NotingSession(std::vector<NotedBlock>& blocks, bool of_anchor) : blocks_(blocks), of_anchor_(of_anchor) {}
  BlockOutcome run(const BlockRequest& request) override {
    blocks_.push_back({of_anchor_, request.trials});
    BlockOutcome outcome;
    outcome.status = BlockStatus::kOk;
    outcome.wall_ns = 1e6 * static_cast<double>(request.trials.size());
    return outcome;
  }

 private:
  std::vector<NotedBlock>& blocks_;
  const bool of_anchor_;
};

std::shared_ptr<const Workload> workload_of(int trials, const WorkloadOptions& options) {
  const TaskSpec task = twice_task();
  const auto reference = *make_reference(task);
  FakeBackend backend(Seed::from_number(1));
  return *make_timing_workload(backend, *reference, *lathe::bind(task, task.shapes[0].dims),
                               Seed::from_number(2), trials, options);
}

/// The blocks of a timing, in their order.
std::vector<NotedBlock> blocks_of(const Workload& workload, const TimingRule& rule, std::uint64_t seed) {
  std::vector<NotedBlock> blocks;
  NotingSession anchor(blocks, true), candidate(blocks, false);
  EXPECT_TRUE(time_pair(anchor, candidate, workload, rule, Seed::from_number(seed)).finding.passed());
  return blocks;
}

TEST(TimedBlocks, MeetAGuestHoweverManyBlocksOfTheAnchorRanBefore) {
  const auto workload = workload_of(8, {.with_guest = true});
  std::map<bool, std::map<int, int>> times;  // [with a guest][blocks of the anchor before]
  int before = 0;
  for (const NotedBlock& block : blocks_of(*workload, {.looks = {400}, .call_ns = 1e6}, 3)) {
    EXPECT_FALSE(block.of_anchor && block.has(workload->guest));
    if (!block.of_anchor) ++times[block.has(workload->guest)][before];
    before = block.of_anchor ? before + 1 : 0;
  }
  for (const int blocks : {0, 1, 2}) {
    EXPECT_GT(times[true][blocks], 5) << blocks << " blocks of the anchor before a guest";
    EXPECT_GT(times[false][blocks], 5) << blocks << " before another block";
  }
}

TEST(TimedBlocks, OfAShortTimingMeetAGuestToo) {
  const auto workload = workload_of(8, {.with_guest = true});
  for (std::uint64_t seed = 1; seed <= 40; ++seed)
    EXPECT_TRUE(std::ranges::any_of(blocks_of(*workload, {.looks = {1}, .call_ns = 1e6}, seed),
                                    [&](const NotedBlock& block) { return block.has(workload->guest); }));
}

TEST(TimedBlocks, AreDealtEveryTrialBeforeOneComesAgain) {
  const auto workload = workload_of(24, {});
  std::map<bool, std::vector<std::vector<int>>> trials;  // [of the anchor][block]
  for (const NotedBlock& block :
       blocks_of(*workload, {.block_ns = 3e6, .looks = {16}, .call_ns = 1e6, .deals = true}, 3))
    trials[block.of_anchor].push_back(block.trials);
  for (const bool of_anchor : {true, false}) {
    ASSERT_EQ(trials[of_anchor].size(), 32U);  // four decks
    for (std::size_t deck = 0; deck < 4; ++deck) {
      std::set<int> met;
      for (std::size_t block = 8 * deck; block < 8 * (deck + 1); ++block)
        met.insert(trials[of_anchor][block].begin(), trials[of_anchor][block].end());
      EXPECT_EQ(met.size(), 24U);
    }
  }
  EXPECT_NE(trials[false][0], trials[false][8]);
}

/// The share of screens that lie in the interval of another one.
double repeats_inside(const std::vector<Interval>& screens) {
  int inside = 0, pairs = 0;
  for (const Interval& one : screens)
    for (const Interval& other : screens)
      if (&one != &other) ++pairs, inside += holds(one, other.mid);
  return static_cast<double>(inside) / pairs;
}

TEST(ShapeTiming, ScreensAgreeOnAMachineThatDisturbsUnlikeKernelsUnlike) {
  for (const bool stand_in : {false, true}) {
    Bench bench(1, 0.01, 0);
    FakeKernel kernel = timed(500, 0.01);  // twice as fast as the fastest peer, which feels no weather
    kernel.weather = 0.2;
    bench.script(kernel);
    if (stand_in) {
      FakeKernel like = timed(600, 0.01);
      like.weather = 0.2;
      bench.add_stand_in("stand in", like);
    }
    std::vector<Interval> screens;
    for (int i = 0; i < 60; ++i) screens.push_back(over(bench.screen(), "peer"));
    if (stand_in)
      EXPECT_GE(repeats_inside(screens), 0.9);
    else
      EXPECT_LT(repeats_inside(screens), 0.8) << "the weather tells nothing";
  }
}

TEST(ShapeTiming, AScreenAgainstAStandInAllowsForWhatDiffersBetweenProcesses) {
  int held = 0;
  constexpr int kBenches = 100;
  for (std::uint64_t number = 1; number <= kBenches; ++number) {
    Bench bench(number, 0.005, 0);
    bench.script(timed(500, 0.005, 0.05));
    bench.add_stand_in("stand in", timed(500, 0.005, 0.05));
    const ShapeTiming one = bench.screen(), other = bench.screen();
    held += holds(over(one, "peer"), over(other, "peer").mid);
  }
  EXPECT_GE(held, kBenches * 8 / 10);
}

TEST(ShapeTiming, AStandInsTieToTheFastestPeerDoesNotGoThroughTheNaiveBuild) {
  Bench bench(1, 0.01, 0.05);
  bench.script(timed(400, 0.01));
  bench.add_stand_in("stand in", timed(450, 0.01));
  const ShapeTiming timing = bench.screen();
  const auto width = [&](const char* baseline) {
    return std::log(over(timing, baseline).high / over(timing, baseline).low);
  };
  EXPECT_LT(width("peer"), 0.9 * width("naive"));
}

TEST(ShapeTiming, AScreenOfAHopelessKernelEndsEarly) {
  for (const double call_ns : {30'000.0, 8e6}) {
    SCOPED_TRACE(call_ns);
    Bench bench(1, 0.01, 0);
    bench.script(timed(call_ns, 0.01));
    const std::int64_t before = bench.blocks_of("candidate");
    const ShapeTiming timing = bench.screen();
    ASSERT_TRUE(timing.finding.passed());
    EXPECT_LE(bench.blocks_of("candidate") - before, call_ns < 1e6 ? 4 : 3) << "a short one costs little";
    ASSERT_EQ(timing.speedups.size(), 2u);
    for (const Speedup& speedup : timing.speedups) EXPECT_TRUE(speedup.ambiguous);
    EXPECT_TRUE(holds(over(timing, "peer"), 1000 / call_ns)) << "the peer takes 1000 ns";
  }
}

TEST(ShapeTiming, EveryTimedBlockIsHeldToTheNaiveBuildsRms) {
  for (const double call_ns : {500.0, 30'000.0}) {  // timed in full, and hopeless
    Bench bench(1, 0, 0);
    FakeKernel kernel = timed(call_ns);
    kernel.wrong_rms = "rms";
    bench.script(kernel);
    EXPECT_EQ(bench.screen().finding.reason, "rms") << call_ns;
    EXPECT_EQ(bench.final().finding.reason, "rms") << call_ns;
  }
}

TEST(ShapeTiming, AFinalWithoutTheNaiveBuildsRmsIsTheMachinesFailure) {
  Bench bench(1, 0, 0);
  bench.script(timed(500));
  FakeKernel broken = timed(9000);
  broken.open_fault = "spawn";
  broken.open_infra = true;
  bench.script_naive(broken);
  const ShapeTiming timing = bench.final();
  EXPECT_EQ(timing.finding.outcome, Outcome::kInfra);
  EXPECT_EQ(timing.finding.reason, "anchor_failed");
}

TEST(ShapeTiming, WhereACandidateDoesNotServeTheBestPeerDoes) {
  const auto anchor = [](const std::string& name, double factor) {
    Anchor made{.name = name, .call_ns = 800 / factor};
    made.log_vs_naive = {std::log(factor), std::log(factor), std::log(factor)};
    return made;
  };
  const std::vector<Anchor> anchors = {anchor("naive", 1), anchor("a", 2), anchor("best", 4)};
  const auto speedups = fallback_speedups(anchors, "best", "n=16", 100);
  ASSERT_EQ(speedups.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(speedups[i].baseline, anchors[i].name);
    EXPECT_NEAR(speedups[i].ratio.mid, std::vector<double>({4, 2, 1})[i], 1e-9);
    EXPECT_NEAR(speedups[i].roof, std::vector<double>({8, 4, 2})[i], 1e-9);
  }
  EXPECT_EQ(speedups[2].ratio.low, 1) << "itself, without error";
  EXPECT_EQ(fallback_speedups(anchors, "best", "n=16", 0)[2].roof, 0) << "no peak is known";
}

TEST(ShapeTiming, AStandInServesScreensAndNeverFinals) {
  Bench bench(1, 0, 0);
  bench.add_stand_in("near", 200);
  bench.script(timed(100));
  const std::int64_t ties = bench.blocks_of("near");
  const ShapeTiming screened = bench.screen();
  const std::int64_t screens = bench.blocks_of("near");
  EXPECT_GT(screens, ties);
  EXPECT_EQ(screened.speedups.size(), 2u) << "nothing is claimed over it";
  EXPECT_NEAR(over(screened, "peer").mid, 10, 1e-4);
  EXPECT_NEAR(over(bench.final(), "peer").mid, 10, 1e-4);
  EXPECT_EQ(bench.blocks_of("near"), screens);
}

TEST(ShapeTiming, StandInsAreAskedForBeforeAnythingIsTimedAndOnlyWhereAllPeersAreFarSlower) {
  Bench bench(1, 0, 0);
  bench.forget_stand_ins();
  bench.script(timed(100));
  const ShapeTiming far = bench.screen();
  EXPECT_TRUE(far.finding.passed());
  EXPECT_TRUE(far.wants_stand_ins);
  EXPECT_TRUE(far.speedups.empty());
  bench.script(timed(900));
  const ShapeTiming near = bench.screen();
  EXPECT_FALSE(near.wants_stand_ins);
  EXPECT_EQ(near.speedups.size(), 2u);
}

TEST(ShapeTiming, ATiesIntervalHoldsTheTruth) {
  for (const double call_ns : {8000.0, 1000.0}) {  // near the naive build, and far faster
    int inside = 0;
    constexpr int kRepeats = 300;
    for (int i = 0; i < kRepeats; ++i) {
      Bench bench(20'000 + static_cast<std::uint64_t>(i), 0.03, 0.01);
      inside += holds(bench.tie_of(timed(call_ns, 0.03, 0.01)), std::log(9000 / call_ns)) ? 1 : 0;
    }
    EXPECT_GE(inside, kRepeats * 92 / 100) << call_ns;
  }
}

TEST(ShapeTiming, ATieNearTheNaiveBuildIsThePreciserOne) {
  Bench bench(1, 0.03, 0);
  const std::int64_t before = bench.blocks_of("another");
  (void)bench.tie_of(timed(1000, 0.03));
  const std::int64_t far = bench.blocks_of("another") - before;
  (void)bench.tie_of(timed(8000, 0.03));
  EXPECT_GT(bench.blocks_of("another") - before - far, 2 * far);
}

TEST(ShapeTiming, AScreensIntervalHoldsTheTruth) {
  int inside = 0, false_wins = 0;
  constexpr int kRepeats = 300;
  for (int i = 0; i < kRepeats; ++i) {
    Bench bench(100 + static_cast<std::uint64_t>(i), 0.02, 0);
    bench.script(timed(1000, 0.02));
    const Interval ratio = over(bench.screen(), "peer");
    inside += holds(ratio, 1) ? 1 : 0;
    false_wins += ratio.low > 1 ? 1 : 0;
  }
  EXPECT_GE(inside, kRepeats * 93 / 100);
  EXPECT_LE(false_wins, kRepeats * 4 / 100);
}

TEST(ShapeTiming, AFinalPredictsAFurtherProcess) {
  int inside = 0, false_wins = 0;
  constexpr int kRepeats = 300;
  for (int i = 0; i < kRepeats; ++i) {
    Bench bench(5000 + static_cast<std::uint64_t>(i), 0.01, 0.01);
    bench.script(timed(1000, 0.01, 0.01));
    const Interval claimed = over(bench.final(), "peer");
    // What somebody else would measure: fresh processes of both, as precisely as it can be done.
    Rng rng(Seed::from_number(90'000 + static_cast<std::uint64_t>(i)));
    inside += holds(claimed, std::exp(0.01 * (rng.normal() - rng.normal()))) ? 1 : 0;
    false_wins += claimed.low > 1 ? 1 : 0;
  }
  EXPECT_GE(inside, kRepeats * 93 / 100);
  EXPECT_LE(false_wins, kRepeats * 2 / 100);
}

TEST(ShapeTiming, AnIntervalThatIsTooWideIsAmbiguous) {
  Bench bench(3, 0.3, 0);
  bench.script(timed(1000, 0.3));
  const ShapeTiming timing = bench.screen();
  ASSERT_TRUE(timing.finding.passed());
  for (const Speedup& speedup : timing.speedups) EXPECT_TRUE(speedup.ambiguous);
}

TEST(ShapeTiming, PairsThatTheMachineDisturbedAreDropped) {
  Bench bench(4, 0.002, 0);
  FakeKernel kernel = timed(500, 0.002);
  kernel.spike_chance = 0.1;
  bench.script(kernel);
  const Interval ratio = over(bench.screen(), "peer");
  EXPECT_NEAR(ratio.mid, 2, 0.02);
  EXPECT_GT(ratio.low, 1.9);
}

/// Sessions of an anchor that takes 1000 ns and of a scripted kernel, on the same trials.
class Duel {
 public:
  Duel(const FakeKernel& kernel, int trials, const FakeKernel& against = timed(1000), std::uint64_t seed = 4)
      : task_(twice_task()), backend_(Seed::from_number(seed)) {
    const auto bound = *lathe::bind(task_, task_.shapes[0].dims);
    workload =
        *make_timing_workload(backend_, **make_reference(task_), bound, Seed::from_number(5), trials, {});
    backend_.script("anchor", against);
    backend_.script("candidate", kernel);
    anchor = *backend_.open(scripted("anchor"), {}, workload);
    candidate = *backend_.open(scripted("candidate"), {}, workload);
  }

  std::shared_ptr<const Workload> workload;
  std::unique_ptr<Session> anchor, candidate;

 private:
  TaskSpec task_;
  FakeBackend backend_;
};

/// Passes blocks on and keeps the most and the fewest calls of one.
class CountingSession final : public Session {
 public:
  explicit CountingSession(Session& inner) : inner_(inner) {}
  BlockOutcome run(const BlockRequest& request) override {
    most_calls = std::max(most_calls, request.trials.size());
    fewest_calls = std::min(fewest_calls, request.trials.size());
    return inner_.run(request);
  }
  std::size_t most_calls = 0, fewest_calls = 1000;

 private:
  Session& inner_;
};

TEST(PairTimer, PairsInWhichTheClockMovedAreDropped) {
  FakeKernel kernel = timed(500);
  kernel.slow_clock_chance = 0.3;
  const Duel duel(kernel, 4);
  TimingRule rule = screen_rule();
  rule.looks = {60};
  const PairOutcome pair =
      time_pair(*duel.anchor, *duel.candidate, *duel.workload, rule, Seed::from_number(6));
  ASSERT_TRUE(pair.finding.passed());
  EXPECT_GT(pair.estimate.dropped, 20);
  EXPECT_EQ(pair.estimate.samples.size(), 60u);
  for (const double sample : pair.estimate.samples) EXPECT_NEAR(sample, std::log(2), 1e-9);
}

TEST(PairTimer, AKernelThatFeignsDisturbancesGainsItsOwnNoiseAtMost) {
  FakeKernel kernel = timed(1000, 0.01);
  kernel.picks_its_blocks = true;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Duel duel(kernel, 4, timed(1000, 0.01), seed);
    const PairOutcome pair =
        time_pair(*duel.anchor, *duel.candidate, *duel.workload, screen_rule(), Seed::from_number(seed));
    ASSERT_TRUE(pair.finding.passed());
    EXPECT_LT(pair.estimate.log_ratio.mid, 0.015);
    EXPECT_GT(pair.estimate.dropped, 0);
  }
}

TEST(PairTimer, AKernelThatIsSlowInHalfOfItsBlocksIsAsSlowAsTheyAre) {
  for (const bool feigns_disturbance : {false, true}) {
    FakeKernel kernel = timed(1000, 0.01);
    kernel.spike_chance = 0.5;
    kernel.reports_spikes = feigns_disturbance;
    const Duel duel(kernel, 4, timed(1000, 0.01));
    TimingRule rule = screen_rule();
    rule.looks = {60};
    const PairOutcome pair =
        time_pair(*duel.anchor, *duel.candidate, *duel.workload, rule, Seed::from_number(6));
    ASSERT_TRUE(pair.finding.passed());
    EXPECT_NEAR(pair.estimate.log_ratio.mid, -std::log(3) / 2, 0.2) << feigns_disturbance;
  }
}

TEST(PairTimer, SpikesThatBothKernelsMeetAccuseNeither) {
  double sum = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    FakeKernel kernel = timed(1000, 0.01);
    kernel.spike_chance = 0.15;
    kernel.reports_spikes = false;
    const Duel duel(kernel, 4, kernel, seed);
    const PairOutcome pair =
        time_pair(*duel.anchor, *duel.candidate, *duel.workload, screen_rule(), Seed::from_number(seed));
    ASSERT_TRUE(pair.finding.passed());
    sum += pair.estimate.log_ratio.mid;
  }
  EXPECT_NEAR(sum / 40, 0, 0.01);
}

TEST(PairTimer, ABlockThatTheMachineDisturbedRunsAgain) {
  for (const double chance : {0.2, 0.35}) {
    FakeKernel kernel = timed(500, 0.002), anchor = timed(1000, 0.002);
    kernel.spike_chance = anchor.spike_chance = chance;
    const Duel duel(kernel, 4, anchor);
    TimingRule rule = screen_rule();
    rule.blocks = 1;
    const PairOutcome pair =
        time_pair(*duel.anchor, *duel.candidate, *duel.workload, rule, Seed::from_number(6));
    ASSERT_TRUE(pair.finding.passed());
    EXPECT_EQ(pair.estimate.samples.size(), 9u);
    EXPECT_NEAR(pair.estimate.log_ratio.mid, std::log(2), 0.005);
  }
}

TEST(PairTimer, ABusyMachineMakesNoKernelLookFasterThanItIs) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    FakeKernel kernel = timed(1000, 0.002), anchor = timed(1000, 0.002);
    kernel.spike_chance = 0.5;
    anchor.spike_chance = 0.95;
    anchor.says_own_time = true;
    const Duel duel(kernel, 4, anchor, seed);
    const PairOutcome pair =
        time_pair(*duel.anchor, *duel.candidate, *duel.workload, screen_rule(), Seed::from_number(seed));
    ASSERT_TRUE(pair.finding.passed());
    EXPECT_LT(pair.estimate.log_ratio.low, 0.003);
    EXPECT_LT(pair.estimate.log_ratio.mid, 0.003);
  }
}

TEST(PairTimer, WhatACandidateSaysOfItsOwnTimeCountsForNothing) {
  FakeKernel kernel = timed(1000, 0.002);
  kernel.spike_chance = 1;
  kernel.says_own_time = true;
  const Duel duel(kernel, 4, timed(1000, 0.002));
  TimingRule rule = screen_rule();
  const auto ratio = [&] {
    return time_pair(*duel.anchor, *duel.candidate, *duel.workload, rule, Seed::from_number(6))
        .estimate.log_ratio;
  };
  EXPECT_NEAR(ratio().mid, -std::log(3), 0.01);
  rule.trusts_candidate = true;
  EXPECT_NEAR(ratio().mid, 0, 0.01) << "a baseline that is tied to another";
}

TEST(PairTimer, OneSlowBlockOfTheAnchorDoesNotShortenItsOthers) {
  FakeKernel anchor = timed(1000);
  anchor.spike_chance = 0.3;
  anchor.reports_spikes = false;
  const Duel duel(timed(1000), 32, anchor);
  TimingRule rule = screen_rule();
  rule.blocks = 1;
  rule.block_ns = 20'000;
  rule.call_ns = rule.anchor_ns = 1000;
  CountingSession counted(*duel.anchor);
  ASSERT_TRUE(
      time_pair(counted, *duel.candidate, *duel.workload, rule, Seed::from_number(6)).finding.passed());
  EXPECT_EQ(counted.fewest_calls, 20u);
}

TEST(ShapeTiming, UnreportedDisturbancesHardlyMoveTheMedian) {
  Bench bench(6, 0.002, 0);
  FakeKernel kernel = timed(500, 0.002);
  kernel.spike_chance = 0.1;
  kernel.reports_spikes = false;
  bench.script(kernel);
  EXPECT_NEAR(over(bench.screen(), "peer").mid, 2, 0.1);
}

TEST(TimingWorkload, EachTrialKnowsPartOfWhateverAKernelLeavesOut) {
  const auto task = parse_task(R"toml(
name = "doubled"
dims = { rows = [1, 2048], cols = [1, 1024] }
tensor = [{ name = "x", shape = ["rows", "cols"] }]
graph = "y = add(x, x)"
shape = [{ name = "large", rows = 2048, cols = 1024 }]
)toml",
                               "doubled.toml");
  ASSERT_TRUE(task.ok()) << task.error().to_string();
  FakeBackend backend(Seed::from_number(1));
  const auto bound = *lathe::bind(*task, task->shapes[0].dims);
  const auto reference = make_sliced(*make_reference(*task), *task);
  const std::size_t half = 1024 * 1024;
  for (std::uint64_t secret = 0; secret < 6; ++secret) {
    const auto workload =
        make_timing_workload(backend, *reference, bound, Seed::from_number(secret), 2, {.max_bytes = 1});
    ASSERT_TRUE(workload.ok());
    ASSERT_EQ((*workload)->trials.size(), 2u);
    std::vector<std::vector<KnownRange>> places;
    for (const Trial& trial : (*workload)->trials) {
      const Expected& y = trial.expected.front();
      ASSERT_LT(y.value.data.size(), half) << "only a part is known";
      places.push_back(y.known);
      // A twentieth of the output, wherever it is.
      for (std::size_t left_out = 0; left_out < 20; ++left_out)
        EXPECT_TRUE(std::ranges::any_of(y.known, [&](const KnownRange& range) {
          return range.element * 20 / y.elements() == left_out;
        })) << left_out;
    }
    EXPECT_NE(places[0], places[1]);
  }
}

TEST(LargeWorkload, HasOrdinaryInputsOrMixedOnes) {
  const TaskSpec task = twice_task();
  FakeBackend backend(Seed::from_number(1));
  const auto bound = *lathe::bind(task, task.shapes[0].dims);
  const auto reference = *make_reference(task);
  std::map<Distribution, int> drawn;
  for (std::uint64_t secret = 0; secret < 100; ++secret) {
    const auto workload = *make_large_workload(backend, *reference, bound, Seed::from_number(secret));
    ASSERT_EQ(workload->trials.size(), 1u);
    ++drawn[workload->trials.front().distribution];
  }
  EXPECT_GT(drawn[Distribution::kNormal], 30);
  EXPECT_GT(drawn[Distribution::kMixed], 30);
  EXPECT_EQ(drawn.size(), 2u);
}

/// What counts in 16 bits is right until a shape of more indices than that has nearly all alike.
TEST(LargeWorkload, OfIndicesHasCrowdedOnesToo) {
  const TaskSpec task = *parse_task(R"toml(
name = "counts"
dims = { n = [1, 200000] }
tensor = [{ name = "at", shape = ["n"], role = "index", gen = { kind = "index", limit = 8 } }]
graph = "y = bincount(at, bins = 8)"
baselines = ["naive"]
shape = [{ n = 100000 }]
)toml",
                                    "counts.toml");
  FakeBackend backend(Seed::from_number(1));
  const auto bound = *lathe::bind(task, task.shapes[0].dims);
  const auto reference = *make_reference(task);
  int crowded = 0;
  for (std::uint64_t secret = 0; secret < 30; ++secret) {
    const auto workload = *make_large_workload(backend, *reference, bound, Seed::from_number(secret));
    crowded +=
        static_cast<int>(std::ranges::max(workload->trials.front().expected[0].value.data) > 0.9 * 100000);
  }
  EXPECT_GT(crowded, 4);
  EXPECT_LT(crowded, 20);
}

TEST(SteadyScreenTrials, FillABlockOfUsualAndOneOfUnseenInputsForEightyMicroseconds) {
  const TaskSpec task = twice_task();
  BoundTask bound = *lathe::bind(task, task.shapes[0].dims);
  DevicePeaks peaks;
  peaks.flops_per_second = 1e12;
  peaks.levels = {{"DRAM", 1e12, 1e12}};
  EXPECT_EQ(steady_screen_trials(bound, peaks), 64) << "no call takes less than 2.5 us";
  bound.bytes_min = 1e7;
  EXPECT_EQ(steady_screen_trials(bound, peaks), 16) << "10 us for memory";
  bound.essential_flops = 2e7;
  EXPECT_EQ(steady_screen_trials(bound, peaks), 8) << "20 us for arithmetic";
  bound.essential_flops = 1e9;
  EXPECT_EQ(steady_screen_trials(bound, peaks), 6) << "a call is a block";
}

TEST(Ring, KeepsHalfOfTheTrialsBack) {
  const TaskSpec task = twice_task();
  FakeBackend backend(Seed::from_number(1));
  const auto bound = *lathe::bind(task, task.shapes[0].dims);
  const auto reference = *make_reference(task);
  for (const int trials : {2, 3, 4, 32}) {
    const auto workload = *make_timing_workload(backend, *reference, bound, Seed::from_number(5), trials, {});
    const Ring ring = draw_ring(*workload, true, Seed::from_number(6));
    EXPECT_EQ(ring.unseen.size(), static_cast<std::size_t>(std::max(1, trials / 2)));
    std::set<int> all(ring.usual.begin(), ring.usual.end());
    all.insert(ring.unseen.begin(), ring.unseen.end());
    EXPECT_EQ(all.size(), static_cast<std::size_t>(trials)) << "each trial is in one of both";
    EXPECT_TRUE(draw_ring(*workload, false, Seed::from_number(6)).unseen.empty());
  }
}

TEST(PairTimer, ComparesInputsThatTheProcessMeetsOnceWithTheTimedPairs) {
  FakeKernel kernel = timed(500);
  kernel.unseen_factor = 3;
  const Duel duel(kernel, 32);
  TimingRule rule = screen_rule();
  rule.call_ns = 500;
  Ring ring = draw_ring(*duel.workload, true, Seed::from_number(6));
  rule.trials = ring.usual;
  rule.unseen = ring.unseen;
  const auto pair = time_pair(*duel.anchor, *duel.candidate, *duel.workload, rule, Seed::from_number(7));
  ASSERT_TRUE(pair.finding.passed());
  const auto excess = excess_of(pair.estimate);
  ASSERT_TRUE(excess.has_value());
  EXPECT_NEAR(excess->log, std::log(3), 1e-9);
  EXPECT_GT(excess->low, std::log(2.5));
}

TEST(PairTimer, ABusyMachineAccusesNobodyOfRemembering) {
  int measured = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    FakeKernel kernel = timed(500, 0.002);
    kernel.spike_chance = 0.6;
    kernel.says_own_time = true;
    const Duel duel(kernel, 32, kernel, seed);
    TimingRule rule = screen_rule();
    rule.call_ns = 500;
    const Ring ring = draw_ring(*duel.workload, true, Seed::from_number(seed));
    rule.trials = ring.usual;
    rule.unseen = ring.unseen;
    const auto pair = time_pair(*duel.anchor, *duel.candidate, *duel.workload, rule, Seed::from_number(seed));
    ASSERT_TRUE(pair.finding.passed());
    const auto excess = excess_of(pair.estimate);
    if (!excess) continue;
    ++measured;
    EXPECT_LT(excess->log, std::log(1.1)) << seed;
  }
  EXPECT_GT(measured, 0);
}

TEST(PairTimer, BlocksOnUnseenInputsAreAsLongAsTheOthers) {
  for (const double call_ns : {1e3, 2e4, 4e4, 1e5, 1e6}) {
    const Duel duel(timed(call_ns), 32);
    CountingSession anchor(*duel.anchor), candidate(*duel.candidate);
    TimingRule rule = screen_rule();
    rule.call_ns = call_ns;
    const Ring ring = draw_ring(*duel.workload, true, Seed::from_number(6));
    rule.trials = ring.usual;
    rule.unseen = ring.unseen;
    const auto pair = time_pair(anchor, candidate, *duel.workload, rule, Seed::from_number(7));
    ASSERT_TRUE(pair.finding.passed());
    EXPECT_FALSE(pair.estimate.unseen.empty());
    EXPECT_EQ(candidate.fewest_calls, candidate.most_calls) << call_ns;
  }
}

TEST(PairTimer, AKernelDoesNotHideItsMemoryInNoiseOfItsOwn) {
  RatioEstimate estimate;
  for (int i = 0; i < 20; ++i) estimate.samples.push_back(i % 2 == 0 ? 0.5 : -0.1);
  estimate.log_ratio = {0.1, 0.2, 0.3};
  estimate.unseen = {0.0, 0.05};
  EXPECT_GT(excess_of(estimate)->low, 0.05);
  estimate.unseen = {0.2, 0.21};
  EXPECT_LT(excess_of(estimate)->low, 0);
  estimate.unseen.clear();
  EXPECT_FALSE(excess_of(estimate).has_value()) << "every block was disturbed";
}

TEST(PairTimer, AnAnchorThatIsKnownToBeSlowHasFewCallsFromTheStart) {
  const Duel duel(timed(100), 32);
  TimingRule rule = screen_rule();
  rule.block_ns = 2000;
  rule.call_ns = 100;
  for (const double anchor_ns : {0.0, 1000.0}) {
    CountingSession anchor(*duel.anchor), candidate(*duel.candidate);
    rule.anchor_ns = anchor_ns;
    const auto pair = time_pair(anchor, candidate, *duel.workload, rule, Seed::from_number(6));
    ASSERT_TRUE(pair.finding.passed());
    EXPECT_EQ(candidate.most_calls, 20u);
    EXPECT_EQ(anchor.most_calls, anchor_ns > 0 ? 2u : 20u);
    EXPECT_NEAR(pair.estimate.log_ratio.mid, std::log(10), 1e-9);
  }
}

TEST(ShapeTiming, AScreensIntervalAllowsForWhatItsOneProcessCannotTell) {
  int held = 0;
  for (std::uint64_t number = 1; number <= 100; ++number) {
    Bench bench(number, 0.001, 0.01);
    bench.script(timed(1000, 0.001, 0.01));
    bench.set_process_spread(0.01 * std::sqrt(2));
    held += holds(over(bench.screen(), "peer"), 1);
  }
  EXPECT_GE(held, 90);
}

TEST(ShapeTiming, AScreenKnowsItsProcessNoBetterThanIsWorthwhile) {
  const auto blocks = [](double spread) {
    Bench bench(3, 0.1, 0);
    bench.script(timed(1000, 0.1));
    bench.set_process_spread(spread);
    const std::int64_t before = bench.blocks_of("candidate");
    EXPECT_TRUE(bench.screen().finding.passed());
    return bench.blocks_of("candidate") - before;
  };
  EXPECT_LT(blocks(0.1), blocks(0.01));
}

TEST(ShapeTiming, AScreenThatWasDisturbedThroughoutDoesNotEndEarly) {
  Bench bench(1, 0, 0);
  FakeKernel kernel = timed(10'000);
  kernel.spike_chance = 1;  // thrice as long
  bench.script(kernel);
  EXPECT_GT(over(bench.screen(), "peer").low, 0.03) << "not the guess of a few blocks";
}

TEST(ShapeTiming, AKernelThatKnowsItsInputsAgainIsTampering) {
  Bench bench(1, 0.02, 0.02);
  FakeKernel kernel = timed(1000, 0.02, 0.02);
  kernel.unseen_factor = 2;
  bench.script(kernel);
  for (const ShapeTiming& timing : {bench.screen(), bench.final()}) {
    EXPECT_EQ(timing.finding.outcome, Outcome::kTampered);
    EXPECT_EQ(timing.finding.reason, "remembers");
  }
}

TEST(ShapeTiming, WhatAKernelGainsOnInputsThatItKnowsDoesNotCount) {
  Bench bench(1, 0.002, 0.002);
  FakeKernel kernel = timed(1000, 0.002, 0.002);
  kernel.unseen_factor = 1.12;
  bench.script(kernel);
  for (const ShapeTiming& timing : {bench.screen(), bench.final()}) {
    ASSERT_TRUE(timing.finding.passed());
    EXPECT_NEAR(over(timing, "peer").mid, 1 / 1.12, 0.02);
    EXPECT_NEAR(timing.unseen_over_usual, 1.12, 0.02);
  }
}

TEST(ShapeTiming, AKernelThatRemembersInItsFirstProcessAloneGainsNothing) {
  Bench bench(1, 0.002, 0.002);
  FakeKernel kernel = timed(1000, 0.002, 0.002);
  kernel.unseen_factor = 1.44;
  kernel.only_first_remembers = true;
  bench.script(kernel);
  const ShapeTiming timing = bench.screen();
  ASSERT_TRUE(timing.finding.passed());
  EXPECT_NEAR(over(timing, "peer").mid, 1 / 1.44, 0.02);
}

TEST(ShapeTiming, AnHonestKernelHardlyEverLosesByTheComparisonWithUnseenInputs) {
  int lost = 0;
  for (std::uint64_t number = 1; number <= 100; ++number) {
    Bench bench(number, 0.01, 0);
    bench.script(timed(1000, 0.01));
    lost += over(bench.screen(), "peer").high < 0.99;
  }
  EXPECT_LE(lost, 3);
}

TEST(ShapeTiming, AKernelWhoseUnseenInputsAreAlwaysDisturbedIsNotTimed) {
  Bench bench(1, 0, 0);
  FakeKernel kernel = timed(1000);
  kernel.unseen_factor = 2;
  kernel.disturbs_unseen = true;
  bench.script(kernel);
  for (const ShapeTiming& timing : {bench.screen(), bench.final()})
    EXPECT_EQ(timing.finding.reason, "disturbed");
}

TEST(ShapeTiming, ASlowFirstBlockThatNoFreshProcessConfirmsIsNoTampering) {
  for (std::uint64_t number = 1; number <= 40; ++number) {
    Bench bench(number, 0, 0);
    FakeKernel kernel = timed(1000, 0.01);
    kernel.spike_chance = 0.1;
    bench.script(kernel);
    EXPECT_NE(bench.screen().finding.outcome, Outcome::kTampered) << number;
  }
}

TEST(ShapeTiming, AMachineThatDisturbsHalfOfTheBlocksAccusesNobody) {
  for (std::uint64_t number = 1; number <= 100; ++number) {
    Bench bench(number, 0, 0);
    FakeKernel kernel = timed(1000, 0.01);
    kernel.spike_chance = 0.5;
    bench.script(kernel);
    EXPECT_NE(bench.screen().finding.outcome, Outcome::kTampered) << number;
  }
}

TEST(ShapeTiming, FasterThanTheBytesCanMoveIsTampering) {
  TaskSpec task = twice_task();
  FakeBackend backend(Seed::from_number(1));
  const auto reference = *make_reference(task);
  BenchShape shape;
  shape.task = *lathe::bind(task, task.shapes[0].dims);
  shape.timing = *make_timing_workload(backend, *reference, shape.task, Seed::from_number(2), 4, {});
  shape.timing_rms.assign(4, {RmsLimit{}});
  DevicePeaks peaks;
  peaks.flops_per_second = 1e30;
  peaks.levels = {{"memory", 1e30, 1e9}};  // 128 bytes in 128 ns
  backend.set_peaks(peaks);
  backend.script("naive", timed(1000));
  backend.script("candidate", timed(50));
  const TimingSite site{backend, *reference, shape, 10.0};
  const TiedAnchor naive =
      ShapeTimer(site, {}, Seed::from_number(3)).tie("naive", true, scripted("naive"), {});
  ASSERT_TRUE(naive.finding.passed());
  const std::vector<Anchor> anchors{naive.anchor};
  const ShapeTiming timing =
      ShapeTimer(site, anchors, Seed::from_number(4)).screen(scripted("candidate"), {});
  EXPECT_EQ(timing.finding.outcome, Outcome::kTampered);
  EXPECT_EQ(timing.finding.reason, "roofline");
  EXPECT_NEAR(timing.speedups.at(0).roof, 1000 / 128.0, 0.1) << "what the naive build leaves to gain";
}

}  // namespace
}  // namespace lathe

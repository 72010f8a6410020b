#include "train/crew.h"

#include <gmock/gmock.h>

#include <thread>

#include "tests/train/linked.h"
#include "tests/train/tiny_actor.h"
#include "train/lm_actor.h"

namespace lathe::train {
namespace {

/// An actor and those that learn with it, each in a thread where a run has a process.
class Company {
 public:
  Company(const rl::ScheduleTable& table, bool adapter, int size) : links_(linked(size)) {
    for (const Links& links : links_) reducers_.emplace_back(links);
    actor_ = tiny_actor(table_tasks(table), adapter, 1,
                        {.tokens_at_once = 300, .links = &links_[0], .reducer = &reducers_[0]});
    for (std::size_t rank = 1; rank < links_.size(); ++rank) {
      others_.push_back(tiny_actor(table_tasks(table), adapter));
      threads_.emplace_back([this, rank] {
        ended_[rank] =
            serve_crew(others_[rank - 1]->learner(), {.links = &links_[rank], .reducer = &reducers_[rank]});
      });
    }
  }
  ~Company() { part(); }

  LmActor& actor() { return *actor_; }
  LmActor& other(std::size_t rank) { return *others_[rank - 1]; }
  /// What became of the others.
  std::vector<Status> part() {
    links_[0] = Links();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    return {ended_.begin() + 1, ended_.begin() + static_cast<std::ptrdiff_t>(links_.size())};
  }

 private:
  std::vector<Links> links_;
  std::vector<LinkReducer> reducers_ = reserved();
  std::unique_ptr<LmActor> actor_;
  std::vector<std::unique_ptr<LmActor>> others_;
  std::vector<std::thread> threads_;
  std::array<Status, 8> ended_ = {Ok{}, Ok{}, Ok{}, Ok{}, Ok{}, Ok{}, Ok{}, Ok{}};

  static std::vector<LinkReducer> reserved() {
    std::vector<LinkReducer> reducers;
    reducers.reserve(8);
    return reducers;
  }
};

using Numbers = std::vector<std::vector<double>>;
void expect_near(const Numbers& a, const Numbers& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].size(), b[i].size());
    for (std::size_t t = 0; t < a[i].size(); ++t) EXPECT_NEAR(a[i][t], b[i][t], tolerance);
  }
}

class Crews : public testing::TestWithParam<std::tuple<bool, int>> {
 protected:
  const rl::ScheduleTable table_ = written_table(2);
  const std::vector<rl::Prompt> prompts_ = [] {
    std::vector<rl::Prompt> prompts(24, {.task = 0});
    prompts.resize(40, {.task = 1});
    return prompts;
  }();
};
INSTANTIATE_TEST_SUITE_P(Kinds, Crews, testing::Combine(testing::Bool(), testing::Values(2, 3)),
                         [](const auto& kind) {
                           return std::string(std::get<0>(kind.param) ? "adapter" : "whole") +
                                  std::to_string(std::get<1>(kind.param));
                         });

TEST_P(Crews, LearnAsOneProcessDoes) {
  const auto [adapter, size] = GetParam();
  const auto alone = tiny_actor(table_tasks(table_), adapter, 1, {.tokens_at_once = 300});
  Company company(table_, adapter, size);
  LmActor& together = company.actor();
  ASSERT_TRUE(alone->keep_reference().ok() && together.keep_reference().ok());
  for (std::uint64_t round = 0; round < 3; ++round) {
    const auto answers = *alone->sample(prompts_, Seed::from_number(round));
    const auto pairs = prompted(prompts_, answers);
    expect_near(*together.log_probabilities(pairs), *alone->log_probabilities(pairs), 1e-5);
    expect_near(*together.reference_log_probabilities(pairs), *alone->reference_log_probabilities(pairs),
                1e-5);
    const Numbers weights = random_weights(answers);
    const double entropy = *alone->add_gradient(pairs, weights, 0.1);
    EXPECT_NEAR(*together.add_gradient(pairs, weights, 0.1), entropy, 1e-5);
    const double norm = *alone->update(0.02, 1);
    EXPECT_NEAR(*together.update(0.02, 1), norm, 1e-4 * norm);
  }
  const std::string folder = fresh_folder_of("crew");
  const auto state = together.save(folder);
  ASSERT_TRUE(state.ok()) << state.error().to_string();
  ASSERT_TRUE(together.restore(*state, folder).ok());
  for (const Status& ended : company.part()) EXPECT_TRUE(ended.ok());
  for (int rank = 1; rank < size; ++rank)
    EXPECT_EQ(company.other(static_cast<std::size_t>(rank)).learner().fingerprint(),
              together.learner().fingerprint());
}

TEST_P(Crews, TheGradientOfEachPassIsComputedByOneOfThem) {
  const auto [adapter, size] = GetParam();
  Company company(table_, adapter, size);
  const auto answers = *company.actor().sample(prompts_, Seed::from_number(1));
  ASSERT_TRUE(company.actor().add_gradient(prompted(prompts_, answers), random_weights(answers), 0).ok());
  ASSERT_TRUE(company.actor().log_probabilities(prompted(prompts_, answers)).ok());  // they are done
  company.part();
  for (int rank = 1; rank < size; ++rank) {
    double squares = 0;
    for (const at::Tensor& gradient :
         company.other(static_cast<std::size_t>(rank)).learner().parameters().gradients())
      squares += gradient.square().sum().item<double>();
    EXPECT_GT(squares, 0);
  }
}

TEST_P(Crews, DifferentWeightsAreNotSaved) {
  const auto [adapter, size] = GetParam();
  Company company(table_, adapter, size);
  leave_the_beginning(company.actor());
  const auto state = company.actor().save(fresh_folder_of("unequal"));
  ASSERT_FALSE(state.ok());
  EXPECT_THAT(state.error().message, testing::HasSubstr("different weights"));
}

TEST_P(Crews, AProcessThatIsGoneIsAnError) {
  const auto [adapter, size] = GetParam();
  std::vector<Links> links = linked(size);
  LinkReducer reducer(links[0]);
  const auto actor = tiny_actor(table_tasks(table_), adapter, 1,
                                {.tokens_at_once = 300, .links = &links[0], .reducer = &reducer});
  const auto answers = *actor->sample(prompts_, Seed::from_number(1));
  for (int rank = 1; rank < size; ++rank) links[static_cast<std::size_t>(rank)] = Links();
  const auto known = actor->log_probabilities(prompted(prompts_, answers));
  ASSERT_FALSE(known.ok());
  EXPECT_EQ(known.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(actor->update(0.1, 0).error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace lathe::train

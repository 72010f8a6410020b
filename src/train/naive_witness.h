#pragma once

#include <string>

#include "rl/actor.h"

namespace lathe::train {

struct NaiveWitnessOptions {
  std::string program;  ///< `lathe`
  std::string tasks;    ///< the folder of the gym's tasks
  std::string device;   ///< where the naive grader runs answers: "cpu" or "cuda"
};

/// A gym whose verdicts say besides, in their profile (kNaiveSpeedup), what a grader without
/// defences makes of the same answers: asked by `lathe policy naive`, once the gym has judged all
/// of a step; nothing where that grader could not be asked. Its answers change no verdict. Errors
/// of judge(): also what that program says where it fails.
class NaiveWitness final : public rl::Gym {
 public:
  /// `gym` must outlive it.
  NaiveWitness(rl::Gym& gym, NaiveWitnessOptions options);

  std::size_t tasks() const override { return gym_.tasks(); }
  std::string_view task_name(std::size_t task) const override { return gym_.task_name(task); }
  std::string composition(std::size_t task) const override { return gym_.composition(task); }
  std::string_view peer(std::size_t task) const override { return gym_.peer(task); }
  void expect(std::span<const std::size_t> tasks) override { gym_.expect(tasks); }
  void begin(const Question& question) override { gym_.begin(question); }
  Result<std::vector<Verdict>> judge(std::span<const Question> questions, const Seed& seed) override;

 private:
  rl::Gym& gym_;
  NaiveWitnessOptions options_;
};

}  // namespace lathe::train

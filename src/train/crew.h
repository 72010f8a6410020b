#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/answer_pass.h"
#include "train/learner.h"
#include "train/links.h"
#include "train/reducer.h"

namespace lathe {
class WireWriter;
}

namespace lathe::train {

/// The processes that a model learns in by reinforcement, each with a copy of it on a device of its
/// own. The first runs the training and draws all answers; the others compute their share of the
/// passes that it asks for, and all do the same updates. One process alone is a crew too.
struct CrewSeat {
  const Links* links = nullptr;  ///< null: one process alone
  Reducer* reducer = nullptr;    ///< where there are others
  /// Waits for a turn on this process's device, where others time kernels; empty: nobody does.
  std::function<std::shared_ptr<void>()> take_turn = {};
};

/// Whose weights.
enum class Weights : std::uint8_t { kLearned, kReference };

/// The first process's. One thread. Errors of all: kUnavailable where another process is gone.
class Crew {
 public:
  /// `learner` must outlive it; the others' learners begin alike.
  Crew(Learner& learner, CrewSeat seat) : learner_(learner), seat_(std::move(seat)) {}

  std::size_t size() const { return 1 + others(); }
  /// In the order of the passes.
  Result<std::vector<PassFindings>> find_out(std::span<const AnswerPass> passes, Weights whose);
  /// One of `slopes` for each pass.
  Status add_gradient(std::span<const AnswerPass> passes, std::span<const PassSlopes> slopes);
  /// With the sum of all gradients; returns its norm before it was clipped.
  Result<double> update(const AdamW& options, double learning_rate, std::int64_t step, double clip_norm);
  /// The weights as they are become the reference.
  Status keep_reference();
  bool has_reference() const { return reference_.has_value(); }
  /// Of a file that all processes can read.
  Status load_state(const std::string& path);
  /// Errors: kInternal where weights or moments differ.
  Status check_equal();

 private:
  std::size_t others() const { return seat_.links ? seat_.links->count() : 0; }
  Status tell_all(const std::string& order) const;
  /// Sends each of the others `head` and every pass of its share: of rank r the r-th, and so on in
  /// steps of size().
  template <class Put>
  Status share_out(std::size_t passes, const WireWriter& head, const Put& put_pass) const;

  Learner& learner_;
  const CrewSeat seat_;
  std::optional<Scorer> reference_;
};

/// Another process's part: does what the first one asks for until it is gone or has parted.
Status serve_crew(Learner& learner, const CrewSeat& seat);

}  // namespace lathe::train

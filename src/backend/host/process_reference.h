#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backend/host/program.h"
#include "backend/host/zygote.h"
#include "base/cancel.h"
#include "base/random.h"
#include "task/reference.h"

namespace lathe::host {

/// Runs the modules of tasks, in processes that run no candidate. Thread-safe.
class ReferenceRoom {
 public:
  /// Once `cancel` is raised, what is asked for ends with kCancelled.
  ReferenceRoom(const ZygoteOptions& options, CancelToken cancel);
  ~ReferenceRoom();

  /// The module's constructor arguments and parameters at a shape. Parameters come from a secret
  /// seed, and are the same as long as this object lives. Errors: kInvalid, with the module's
  /// traceback.
  Result<std::shared_ptr<const Model>> model(const BoundTask& task);
  /// A process task that lists no tensors, with those of its module: what get_inputs() gives and
  /// forward() returns. Other tasks as they are. Errors: kInvalid, with the module's traceback or
  /// what is not taken.
  Result<TaskSpec> complete(TaskSpec spec);
  /// Each output in fp64, what the module's own precision is off by (infinite where it does not
  /// hold the value), by how much a rounding of the inputs changes it, and how far it is from what
  /// the module gives in fp64 with the roundings that it asks for, and without them: infinite where
  /// those leave a type's range.
  struct Answer {
    std::vector<double> exact, off, change, apart;
  };
  Result<std::vector<Answer>> evaluate(const BoundTask& task, std::span<const HostTensor> inputs);

 private:
  std::uint64_t seed_of(const BoundTask& task) const;
  /// A process that answers and ends.
  Result<ChildReply> ask_once(const ProgramText& program, const BoundTask& task, const Zygote::Rooms& rooms,
                              char step, double seconds);
  Result<nlohmann::json> describe(const BoundTask& task, UniqueFd& state);
  Result<std::shared_ptr<const Model>> make_model(const BoundTask& task);

  /// A task's module at one shape.
  using Key = std::pair<Digest, Dims>;
  class Oracle;
  struct KnownModel {
    std::mutex making;
    std::shared_ptr<const Model> model;
  };
  std::shared_ptr<KnownModel> known_model(const Key& key);
  void make_room();
  Result<std::unique_ptr<Oracle>> take_oracle(const BoundTask& task, const Key& key);
  /// Null: it is broken.
  void give_back(const Key& key, std::unique_ptr<Oracle> oracle);

  const Seed secret_ = Seed::from_system();
  ZygotePool zygotes_;
  const bool uses_gpu_;
  const CancelToken cancel_;
  const int most_busy_;  ///< oracles of one key
  const std::size_t most_oracles_;
  std::mutex mutex_;
  std::condition_variable oracle_free_;
  std::vector<std::pair<Key, std::shared_ptr<KnownModel>>> models_;  ///< the longest unused first
  std::vector<std::pair<Key, std::unique_ptr<Oracle>>> idle_;        ///< the same
  std::map<Key, int> busy_;
};

/// The reference of a task with a PyTorch module. There is no analysis of errors: an element may be
/// off by some roundings of itself, more of them the longer sums may be, by a few of the largest
/// element, by eight times what the module itself, in its own precision, is off by at most, by what
/// sixteen roundings of the inputs change, up to a sixteenth of the largest element, and by what
/// the roundings that the module asks for move. `room` must outlive it.
std::unique_ptr<Reference> make_process_reference(ReferenceRoom& room);

}  // namespace lathe::host

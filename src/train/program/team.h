#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/process.h"
#include "train/links.h"

namespace lathe::train {

/// The processes of a run, one for each device. The first starts the others: this program again
/// with the same arguments and `--rank R`, in groups of their own, which Ctrl-C does not reach.
/// They print nothing, and end with the first, however it ends.
class Team {
 public:
  /// In the process of rank `rank`, which for all but the first is what the first gave it.
  /// `arguments`: of this program, its name included.
  static Result<std::unique_ptr<Team>> gather(int size, int rank, const std::vector<std::string>& arguments);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  const Links& links() const { return links_; }
  bool is_first() const { return links_.rank() == 0; }

  /// In the first: `error`, or if it is that another process ended, how and with what words.
  Error explained(const Error& error) const;
  /// The run is done: the first lets the others end, and they wait for that.
  void part();

 private:
  struct Member {
    Process process;
    UniqueFd end;   ///< readable once it has ended
    UniqueFd said;  ///< its standard error
  };

  Team() = default;
  static Result<Member> start(const std::vector<std::string>& words, const UniqueFd& link);
  static Result<Links> join(int size, int rank);
  /// The first member that ended within the time.
  const Member* ended(int milliseconds) const;
  Error fate_of(const Member& member) const;
  /// Ends this process if another has ended and this one does not notice: libraries of GPUs wait
  /// for ever for who never came.
  void watch() const;
  void stop_watching();

  Links links_;
  std::vector<Member> members_;
  UniqueFd stop_;  ///< an event: nobody watches any more
  std::thread watcher_;
};

}  // namespace lathe::train

#pragma once

#include <array>
#include <memory>
#include <vector>

#include "backend/cpu/protocol.h"
#include "backend/cpu/runner/loaded_image.h"
#include "backend/vendor_library.h"
#include "sandbox/channel.h"
#include "sandbox/jail.h"

namespace lathe {

/// A runner that has loaded one candidate's code and one workload's memory. It never runs the
/// candidate's code itself: every block runs in a fork that is locked down before the first call
/// and killed after the last, so nothing that a candidate does outlives its block.
class Zygote {
 public:
  /// `vendor` may be null when no step is a library node.
  static Result<Zygote> load(protocol::Load load, std::vector<UniqueFd> fds, const LockDown& lock_down,
                             const VendorLibrary* vendor);

  /// Serves blocks until the broker closes the channel.
  void serve(const Channel& channel);

 private:
  [[noreturn]] void run_child(const protocol::Block& block);
  Status map_trials(const protocol::Block& block) const;
  void fill_memory(const protocol::Block& block) const;
  Status prepare_library_calls(int threads);
  bool run_block(const Channel& channel, const protocol::Block& block);

  protocol::Load load_;
  const LockDown* lock_down_ = nullptr;
  UniqueFd inputs_fd_, outputs_fd_;
  Mapping control_;
  Mapping inputs_, outputs_;     ///< reserved addresses, at which a block's child maps its own trials
  std::array<Mapping, 3> gaps_;  ///< around them, so that what is a little off is told whose it is
  std::vector<Mapping> scratch_;
  std::shared_ptr<const LoadedImage> image_;
  const VendorLibrary* vendor_ = nullptr;
  std::vector<lathe_vendor_call*> vendor_calls_;  ///< one a step; null for launches
};

}  // namespace lathe

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/fd.h"
#include "base/process.h"
#include "base/result.h"

namespace lathe::serve {

/// Two network namespaces with a cable between them. The thread that makes it is in the near one
/// until its end, and so is what it starts.
class TwoNetworks {
 public:
  static constexpr const char* kNear = "10.77.0.1";
  static constexpr const char* kFar = "10.77.0.2";

  /// Errors: kUnavailable, with the reason, where this is not permitted or iproute2 is not there.
  static Result<std::unique_ptr<TwoNetworks>> make();
  ~TwoNetworks();

  /// In the other namespace; what it starts stays there.
  void in_far(const std::function<void()>& act) const;
  /// What is sent is lost both ways, and nobody is told.
  Status cut();
  Status mend();
  /// Packets take their time, and some are lost. Errors: kUnavailable where the kernel has no
  /// netem.
  Status delay(const std::string& netem);

 private:
  TwoNetworks() = default;
  Status connect();
  Status run(bool far, const std::string& command) const;

  UniqueFd before_, near_, far_;
  std::optional<Process> far_holder_;
  std::string near_hardware_, far_hardware_;
};

}  // namespace lathe::serve

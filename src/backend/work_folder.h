#pragma once

#include <string>

#include "base/fd.h"

namespace lathe {

/// A folder "<parent>/work-XXXXXX" for temporary files. It goes with its owner; one whose process was killed
/// goes when the next is made, which tells by the lock that a living owner holds.
class WorkFolder {
 public:
  WorkFolder() = default;
  static Result<WorkFolder> make(const std::string& parent);
  WorkFolder(WorkFolder&&) = default;
  WorkFolder& operator=(WorkFolder&&) = default;
  ~WorkFolder();

  const std::string& path() const { return path_; }

 private:
  UniqueFd lock_;
  std::string path_;
};

}  // namespace lathe

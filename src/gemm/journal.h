#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gemm/device.h"

namespace lathe::gemm {

/// What a session of tuning found best for a size, and its cost.
struct Choice {
  Size size;
  std::string kernel;    ///< name_of() its plan; verified
  double kernel_ns = 0;  ///< median of the finals
  std::string lt;        ///< the fastest of cuBLASLt's candidates in the same rounds; empty: not measured
  double lt_ns = 0;
  int tried = 0;  ///< kernels timed
  double seconds = 0;
};

/// One kernel's time at a size, in a screening: what explain reads.
struct Trial {
  Size size;
  std::string kernel;
  double ns = 0;
};

/// The tuner's memory of one track: one file of JSON lines, which grows and is flushed line by
/// line, so that a session that is killed goes on where it was. It may be copied to another machine
/// of the same GPU.
class Journal {
 public:
  /// Reads what is there; a last line that was cut off is dropped. kCorrupt names the line of any
  /// other.
  static Result<Journal> open(const std::string& path);

  const std::vector<Choice>& choices() const { return choices_; }  ///< the last of each size
  const std::vector<Trial>& trials() const { return trials_; }
  const std::string& device() const { return device_; }
  const Track& track() const { return track_; }
  const Choice* choice(const Size& size) const;
  /// Kernels that were wrong, or that were begun and never ended: not tried again.
  bool is_bad(const std::string& kernel) const { return bad_.contains(kernel); }

  /// Errors: the journal belongs to another GPU, or to another layout or accumulator.
  Status begin(const DeviceFacts& device, const Track& track);
  Status add(const Choice& choice);
  Status add(const Trial& trial);
  Status add_bad(const std::string& kernel, const std::string& why);
  /// Written before kernels run first: should the process die of one, this names it. ended() takes
  /// it back.
  Status starting(const std::string& kernel);
  Status ended();

 private:
  explicit Journal(std::string path) : path_(std::move(path)) {}
  Status read(const std::string& text);
  Status write(const std::string& line);
  void keep(const Choice& choice);

  std::string path_, device_, running_;
  Track track_;
  std::vector<Choice> choices_;
  std::map<Size, std::size_t> by_size_;
  std::vector<Trial> trials_;
  std::set<std::string> bad_;
};

}  // namespace lathe::gemm

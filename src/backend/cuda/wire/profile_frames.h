#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

/// Messages of depth `profile`: the broker sends a launcher a ProfileJob instead of a block.
namespace lathe::cuda {

struct ProfileJob {
  enum class Verb : std::uint8_t {
    kProbe,  ///< whether this machine permits counters; needs no Load
    kCount,  ///< counts over one block; accompanied by the cubin of kKeeperKernels
    kLoop    ///< repeats the block between the control page's `go` and `done`
  };
  Verb verb = Verb::kProbe;
  std::uint8_t poison = 0xff;
  double seconds = 0;  ///< kLoop: minimum duration
  std::vector<std::uint32_t> trials = {};
};
std::string encode(const ProfileJob& job);
bool is_profile_job(std::string_view frame);
Result<ProfileJob> decode_profile_job(std::string_view frame);

/// Comes from the candidate's process, so no verdict may depend on it.
struct ProfileAnswer {
  bool ok = false;
  std::string text = {};  ///< on failure: the reason and the remedy
  std::map<std::string, double> counters = {};
};
std::string encode(const ProfileAnswer& answer);
Result<ProfileAnswer> decode_profile_answer(std::string_view frame);

}  // namespace lathe::cuda

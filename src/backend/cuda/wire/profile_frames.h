#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

/// What the broker asks a launcher at depth `profile`, in the place of a block.
namespace lathe::cuda {

struct ProfileJob {
  enum class Verb : std::uint8_t {
    kProbe,  ///< whether this machine lets Lathe count; needs no load
    kCount,  ///< the counters of one block; comes with the cubin of kKeeperKernels
    kLoop    ///< the block again and again between the control page's `go` and `done`
  };
  Verb verb = Verb::kProbe;
  std::uint8_t poison = 0xff;
  double seconds = 0;  ///< kLoop: at least so long
  std::vector<std::uint32_t> trials = {};
};
std::string encode(const ProfileJob& job);
bool is_profile_job(std::string_view frame);
Result<ProfileJob> decode_profile_job(std::string_view frame);

/// From the candidate's process: information, never a judgement.
struct ProfileAnswer {
  bool ok = false;
  std::string text = {};  ///< why not, and what would help
  std::map<std::string, double> counters = {};
};
std::string encode(const ProfileAnswer& answer);
Result<ProfileAnswer> decode_profile_answer(std::string_view frame);

}  // namespace lathe::cuda

#include "gym/profile_stage.h"

#include <algorithm>
#include <cmath>

#include "gym/bottleneck.h"
#include "gym/pair_timer.h"

namespace lathe {
namespace {

constexpr double kBlockNs = 5e5;

/// As many calls as a timed block of a final has: the same caches, the same gaps between launches.
std::vector<int> trials_for(const Workload& workload, double call_ns) {
  const double wanted = std::ceil(kBlockNs / std::max(call_ns, 1.0));
  std::vector<int> trials = trials_of_timed_blocks(workload);
  trials.resize(static_cast<std::size_t>(std::clamp(wanted, 1.0, static_cast<double>(trials.size()))));
  return trials;
}

/// Peaks on paper are out of reach: what Lathe's own copy moved is the roof.
void add_measured_roof(const Result<DevicePeaks>& peaks, std::map<std::string, double>& counters) {
  const auto read = counters.find("dram_read_bytes"), write = counters.find("dram_write_bytes"),
             call = counters.find("call_ns");
  if (!peaks.ok() || peaks->levels.empty() || read == counters.end() || write == counters.end() ||
      call == counters.end() || call->second <= 0)
    return;
  const double bytes_per_second = (read->second + write->second) / (call->second * 1e-9);
  counters["dram_of_measured_peak"] = bytes_per_second / peaks->levels.back().bytes_per_second;
}

}  // namespace

ShapeProfile profile_shape(Backend& backend, const Candidate& candidate, const Artifact& artifact,
                           const BenchShape& shape, double call_ns) {
  ShapeProfile profile;
  profile.shape = shape.name;
  auto session = backend.open(candidate, artifact, shape.timing, {Runner::kFresh});
  if (!session.ok()) {
    profile.notes.push_back(session.error().to_string());
    return profile;
  }
  ProfileRequest request;
  request.trials = trials_for(*shape.timing, call_ns);
  CallProfile counted = (*session)->profile(request);
  add_measured_roof(backend.peaks(), counted.counters);
  profile.counters = std::move(counted.counters);
  profile.notes = std::move(counted.notes);
  profile.bottlenecks = find_bottlenecks(profile.counters);
  return profile;
}

}  // namespace lathe

#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"
#include "gym/evaluator.h"
#include "store/store.h"

namespace lathe {

/// The work that a task requires at one scored shape.
struct ShapeWork {
  std::string shape;
  double flops = 0;     ///< of the textbook algorithm
  double bytes = 0;     ///< every input read once, every output written once
  double floor_ns = 0;  ///< roofline floor from measured peaks; 0 when unknown
};

/// Further inputs of a report.
struct ReportExtras {
  std::string device;
  double seconds = 0;                   ///< wall time of the search
  std::string best_baseline;            ///< the fastest peer
  std::vector<BaselineTime> baselines;  ///< the naive build first
  std::vector<std::string> left_out;    ///< peers that fail on this machine, as TaskBaselines has them
  std::vector<ShapeWork> work;          ///< scored shapes, the headline first
  DevicePeaks peaks;
};

/// Renders one self-contained HTML page without scripts or external resources; everything written
/// by a candidate or a task is escaped. Errors: kInvalid when `extras` name a best baseline that
/// was not timed.
Result<std::string> render_report(const RunRecord& run, const std::vector<Experience>& experiences,
                                  const ReportExtras& extras);

/// For how long the device verified, timed and profiled a run's candidates, those side by side
/// counted each. What preparing the
/// task, compiling and waiting took is not in it, nor what a model wrote.
double device_seconds(const std::vector<Experience>& experiences);

/// The run's best experience: passed, at depth `final` if any is, with the highest lower bound of
/// its speedup over `best_baseline`. nullptr if none passed.
const Experience* best_experience(const std::vector<Experience>& experiences,
                                  const std::string& best_baseline);

/// All that passed, in the order of best_experience(), each candidate once.
std::vector<const Experience*> ranked_experiences(const std::vector<Experience>& experiences,
                                                  const std::string& best_baseline);

}  // namespace lathe

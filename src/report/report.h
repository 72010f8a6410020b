#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"
#include "gym/evaluator.h"
#include "store/store.h"

namespace lathe {

/// What a task asks for at one scored shape.
struct ShapeWork {
  std::string shape;
  double flops = 0;     ///< of the textbook algorithm
  double bytes = 0;     ///< every input read once, every output written once
  double floor_ns = 0;  ///< roofline floor from measured peaks; 0 when unknown
};

/// What a report needs beside the run and its experiences.
struct ReportExtras {
  std::string device;
  double seconds = 0;                   ///< wall time of the search
  std::string best_baseline;            ///< the fastest peer
  std::vector<BaselineTime> baselines;  ///< the naive build first
  std::vector<ShapeWork> work;          ///< scored shapes, the headline first
  DevicePeaks peaks;
};

/// One self-contained HTML page: no script, no external resource; everything that a candidate or a task wrote
/// is escaped. Errors: kInvalid when `extras` name a best baseline that was not timed.
Result<std::string> render_report(const RunRecord& run, const std::vector<Experience>& experiences,
                                  const ReportExtras& extras);

/// The experience that a run is judged by: passed, at depth `final` if any is, with the highest lower bound
/// of its speedup over `best_baseline`. nullptr if none passed.
const Experience* best_experience(const std::vector<Experience>& experiences,
                                  const std::string& best_baseline);

}  // namespace lathe

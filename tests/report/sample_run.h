#pragma once

#include "report/report.h"

namespace lathe {

/// A run as the search leaves it: two shapes, three baselines, 120 evaluations of which a third
/// fails, a lineage with crossovers. Deterministic.
struct SampleRun {
  RunRecord run;
  std::vector<Experience> experiences;
  ReportExtras extras;
};
SampleRun make_sample_run();

}  // namespace lathe

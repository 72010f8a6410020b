#pragma once

#include <functional>

#include "base/cancel.h"
#include "base/events.h"
#include "gemm/journal.h"
#include "gemm/sizes.h"

namespace lathe::gemm {

/// Times of one protocol, in ns; 0 where not measured.
struct ContenderTimes {
  double ours = 0;          ///< the chosen kernel; never a vendor's call
  double dispatched = 0;    ///< what the exported library runs
  double cublas = 0;        ///< the faster of NN and TN
  double lt_heuristic = 0;  ///< the faster of the heuristic's first choices for NN and TN
  double lt_autotuned = 0;  ///< the candidate that was fastest when the kernels were tuned
  double torch = 0;
  double vendor_best() const;  ///< the least of those measured
};

/// One size: a line of results/hgemm/*.csv.
struct Row {
  Size size;
  std::string kernel, fallback;
  ContenderTimes warm, cold;       ///< device time
  ContenderTimes offline, server;  ///< wall clock around a call and its wait: call after call, and with gaps
  double host_ours = 0, host_lt_autotuned = 0;  ///< of offline: until the call returned
  double ratio_low = 0,
         ratio_high = 0;  ///< of lt_autotuned over ours, warm: 95% interval of the paired rounds
  double sm_mhz = 0;
  std::string lt_choice;
  double ours_w = 0, lt_w = 0;  ///< power, of ours and of the autotuned; 0 where not measured
  std::string throttle;         ///< why the clock was lower, of either
};

struct BenchOptions {
  std::vector<Size> sizes;
  int rounds = 11;
  bool cold = true;
  bool all_vendors = true;   ///< without: ours against the autotuned alone
  int wall_calls = 0;        ///< calls on the host's clock, for offline and server each; 0: none
  double gap_us = 10'000;    ///< mean of server's gaps
  double power_seconds = 0;  ///< for which ours and the autotuned run for their power; 0: not measured
  bool same_layout = false;  ///< vendors get our layout alone, and choose anew where they had another
  int verify_repeats = 0;    ///< checks of the kernel after it was timed; 0: none
};

struct BenchReport {
  std::vector<Row> rows;
  double seconds = 0;
  int unknown = 0;  ///< sizes that the journal does not know
};

/// Times the journal's choices against the vendor's, all contenders of a size within the same
/// rounds.
Result<BenchReport> bench(Device& device, const Compile& compile, const Journal& journal,
                          const BenchOptions& options, EventSink& events, const CancelToken& cancel);

/// Results as CSV, and back. Errors name the line.
std::string csv_of(const std::vector<Row>& rows);
Result<std::vector<Row>> rows_of_csv(const std::string& text, const std::string& path);

/// Fills in what bench/torch/gemm.py measured through the exported library: torch and dispatched.
/// Errors name the line.
Status add_torch_times(std::vector<Row>& rows, const std::string& text, const std::string& path);

/// Tables in Markdown: totals, losses first, by family and by work, the distribution of ratios.
std::string summary_of(const std::vector<Row>& rows, int sm_count);

}  // namespace lathe::gemm

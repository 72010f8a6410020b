#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "backend/cuda/broker/disassembler.h"
#include "backend/cuda/broker/health.h"
#include "backend/cuda/broker/naive_grader.h"
#include "backend/host/naive_grader.h"
#include "backend/host/python.h"
#include "backend/installation.h"
#include "backend/vendor_library.h"
#include "cli/console.h"
#include "cli/device_choice.h"
#include "cli/options.h"
#include "cli/verbs.h"
#include "conformance/conformance.h"
#include "sandbox/jail.h"

namespace lathe::cli {
namespace {

struct DoctorOptions {
  CommonOptions common;
  bool conformance = false;
  std::vector<std::string> only;
  bool without_naive = false;
  int repeat = 1;
  std::string folder;  ///< empty: the device's part of tests/conformance
};

/// A further line of `detail`, such as a hint, stands below the first.
void print_check(bool good, const std::string& name, const std::string& detail,
                 const char* otherwise = "MISSING") {
  const std::size_t end = std::min(detail.find('\n'), detail.size());
  print("{:<8} {:<24} {}\n", good ? "ok" : otherwise, name, detail.substr(0, end));
  for (std::size_t begin = end; begin < detail.size();) {
    const std::size_t next = std::min(detail.find('\n', begin + 1), detail.size());
    print("{:<33} {}\n", "", detail.substr(begin + 1, next - begin - 1));
    begin = next;
  }
}

/// A GPU is no part of a healthy machine unless it was asked for: its absence is said, not counted.
bool print_gpu(const DeviceChoice& choice) {
  const bool asked_for = choice.wants_gpu();
  bool healthy = true;
  for (const GpuPart& part : examine_gpu({.device = choice.index})) {
    print_check(part.available, part.name, part.detail, part.needed && asked_for ? "MISSING" : "none");
    healthy = healthy && (part.available || !part.needed);
  }
  return healthy || !asked_for;
}

/// Without one, verdicts lack the instruction mix and the accumulator type, no more.
void print_disassembler() {
  const std::string program = cuda::find_disassembler();
  print_check(!program.empty(), "nvdisasm",
              program.empty() ? "verdicts lack the instruction mix of CUDA kernels" : program, "none");
}

/// Loaded here as a runner loads it: by its own run path, with one thread.
void print_cpu_libraries() {
  ::setenv("OPENBLAS_NUM_THREADS", "1", 1);
  ::setenv("OMP_NUM_THREADS", "1", 1);
  const auto path = find_vendor_library("", "liblathe_vendor.so");
  const auto library = path.ok() ? VendorLibrary::open(*path) : Result<VendorLibrary>(path.error());
  print_check(library.ok(), "OpenBLAS and oneDNN",
              library.ok() ? "the peers of kernels for the processor"
                           : library.error().message +
                                 ": kernels for the processor are measured against the "
                                 "naive build alone, and plans have no `node` steps",
              "none");
}

/// What the device host:cpu needs. Asked in a process of its own, for it takes seconds to import.
void print_python() {
  const auto python = host::find_python("");
  print_check(python.ok(), "Python candidates",
              python.ok() ? "--device host:cpu, " + python->version
                          : python.error().message + "\n" + python.error().hint,
              "none");
}

Result<int> doctor(const DoctorOptions& options) {
  LATHE_TRY(const DeviceChoice choice, parse_device(options.common.device));
  if (choice.kind == DeviceChoice::Kind::kService) return needs_own_device();
  bool healthy = true;
  for (const SandboxFeature& feature : probe_sandbox()) {
    const bool accepted = feature.dispensable && wants_reduced_jail(options.common);
    print_check(feature.available, feature.name, feature.detail, accepted ? "none" : "MISSING");
    healthy = healthy && (feature.available || accepted);
  }
  if (!print_gpu(choice)) return static_cast<int>(kMachine);
  auto backend = open_backend(options.common, nullptr);
  const bool is_gpu = backend.ok() ? (*backend)->device().dialect == Dialect::kCuda : choice.wants_gpu();
  print_check(backend.ok(), is_gpu ? "GPU" : "processor",
              backend.ok() ? (*backend)->device().name : backend.error().to_string());
  if (!backend.ok()) return static_cast<int>(kMachine);
  const DeviceInfo& device = (*backend)->device();
  print_check(true, "cores",
              fmt::format("{}; {}", device.cores,
                          device.quiet_compiles ? "compiles run beside timings"
                                                : "too few to spare: compiles wait while a kernel is timed"));
  const std::string& unshared = (*backend)->lane().unshared();
  print_check(unshared.empty(), "turns on the device",
              unshared.empty() ? "all programs of this user take turns"
                               : "other programs may time on it at the same time: " + unshared,
              "none");
  LATHE_TRY(const DevicePeaks peaks, measure_peaks(**backend));
  if (stop_token().cancelled()) return static_cast<int>(kInterrupted);
  print_check(true, "fp32 peak", fmt::format("{:.1f} GFLOP/s", peaks.flops_per_second * 1e-9));
  if (peaks.tensor_flops_per_second > 0)
    print_check(
        true, "tensor cores",
        fmt::format("{:.0f} TFLOP/s at most, 16-bit operands", peaks.tensor_flops_per_second * 1e-12));
  for (const auto& level : peaks.levels)
    print_check(true, level.name + " bandwidth", fmt::format("{:.1f} GB/s", level.bytes_per_second * 1e-9));
  print_disassembler();
  print_cpu_libraries();
  print_python();
  return static_cast<int>(healthy ? kSuccess : kMachine);
}

void print_case(const ConformanceResult& result, bool with_naive) {
  if (result.skipped)
    return print("skipped  {:<26} needs {} thread{}\n", result.spec.file, result.spec.threads,
                 result.spec.alone ? " alone" : "s");
  std::string more;
  if (result.speedup) more += fmt::format(", {:.2f}x naive build", result.speedup->mid);
  if (result.over_twin > 0) more += fmt::format(", {:.2f}x {}", result.over_twin, result.spec.over);
  if (result.recovery_seconds > 0)
    more += fmt::format(", next kernel after {:.2f} s", result.recovery_seconds);
  if (result.unseen_over_usual > 0)
    more += fmt::format(", {:.2f}x as long on unseen inputs", result.unseen_over_usual);
  print("{:<8} {:<26} {:<12} {:<20} ", result.as_expected ? "ok" : "FAILED", result.spec.file,
        name(result.outcome), result.reason);
  if (with_naive)
    print("naive grader: {:<10}{} ", name(result.naive.kind), result.naive_as_expected ? "" : "(unexpected)");
  print("{:.2f} s{}\n", result.seconds, more);
  if (result.let_pass > 0)
    print("         let pass in {} of {} examinations\n", result.let_pass, result.examined);
  if (!result.as_expected) print_block("         ", result.detail);
  if (with_naive && !result.naive_as_expected)
    print("         the naive grader said {}\n", result.naive.detail);
}

/// A class whose cases were all skipped has neither held nor failed.
void print_class(const ClassTally& tally) {
  const int tried = tally.held + static_cast<int>(tally.missed.size());
  const std::string skipped = tally.skipped > 0 ? fmt::format(", {} skipped", tally.skipped) : "";
  const std::string missed =
      tally.missed.empty() ? "" : fmt::format("; not {}", fmt::join(tally.missed, ", "));
  print("{:<8} {:<28} {:>3} of {} held{}{}\n",
        !tally.missed.empty() ? "FAILED"
        : tried > 0           ? "ok"
                              : "skipped",
        tally.name, tally.held, tried, skipped, missed);
}

/// Shows each case as it ends, for a suite that takes a minute should not be silent.
class CaseSink final : public EventSink {
 public:
  void on_event(const Event& event) override {
    if (event.kind == "conformance.case") print_error("{}\n", event.text);
  }
};

const char* host_suite(Backend& backend) {
  return backend.device().kind == "host:cuda" ? "tests/conformance/host/cuda" : "tests/conformance/host";
}

/// Every exploit must be refused with its reason, every honest kernel accepted, on the user's own
/// machine.
Result<int> conformance(const DoctorOptions& options) {
  LATHE_TRY(auto backend, open_backend(options.common, nullptr));
  std::string folder = options.folder;
  std::unique_ptr<NaiveGrader> grader;
  ConformanceOptions suite;
  const bool on_gpu = backend->device().dialect == Dialect::kCuda;
  const bool on_host = backend->device().tier == "HOST";
  if (on_host) {
    LATHE_TRY(const HostBackendOptions host, host_options(options.common));
    LATHE_TRY(grader, make_naive_host_grader(host));
    suite.grader = grader.get();
  }
  if (on_gpu) {
    LATHE_TRY(const DeviceChoice choice, parse_device(options.common.device));
    LATHE_TRY(grader, make_naive_cuda_grader({.device = choice.index}));
    suite.grader = grader.get();
  }
  if (folder.empty()) {
    LATHE_TRY(folder, find_data_folder(on_gpu    ? "tests/conformance/cuda"
                                       : on_host ? host_suite(*backend)
                                                 : "tests/conformance",
                                       "expected.toml"));
  }
  suite.only = options.only;
  suite.times = options.repeat;
  suite.naive = !options.without_naive;
  suite.cancel = stop_token();
  CaseSink progress;
  LATHE_TRY(const ConformanceReport report, run_conformance(folder, *backend, progress, suite));
  for (const ConformanceResult& result : report.results) print_case(result, suite.naive);
  print("\n");
  for (const ClassTally& tally : report.by_class()) print_class(tally);
  print("\n{} as expected, {} not, {} skipped", report.passed(), report.failed(), report.skipped());
  if (suite.naive) print("; the naive grader was fooled as the table says in {} cases", report.fooled());
  print("\n");
  print("after a crash or a hang the next kernel's first block had run within {:.2f} s\n",
        report.worst_recovery_seconds());
  return static_cast<int>(report.failed() == 0 ? kSuccess : kMachine);
}

}  // namespace

void add_doctor(CLI::App& app, Run& run) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* verb =
      app.add_subcommand("doctor", "Say what works on this machine, and what each missing part costs");
  add_threads(*verb, options->common);
  add_device(*verb, options->common);
  CLI::Option* suite = verb->add_flag("--conformance", options->conformance,
                                      "Try every known exploit and honest kernel on this machine");
  verb->add_option("--only", options->only, "These files of the suite, without suffix")
      ->delimiter(',')
      ->needs(suite);
  verb->add_flag("--without-naive", options->without_naive,
                 "Do not ask the naive grader, which takes most of the time")
      ->needs(suite);
  verb->add_option("--repeat", options->repeat,
                   "Examine each case that must be refused so many times, with other inputs and shapes")
      ->check(CLI::Range(1, 1000))
      ->needs(suite);
  verb->add_option("--folder", options->folder, "Where the conformance suite is")->needs(suite);
  verb->callback([options, &run] {
    run = [options] {
      const auto code = options->conformance ? conformance(*options) : doctor(*options);
      return code.ok() ? *code : fail(code.error());
    };
  });
}

}  // namespace lathe::cli

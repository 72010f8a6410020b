#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <mutex>

#include "backend/cuda/broker/device_log.h"
#include "backend/cuda/broker/disassembler.h"
#include "backend/cuda/broker/sass.h"
#include "backend/cuda/broker/toolchain.h"
#include "backend/installation.h"
#include "backend/object_cache.h"
#include "base/fd.h"
#include "base/output.h"
#include "cli/console.h"
#include "cli/options.h"
#include "cli/verbs.h"
#include "gemm/bench.h"
#include "gemm/cuda/cuda_device.h"
#include "gemm/explain.h"
#include "gemm/export.h"
#include "gemm/tuner.h"
#include "report/gemm_chart.h"

namespace lathe::cli {
namespace {

struct GemmOptions {
  std::string journal = "gemm.jsonl", sizes = "all", out, plot, summary, torch;
  std::string layout = "tn", accumulate = "fp32";
  std::vector<std::string> journals, learned;
  int device = 0, sm_count = 132, ranked = 0;
  gemm::TuneOptions tune;
  gemm::BenchOptions bench;
  bool warm_only = false;
};

/// Lathe's own kernels pass through the same jailed compiler as candidates, and its cache.
class Compiler {
 public:
  static Result<std::shared_ptr<Compiler>> open(const std::string& arch) {
    LATHE_TRY(const std::string runner, find_program("", "lathe-cuda-runner"));
    LATHE_TRY(const std::string headers, device_header_folder());
    LATHE_TRY(const std::string cache, default_cache_folder());
    auto compiler = std::make_shared<Compiler>();
    LATHE_TRY(compiler->toolchain_,
              cuda::Toolchain::create({runner, headers, cache, arch, kBuildTimeoutSeconds}));
    if (auto disassembler = cuda::Disassembler::open(runner, cache); disassembler.ok())
      compiler->disassembler_ = *std::move(disassembler);
    return compiler;
  }

  bool has_disassembler() const { return disassembler_ != nullptr; }
  Result<gemm::Build> build(const std::string& source, gemm::Inspect inspect) {
    LATHE_TRY(const BuildResult built, toolchain_->build(source, stop_token()));
    if (!built.ok)
      return Error{ErrorCode::kInternal, fmt::format("a kernel of Lathe's own does not compile: {} {}",
                                                     built.reason, built.facts.log)};
    gemm::Build result{built.artifact.bytes, built.facts.facts};
    if (!disassembler_ || inspect == gemm::Inspect::kNo) return result;
    LATHE_TRY(const std::string sass, disassembler_->run(result.cubin));
    result.facts.merge(cuda::facts_of_sass(sass));
    return result;
  }
  static gemm::Compile function(std::shared_ptr<Compiler> compiler) {
    return [compiler](const std::string& source, gemm::Inspect inspect) {
      return compiler->build(source, inspect);
    };
  }

 private:
  static constexpr double kBuildTimeoutSeconds = 300;  ///< on a machine that is busy with other kernels

  std::unique_ptr<cuda::Toolchain> toolchain_;
  std::unique_ptr<cuda::Disassembler> disassembler_;
};

class PrintingSink final : public EventSink {
 public:
  void on_event(const Event& event) override {
    if (event.severity == Severity::kWarning || event.severity == Severity::kError)
      print_error("{}\n", event.text);
    else
      print("{}\n", event.text);
  }
};

/// A misspelt path must not pass for a journal without choices.
Result<gemm::Journal> open_tuned(const std::string& path) {
  if (!std::filesystem::exists(path))
    return Error{ErrorCode::kNotFound, "there is no " + path, "run lathe gemm tune first"};
  return gemm::Journal::open(path);
}

Result<int> tune(const GemmOptions& given) {
  gemm::TuneOptions options = given.tune;
  LATHE_TRY(options.sizes, gemm::parse_sizes(given.sizes));
  gemm::layout_of(given.layout, options.track.layout);
  options.track.half_sums = given.accumulate == "fp16";
  for (const std::string& path : given.learned) {
    LATHE_TRY(const gemm::Journal learned, open_tuned(path));
    std::ranges::copy(learned.choices(), std::back_inserter(options.learned));
  }
  LATHE_TRY(gemm::Journal journal, gemm::Journal::open(given.journal));
  LATHE_TRY(const auto compiler, Compiler::open("sm_90a"));
  if (!compiler->has_disassembler())
    print_error("no nvdisasm: machine code is not inspected; the accumulators' test still runs\n");
  const gemm::Compile compile = Compiler::function(compiler);
  LATHE_TRY(const auto device, gemm::open_cuda_device(given.device, compile));
  PrintingSink sink;
  gemm::Tuner tuner(*device, compile, journal, sink);
  LATHE_TRY(const gemm::TuneReport report, tuner.run(options, stop_token()));
  print("{} sizes tuned, {} known before; {} kernels built, {} refused\n", report.tuned, report.known,
        report.kernels_built, report.kernels_refused);
  print("{:.1f} s: {:.1f} waiting for the compiler, {:.1f} verifying, the rest measuring\n", report.seconds,
        report.waited_seconds, report.verified_seconds);
  return static_cast<int>(stop_token().cancelled() ? kInterrupted : kSuccess);
}

Result<gemm::Sensors> open_sensors(const std::string& bus) {
  LATHE_TRY(const auto nvml, cuda::Nvml::open(bus));
  return gemm::Sensors([nvml] {
    const cuda::DeviceReading now = nvml.read();
    gemm::Draw draw{now.power_w, {}};
    for (const std::string& reason : cuda::reasons_of(now.throttle))
      draw.throttle += (draw.throttle.empty() ? "" : "+") + reason;
    return draw;
  });
}

Result<int> bench(const GemmOptions& given) {
  gemm::BenchOptions options = given.bench;
  options.cold = !given.warm_only;
  LATHE_TRY(options.sizes, gemm::parse_sizes(given.sizes));
  LATHE_TRY(const gemm::Journal journal, open_tuned(given.journal));
  for (const std::string& path : {given.out, given.plot, given.summary})
    if (!path.empty()) LATHE_CHECK_OK(check_output(path));
  std::string torch;
  if (!given.torch.empty()) {
    LATHE_TRY(torch, read_file(given.torch));
  }
  LATHE_TRY(const auto compiler, Compiler::open("sm_90a"));
  const gemm::Compile compile = Compiler::function(compiler);
  LATHE_TRY(const auto device, gemm::open_cuda_device(given.device, compile, open_sensors));
  PrintingSink sink;
  LATHE_TRY(gemm::BenchReport report, gemm::bench(*device, compile, journal, options, sink, stop_token()));
  if (report.rows.empty())
    return Error{ErrorCode::kNotFound, "the journal knows none of these sizes", "run lathe gemm tune first"};
  if (!given.torch.empty()) LATHE_CHECK_OK(gemm::add_torch_times(report.rows, torch, given.torch));
  if (!given.out.empty()) LATHE_CHECK_OK(write_output(given.out, gemm::csv_of(report.rows)));
  if (!given.plot.empty()) LATHE_CHECK_OK(write_output(given.plot, gemm_heat_map(report.rows)));
  const std::string summary = gemm::summary_of(report.rows, device->facts().sm_count);
  if (!given.summary.empty()) LATHE_CHECK_OK(write_output(given.summary, summary));
  print_block("", summary);
  print("{} sizes in {:.1f} s; {} that the journal does not know\n", report.rows.size(), report.seconds,
        report.unknown);
  return static_cast<int>(stop_token().cancelled() ? kInterrupted : kSuccess);
}

Result<int> export_gemm(const GemmOptions& given) {
  std::vector<gemm::Journal> journals;
  for (const std::string& path : given.journals) {
    LATHE_TRY(gemm::Journal journal, open_tuned(path));
    journals.push_back(std::move(journal));
  }
  LATHE_TRY(const auto sm90, Compiler::open("sm_90a"));
  LATHE_TRY(const auto sm80, Compiler::open("sm_80"));
  if (!sm90->has_disassembler())
    print_error("no nvdisasm: the types of sums are not read from the machine code, spills are seen\n");
  LATHE_TRY(const gemm::ExportReport report,
            gemm::export_library(journals, {Compiler::function(sm90), Compiler::function(sm80)}, given.out));
  print("{}/lib/liblathe_gemm.so: {} kernels, {} tuned sizes, {:.1f} MB of machine code\n", given.out,
        report.kernels, report.tuned_sizes, static_cast<double>(report.cubin_bytes) * 1e-6);
  return static_cast<int>(kSuccess);
}

Result<int> explain_gemm(const GemmOptions& given) {
  LATHE_TRY(const gemm::Journal journal, open_tuned(given.journal));
  if (given.ranked > 0)
    print_block("", gemm::ranking(journal, given.sm_count, static_cast<std::size_t>(given.ranked)));
  else
    print_block("", gemm::explain(journal, given.sm_count));
  return static_cast<int>(kSuccess);
}

using GemmAction = Result<int> (*)(const GemmOptions&);

void set_action(CLI::App& verb, const std::shared_ptr<GemmOptions>& options, Run& run, GemmAction action) {
  verb.callback([options, &run, action] {
    run = [options, action] {
      const auto code = action(*options);
      return code.ok() ? *code : fail(code.error());
    };
  });
}

void add_journal(CLI::App& verb, GemmOptions& options) {
  verb.add_option("--journal", options.journal, "The tuner's file (default: gemm.jsonl)");
}

void add_sizes(CLI::App& verb, GemmOptions& options) {
  verb.add_option("--sizes", options.sizes,
                  "all, slice, even:100, or \"64x64x8192,...\" as M x N x K (default: all 1000)");
  verb.add_option("--gpu", options.device, "The GPU's number among the visible ones (default: 0)")
      ->check(zero_or_more());
}

}  // namespace

void add_gemm(CLI::App& app, Run& run) {
  CLI::App* const verb = app.add_subcommand(kGemm.name, kGemm.about);
  verb->require_subcommand(1);
  {
    auto options = std::make_shared<GemmOptions>();
    CLI::App* const tune_verb = verb->add_subcommand("tune", "Find the fastest verified kernel of each size");
    add_sizes(*tune_verb, *options);
    add_journal(*tune_verb, *options);
    tune_verb->add_option("--layout", options->layout, "How A and B lie: nn, tn, nt or tt (default: tn)")
        ->check(CLI::IsMember({"nn", "tn", "nt", "tt"}));
    tune_verb
        ->add_option("--accumulate", options->accumulate, "Sums: fp32, or fp16 if it will do (default: fp32)")
        ->check(CLI::IsMember({"fp32", "fp16"}));
    tune_verb->add_option("--seconds", options->tune.seconds, "Begin no size after that (default: no limit)")
        ->check(above_zero());
    tune_verb->add_option("--screened", options->tune.screened, "Kernels that the model proposes for a size")
        ->check(one_or_more());
    tune_verb->add_option("--learn-from", options->learned,
                          "Journals, of this GPU or others, whose choices at similar sizes are tried too");
    tune_verb
        ->add_option("--winners", options->tune.winners,
                     "Kernels tried that won at similar sizes (default: 8)")
        ->check(zero_or_more());
    tune_verb->add_option("--neighbours", options->tune.neighbours, "Kernels tried near the best of those")
        ->check(zero_or_more());
    tune_verb->add_option("--repeats", options->tune.repeats, "Runs of a winner whose bits must agree")
        ->check(one_or_more());
    set_action(*tune_verb, options, run, tune);
  }
  {
    auto options = std::make_shared<GemmOptions>();
    CLI::App* const bench_verb =
        verb->add_subcommand("bench", "Time the chosen kernels against cuBLAS and cuBLASLt");
    add_sizes(*bench_verb, *options);
    add_journal(*bench_verb, *options);
    bench_verb
        ->add_option("--rounds", options->bench.rounds, "Rounds in which all contenders of a size take turns")
        ->check(one_or_more());
    bench_verb->add_flag("--warm-only", options->warm_only, "Leave out the runs with cold caches");
    bench_verb->add_flag("!--autotuned-only", options->bench.all_vendors,
                         "Ours against cuBLASLt autotuned alone");
    bench_verb
        ->add_option("--wall", options->bench.wall_calls,
                     "Time so many calls on the host's clock too, each waited for, with and without gaps")
        ->check(one_or_more());
    bench_verb
        ->add_option("--gap-us", options->bench.gap_us, "Mean of the gaps between calls (default: 10000)")
        ->check(number(0, 1e9));
    bench_verb
        ->add_option(
            "--power", options->bench.power_seconds,
            "Run ours and the autotuned so many seconds each for their power, and say what throttled")
        ->check(above_zero());
    bench_verb->add_flag("--same-layout", options->bench.same_layout,
                         "Let the libraries read B as ours does, and no other way");
    bench_verb
        ->add_option("--verify", options->bench.verify_repeats,
                     "Check each kernel again after it was timed, with so many runs")
        ->check(zero_or_more());
    bench_verb->add_option("--torch", options->torch,
                           "Times of torch.matmul to include, as bench/torch/gemm.py writes");
    bench_verb->add_option("--out", options->out, "A CSV file");
    bench_verb->add_option("--plot", options->plot, "A heat map, as SVG");
    bench_verb->add_option("--summary", options->summary, "The tables, as Markdown");
    set_action(*bench_verb, options, run, bench);
    bench_verb->parse_complete_callback([options] {
      check_outputs_differ(std::array<NamedOutput, 3>{
          {{"--out", options->out}, {"--plot", options->plot}, {"--summary", options->summary}}});
    });
  }
  {
    auto options = std::make_shared<GemmOptions>();
    CLI::App* const export_verb =
        verb->add_subcommand("export", "Write liblathe_gemm.so with its header and CMake package");
    options->journals = {options->journal};
    export_verb->add_option("--journal", options->journals,
                            "The tuner's files, one a layout and accumulator (default: gemm.jsonl)");
    export_verb->add_option("--out", options->out, "The package's folder")->required();
    set_action(*export_verb, options, run, export_gemm);
  }
  {
    auto options = std::make_shared<GemmOptions>();
    CLI::App* const explain_verb =
        verb->add_subcommand("explain", "Say what the search found, from the journal");
    add_journal(*explain_verb, *options);
    explain_verb
        ->add_option("--sm-count", options->sm_count,
                     "Multiprocessors of the GPU that was tuned (default: 132)")
        ->check(one_or_more());
    explain_verb
        ->add_option("--ranked", options->ranked,
                     "Print instead so many kernels of each size in the model's order, as CSV")
        ->check(one_or_more());
    set_action(*explain_verb, options, run, explain_gemm);
  }
}

}  // namespace lathe::cli

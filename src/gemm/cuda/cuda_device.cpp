#include "gemm/cuda/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>

#include "base/clock.h"
#include "base/random.h"
#include "base/statistics.h"
#include "gemm/cuda/api.h"
#include "gemm/cuda/check_kernels.h"
#include "gemm/cuda/vendor.h"
#include "gemm/runtime/launch.h"

namespace lathe::gemm {
namespace {

constexpr unsigned short kPoison = 0x7e5a;  // a NaN
constexpr std::int64_t kGuard = 4096;       // halves before and behind C
constexpr int kMaxCalls = 400;
constexpr std::size_t kTrafficBytes = std::size_t{64} << 20;  // of a copy beside a checked run
constexpr int kCaptureThisThread = 1;

/// Device memory that grows on demand; its contents do not survive that.
class Buffer {
 public:
  explicit Buffer(const MeasuringDriver& driver) : driver_(driver) {}
  ~Buffer() { release(); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  Status reserve(std::size_t bytes) {
    if (bytes <= bytes_) return Ok{};
    release();
    LATHE_CHECK_OK(check(driver_.allocate(&at_, bytes), "allocating device memory"));
    bytes_ = bytes;
    return Ok{};
  }
  DevicePointer at() const { return at_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void release() {
    if (at_ != 0) driver_.release(at_);
    at_ = 0, bytes_ = 0;
  }
  const MeasuringDriver& driver_;
  DevicePointer at_ = 0;
  std::size_t bytes_ = 0;
};

/// Calls recorded as a graph.
class Recording {
 public:
  Recording(const MeasuringDriver& driver, GraphExec graph, int calls)
      : driver_(&driver), graph_(graph), calls_(calls) {}
  ~Recording() {
    if (graph_) driver_->graph_exec_destroy(graph_);
  }
  Recording(Recording&& other) noexcept
      : driver_(other.driver_), graph_(std::exchange(other.graph_, nullptr)), calls_(other.calls_) {}
  Recording& operator=(Recording&&) = delete;
  GraphExec graph() const { return graph_; }
  int calls() const { return calls_; }

 private:
  const MeasuringDriver* driver_;
  GraphExec graph_;
  int calls_;
};

/// Where the operands of a product lie, and how far apart.
struct Strides {
  std::int64_t a_row, a_k, b_column, b_k;
};
Strides strides_of(const Call& call, Layout layout) {
  return {a_along_k(layout) ? call.lda : 1, a_along_k(layout) ? 1 : call.lda,
          b_along_k(layout) ? call.ldb : 1, b_along_k(layout) ? 1 : call.ldb};
}

void set_leads(Call& call, Layout layout, int pad) {
  call.lda = (a_along_k(layout) ? call.k : call.m) + pad;
  call.ldb = (b_along_k(layout) ? call.k : call.n) + pad;
}

/// One check of a kernel's results.
struct Check {
  const char* name;
  int fill;
  bool exact;
  float alpha, beta;
  int pad;     ///< elements between the rows of A and B
  int pad_c;   ///< of C
  int offset;  ///< elements by which each matrix is off its alignment
};

enum Fill { kUniform, kWhole, kAccumulators, kOneHot, kOnes };
/// How near to the fp64 product an element must be.
enum Tolerance { kFp32Sums = 0, kExact = 1, kFp16Sums = 2 };

class CudaDevice final : public Device {
 public:
  CudaDevice(const MeasuringDriver& driver, Stream stream, DeviceFacts facts, std::size_t l2_bytes,
             Result<Sensors> sensors)
      : driver_(driver),
        stream_(stream),
        facts_(std::move(facts)),
        l2_bytes_(l2_bytes),
        sensors_(std::move(sensors)),
        operands_(driver),
        traffic_(driver),
        before_(driver),
        small_(driver),
        workspace_(driver),
        vendor_workspace_(driver) {}

  Status start(const Compile& compile) {
    LATHE_TRY(const Build build, compile(kCheckKernels, Inspect::kNo));
    Module module = nullptr;
    LATHE_CHECK_OK(check(driver()->module_load(&module, build.cubin.data()), "loading the checks"));
    for (const auto& [function, name] : {std::pair{&fill_, "fill"},
                                         {&compare_, "compare"},
                                         {&guards_, "guards"},
                                         {&checksum_, "checksum"},
                                         {&clocks_, "clocks"}})
      LATHE_CHECK_OK(check(driver()->module_function(function, module, name), name));
    for (Event* event : {&begin_, &end_})
      LATHE_CHECK_OK(check(driver_.event_create(event, 0), "creating an event"));
    LATHE_CHECK_OK(check(driver_.stream_create(&traffic_stream_, 1), "making a stream"));
    LATHE_CHECK_OK(small_.reserve(1 << 16));
    LATHE_CHECK_OK(workspace_.reserve(kWorkspaceBytes));
    LATHE_CHECK_OK(clear_counters());
    LATHE_CHECK_OK(vendor_workspace_.reserve(VendorLibraries::kWorkspaceBytes));
    auto vendors = VendorLibraries::open(vendor_workspace_.at());
    if (vendors.ok()) vendors_ = *std::move(vendors);
    return Ok{};
  }

  const DeviceFacts& facts() const override { return facts_; }

  Result<Contender> add_kernel(const Plan& plan, std::string_view cubin) override {
    Kernel kernel;
    const std::string name = name_of(plan);
    LATHE_CHECK_OK(check(load(plan, cubin.data(), kernel), name.c_str()));
    kernels_.push_back(kernel);
    return static_cast<Contender>(kernels_.size() - 1);
  }

  Result<std::vector<VendorContender>> add_vendors(const Size& size, const Track& track) override {
    if (!vendors_)
      return Error{ErrorCode::kUnavailable, "cuBLAS is not installed",
                   "install the CUDA toolkit's libraries"};
    LATHE_TRY(vendor_calls_, vendors_->calls(static_cast<int>(size.m), static_cast<int>(size.n),
                                             static_cast<int>(size.k), track));
    std::vector<VendorContender> added;
    for (std::size_t i = 0; i < vendor_calls_.size(); ++i)
      added.push_back({-1 - static_cast<Contender>(i), vendor_calls_[i]->name()});
    return added;
  }
  void drop_vendors() override { vendor_calls_.clear(); }

  Result<std::vector<RoundTimes>> time(const Size& size, std::span<const Contender> contenders,
                                       const TimeOptions& options) override {
    LATHE_CHECK_OK(prepare(size, options.cold));
    std::vector<Recording> recordings;
    for (const Contender contender : contenders) {
      LATHE_TRY(const double probe_ns, probe(contender));
      const int calls = std::clamp(static_cast<int>(options.block_us * 1e3 / std::max(probe_ns, 1.0)),
                                   options.least_calls, std::max(options.least_calls, kMaxCalls));
      LATHE_TRY(Recording recording, record(contender, calls));
      recordings.push_back(std::move(recording));
    }
    std::vector<RoundTimes> times(contenders.size());
    std::vector<std::size_t> order(contenders.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (int round = -1; round < options.rounds; ++round) {
      rng_.shuffle(order);
      for (const std::size_t at : order) {
        LATHE_TRY(const double ns, run(recordings[at]));
        if (round >= 0) times[at].push_back(ns);
      }
    }
    return times;
  }

  Result<std::vector<CallTimes>> time_calls(const Size& size, std::span<const Contender> contenders,
                                            const CallOptions& options) override {
    constexpr int kBlocks = 5;
    LATHE_CHECK_OK(prepare(size, false));
    std::vector<CallTimes> times(contenders.size());
    std::vector<std::size_t> order(contenders.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (int block = 0; block < kBlocks; ++block) {
      rng_.shuffle(order);
      const int calls = options.calls * (block + 1) / kBlocks - options.calls * block / kBlocks;
      for (const std::size_t at : order) {
        // The first one of a block finds what its predecessor left.
        LATHE_CHECK_OK(call_and_wait(contenders[at], nullptr));
        for (int i = 0; i < calls; ++i) {
          sleep_about(options.gap_us);
          LATHE_CHECK_OK(call_and_wait(contenders[at], &times[at]));
        }
      }
    }
    return times;
  }

  Status verify(const Size& size, Contender contender, int repeats) override {
    const Kernel& kernel = kernels_.at(static_cast<std::size_t>(contender));
    const bool any = kernel.plan.edges == Edges::kAny;
    // Stores that go through no tensor map take any rows of C.
    const int odd = kernel.plan.skeleton == Skeleton::kWgmma && maps_c(kernel.plan) ? 8 : 1;
    const std::array<Check, 8> checks = {
        {{"whole numbers", kWhole, true, 1, 0, 0, 0, 0},
         {"accumulators", kAccumulators, true, 1, 0, 8, 8, 0},
         {"one-hot rows", kOneHot, true, 1, 0, any ? 1 : 16, any ? 1 : 16, 0},
         {"random numbers", kUniform, false, 1, 0, any ? 3 : 8, any ? 3 : 8, any ? 1 : 0},
         {"alpha and beta", kUniform, false, -1.5f, 0.75f, 8, odd, 0},
         {"alpha and beta of whole numbers", kWhole, true, 2, -1, any ? 2 : 0, any ? 2 : 0, any ? 3 : 0},
         {"rows aligned to four bytes", kWhole, true, 1, 0, any ? 2 : 8, odd, 0},
         {"rows aligned to eight bytes", kUniform, false, 1, 0, any ? 4 : 8, 8, 0}}};
    for (Check one : checks) {
      if (kernel.plan.half_sums) {
        if (one.fill == kAccumulators) continue;
        if (one.fill == kWhole) one.fill = kOnes;  // whose sums fp16 has exactly
      }
      LATHE_CHECK_OK(verify_one(size, kernel, one));
    }
    return repeat(size, kernel, repeats);
  }

  Result<Draw> draw(const Size& size, Contender contender, double seconds) override {
    constexpr double kBlockNs = 5e6;
    if (!sensors_.ok()) return sensors_.error();
    LATHE_CHECK_OK(prepare(size, false));
    LATHE_TRY(const double probe_ns, probe(contender));
    const int calls = std::clamp(static_cast<int>(kBlockNs / std::max(probe_ns, 1.0)), 1, kMaxCalls);
    LATHE_TRY(const Recording recording, record(contender, calls));
    std::vector<double> watts;
    Draw draw;
    const auto begin_ns = steady_clock().now_ns();
    for (double spent = 0; spent < seconds || watts.empty(); spent = seconds_since(begin_ns)) {
      LATHE_TRY([[maybe_unused]] const double ns, run(recording));
      if (spent < seconds / 2) continue;
      const Draw now = (*sensors_)();
      if (now.watts > 0) watts.push_back(now.watts);
      if (!now.throttle.empty()) draw.throttle = now.throttle;
      if (spent > 2 * seconds) break;
    }
    if (watts.empty()) return Error{ErrorCode::kUnavailable, "the GPU does not report its power"};
    draw.watts = median(watts);
    return draw;
  }

  Result<double> clock_mhz() override {
    DevicePointer result = small_.at();
    void* arguments[] = {&result};
    LATHE_CHECK_OK(launch_check(clocks_, 1, 1, 1, arguments));
    std::array<std::int64_t, 2> clocks{};
    LATHE_CHECK_OK(read_back(clocks.data(), result, sizeof clocks, "reading clocks"));
    return mhz_of(clocks[0], clocks[1]);
  }

 private:
  /// The stream does not wait for copies, nor these for it.
  Status read_back(void* to, DevicePointer from, std::size_t bytes, const char* what) {
    LATHE_CHECK_OK(check(driver_.stream_synchronize(stream_), what));
    return check(driver_.copy_to_host(to, from, bytes), what);
  }

  Status launch_check(Function function, unsigned x, unsigned y, unsigned threads, void** arguments) {
    LaunchConfig config;
    config.grid[0] = x, config.grid[1] = y, config.block[0] = threads, config.stream = stream_;
    return check(driver()->launch(&config, function, arguments, nullptr), "launching a check");
  }

  Status fill(DevicePointer to, std::int64_t extent, std::int64_t k, std::int64_t step_x, std::int64_t step_y,
              int what, int is_b, unsigned seed) {
    if (extent * k == 0) return Ok{};
    void* arguments[] = {&to, &extent, &k, &step_x, &step_y, &what, &is_b, &seed};
    return launch_check(fill_, static_cast<unsigned>(std::min<std::int64_t>(2048, (extent * k + 255) / 256)),
                        1, 256, arguments);
  }

  /// Sets of packed operands for timing: random numbers, the same for all. Warm: one set.
  Status prepare(const Size& size, bool cold) {
    const std::int64_t elements = size.m * size.k + size.k * size.n + size.m * size.n;
    const auto set_bytes = static_cast<std::size_t>((2 * elements + 3 * 512) / 256 * 256);
    const std::size_t sets = cold ? std::clamp<std::size_t>(2 * l2_bytes_ / set_bytes + 2, 2, 400) : 1;
    if (prepared_ == size && sets_.size() >= sets) {
      sets_.resize(sets);
      return Ok{};
    }
    prepared_ = {};
    LATHE_CHECK_OK(operands_.reserve(sets * set_bytes));
    sets_.assign(sets, {});
    for (std::size_t i = 0; i < sets; ++i) {
      Call& call = sets_[i];
      call.m = static_cast<int>(size.m), call.n = static_cast<int>(size.n), call.k = static_cast<int>(size.k);
      call.a = operands_.at() + i * set_bytes;
      call.b = (call.a + 2 * static_cast<DevicePointer>(size.m * size.k) + 255) / 256 * 256;
      call.c = (call.b + 2 * static_cast<DevicePointer>(size.k * size.n) + 255) / 256 * 256;
      call.ldc = size.n;
      call.workspace = workspace_.at();
      const auto seed = static_cast<unsigned>(2 * i + 1);
      LATHE_CHECK_OK(fill(call.a, size.m, size.k, size.k, 1, kUniform, 0, seed));
      LATHE_CHECK_OK(fill(call.b, size.n, size.k, size.k, 1, kUniform, 1, seed));
    }
    prepared_ = size;
    return Ok{};
  }

  Status enqueue(Contender contender, Call call) {
    if (contender >= 0) {
      const Kernel& kernel = kernels_.at(static_cast<std::size_t>(contender));
      set_leads(call, kernel.plan.layout, 0);
      return check(launch(kernel, call, facts_.sm_count, stream_), "launching a kernel");
    }
    VendorCall& vendor = *vendor_calls_.at(static_cast<std::size_t>(-1 - contender));
    set_leads(call, vendor.layout(), 0);
    if (const int code = vendor.enqueue(call, stream_); code != 0)
      return Error{ErrorCode::kUnavailable, fmt::format("{} failed with code {}", vendor.name(), code)};
    return Ok{};
  }

  Result<Recording> record(Contender contender, int calls) {
    LATHE_CHECK_OK(check(driver_.capture_begin(stream_, kCaptureThisThread), "beginning a capture"));
    Status enqueued = Ok{};
    for (int i = 0; i < calls && enqueued.ok(); ++i)
      enqueued = enqueue(contender, sets_[static_cast<std::size_t>(i) % sets_.size()]);
    Graph graph = nullptr;
    const Status ended = check(driver_.capture_end(stream_, &graph), "ending a capture");
    GraphExec exec = nullptr;
    Status made = enqueued.ok() && ended.ok()
                      ? check(driver_.graph_instantiate(&exec, graph, 0), "making a graph")
                      : Ok{};
    if (graph) driver_.graph_destroy(graph);
    LATHE_CHECK_OK(enqueued);
    LATHE_CHECK_OK(ended);
    LATHE_CHECK_OK(made);
    Recording recording(driver_, exec, calls);
    LATHE_CHECK_OK(check(driver_.graph_upload(exec, stream_), "uploading a graph"));
    return recording;
  }

  /// ns a call.
  Result<double> run(const Recording& recording) {
    LATHE_CHECK_OK(check(driver_.event_record(begin_, stream_), "timing"));
    LATHE_CHECK_OK(check(driver_.graph_launch(recording.graph(), stream_), "launching a graph"));
    return elapsed_ns(recording.calls());
  }
  Result<double> elapsed_ns(int calls) {
    LATHE_CHECK_OK(check(driver_.event_record(end_, stream_), "timing"));
    LATHE_CHECK_OK(check(driver_.stream_synchronize(stream_), "running a kernel"));
    float ms = 0;
    LATHE_CHECK_OK(check(driver_.event_elapsed_ms(&ms, begin_, end_), "timing"));
    return static_cast<double>(ms) * 1e6 / calls;
  }
  Status call_and_wait(Contender contender, CallTimes* times) {
    const auto begin_ns = steady_clock().now_ns();
    LATHE_CHECK_OK(enqueue(contender, sets_[0]));
    const auto returned_ns = steady_clock().now_ns();
    LATHE_CHECK_OK(check(driver_.stream_synchronize(stream_), "running a kernel"));
    if (times == nullptr) return Ok{};
    times->ns.push_back(static_cast<double>(steady_clock().now_ns() - begin_ns));
    times->host_ns.push_back(static_cast<double>(returned_ns - begin_ns));
    return Ok{};
  }
  /// An exponential time of this mean, and no longer than five of them.
  void sleep_about(double mean_us) {
    if (mean_us <= 0) return;
    const double us = std::min(5.0, -std::log(1 - rng_.uniform())) * mean_us;
    std::this_thread::sleep_for(std::chrono::microseconds(static_cast<std::int64_t>(us)));
  }
  /// A first, rough time: the first call, or three more of a short one.
  Result<double> probe(Contender contender) {
    constexpr double kLongNs = 2e5;
    LATHE_CHECK_OK(check(driver_.event_record(begin_, stream_), "timing"));
    LATHE_CHECK_OK(enqueue(contender, sets_[0]));
    LATHE_TRY(const double first_ns, elapsed_ns(1));
    if (first_ns > kLongNs) return first_ns;
    LATHE_CHECK_OK(check(driver_.event_record(begin_, stream_), "timing"));
    for (int i = 0; i < 3; ++i) LATHE_CHECK_OK(enqueue(contender, sets_[0]));
    return elapsed_ns(3);
  }

  Result<Call> lay_out(const Size& size, Layout layout, int pad, int pad_c, int offset) {
    Call call;
    call.m = static_cast<int>(size.m), call.n = static_cast<int>(size.n), call.k = static_cast<int>(size.k);
    set_leads(call, layout, pad);
    call.ldc = size.n + pad_c;
    call.workspace = workspace_.at();
    const auto bytes = [&](std::int64_t rows, std::int64_t lead) {
      return static_cast<DevicePointer>((2 * (rows * lead + offset) + 511) / 256 * 256);
    };
    const DevicePointer a = bytes(a_along_k(layout) ? size.m : size.k, call.lda);
    const DevicePointer b = bytes(b_along_k(layout) ? size.n : size.k, call.ldb);
    prepared_ = {};
    LATHE_CHECK_OK(operands_.reserve(a + b + bytes(size.m, call.ldc) + 4 * kGuard + 1024));
    const auto shift = static_cast<DevicePointer>(2 * offset);
    call.a = operands_.at() + shift;
    call.b = operands_.at() + a + shift;
    call.c = operands_.at() + a + b + 2 * kGuard + shift;
    return call;
  }

  Status fill_operands(const Call& call, Layout layout, int what, unsigned seed) {
    const Strides s = strides_of(call, layout);
    LATHE_CHECK_OK(fill(call.a, call.m, call.k, s.a_row, s.a_k, what, 0, seed));
    return fill(call.b, call.n, call.k, s.b_column, s.b_k, what == kOneHot ? int{kUniform} : what, 1, seed);
  }

  Status verify_one(const Size& size, const Kernel& kernel, const Check& one) {
    const Layout layout = kernel.plan.layout;
    LATHE_TRY(Call call, lay_out(size, layout, one.pad, one.pad_c, one.offset));
    call.alpha = one.alpha, call.beta = one.beta;
    if (!serves(kernel.plan, problem_of(layout, call))) return Ok{};
    LATHE_CHECK_OK(fill_operands(call, layout, one.fill, 77));
    const std::int64_t region = (size.m - 1) * call.ldc + size.n + 2 * kGuard;
    const DevicePointer memory = call.c - 2 * kGuard;
    LATHE_CHECK_OK(
        check(driver_.fill_halves(memory, kPoison, static_cast<std::size_t>(region), stream_), "poisoning"));
    DevicePointer before = call.c;
    if (one.beta != 0) {
      LATHE_CHECK_OK(before_.reserve(static_cast<std::size_t>(2 * size.m * call.ldc)));
      before = before_.at();
      for (const DevicePointer to : {before, call.c})
        LATHE_CHECK_OK(fill(to, size.m, size.n, call.ldc, 1, one.fill, 1, 991));
    }
    LATHE_CHECK_OK(poison_workspace(kernel));
    LATHE_CHECK_OK(check(launch(kernel, call, facts_.sm_count, stream_), "launching a kernel"));
    LATHE_TRY(const std::uint64_t wrong, count_wrong(call, layout, before,
                                                     one.exact               ? kExact
                                                     : kernel.plan.half_sums ? kFp16Sums
                                                                             : kFp32Sums));
    LATHE_TRY(const std::uint64_t touched, count_touched(call, memory, region));
    if (wrong + touched == 0) return Ok{};
    return refused("wrong_result",
                   fmt::format("{} at {}x{}x{}: {}: {} wrong elements, {} writes outside C",
                               name_of(kernel.plan), size.m, size.n, size.k, one.name, wrong, touched));
  }

  /// All rows, or as many as 2^31 terms allow, the first and the last among them.
  std::vector<int> sample_rows(const Call& call) {
    const double terms_of_row = std::max(1.0, static_cast<double>(call.n) * call.k);
    const int count = static_cast<int>(std::clamp(2147483648.0 / terms_of_row, 8.0, 4096.0));
    std::vector<int> rows;
    if (call.m <= count) {
      rows.resize(static_cast<std::size_t>(call.m));
      std::iota(rows.begin(), rows.end(), 0);
      return rows;
    }
    rows = {0, call.m - 1};
    while (static_cast<int>(rows.size()) < count)
      rows.push_back(static_cast<int>(rng_.below(static_cast<std::uint64_t>(call.m))));
    return rows;
  }

  Result<std::uint64_t> counter_after(const std::function<Status(DevicePointer)>& launch_it) {
    const DevicePointer counter = small_.at();
    std::uint64_t count = 0;
    LATHE_CHECK_OK(check(driver_.copy_to_device(counter, &count, sizeof count), "checking"));
    LATHE_CHECK_OK(launch_it(counter));
    LATHE_CHECK_OK(read_back(&count, counter, sizeof count, "running a kernel"));
    return count;
  }

  Result<std::uint64_t> count_wrong(const Call& call, Layout layout, DevicePointer before,
                                    Tolerance tolerance) {
    const std::vector<int> rows = sample_rows(call);
    DevicePointer rows_at = small_.at() + 64;
    LATHE_CHECK_OK(check(driver_.stream_synchronize(stream_), "running a kernel"));
    LATHE_CHECK_OK(
        check(driver_.copy_to_device(rows_at, rows.data(), rows.size() * sizeof(int)), "checking"));
    const Strides s = strides_of(call, layout);
    struct {
      DevicePointer a, b, c, before;
      std::int64_t a_row, a_k, b_column, b_k, ldc, m, n, k;
      float alpha, beta;
    } operands = {call.a, call.b,   call.c, before, s.a_row, s.a_k,      s.b_column,
                  s.b_k,  call.ldc, call.m, call.n, call.k,  call.alpha, call.beta};
    int how = tolerance;
    return counter_after([&](DevicePointer counter) {
      void* arguments[] = {&operands, &rows_at, &how, &counter};
      return launch_check(compare_, static_cast<unsigned>((call.n + 127) / 128),
                          static_cast<unsigned>(rows.size()), 128, arguments);
    });
  }

  Result<std::uint64_t> count_touched(const Call& call, DevicePointer memory, std::int64_t count) {
    std::int64_t first = kGuard, m = call.m, n = call.n, ldc = call.ldc;
    int poison = kPoison;
    return counter_after([&](DevicePointer counter) {
      void* arguments[] = {&memory, &count, &first, &m, &n, &ldc, &poison, &counter};
      return launch_check(guards_, 1024, 1, 256, arguments);
    });
  }

  /// Random numbers, again and again into poisoned memory: every result has the same bits.
  Status repeat(const Size& size, const Kernel& kernel, int repeats) {
    LATHE_CHECK_OK(traffic_.reserve(2 * kTrafficBytes));
    const Status repeated = repeat_in_traffic(size, kernel, repeats);
    LATHE_CHECK_OK(check(driver_.stream_synchronize(traffic_stream_), "copying beside a kernel"));
    return repeated;
  }

  /// Copies go on beside every second run, so that its blocks start and load at other times.
  Status repeat_in_traffic(const Size& size, const Kernel& kernel, int repeats) {
    LATHE_TRY(const Call call, lay_out(size, kernel.plan.layout, 0, 0, 0));
    LATHE_CHECK_OK(fill_operands(call, kernel.plan.layout, kUniform, 5));
    std::int64_t m = call.m, n = call.n, ldc = call.ldc;
    DevicePointer c = call.c;
    std::uint64_t first = 0;
    for (int i = 0; i < repeats; ++i) {
      LATHE_CHECK_OK(
          check(driver_.fill_halves(c, kPoison, static_cast<std::size_t>(m * n), stream_), "poisoning"));
      LATHE_CHECK_OK(poison_workspace(kernel));
      if (i % 2 == 1)
        LATHE_CHECK_OK(check(
            driver_.copy_within(traffic_.at(), traffic_.at() + kTrafficBytes, kTrafficBytes, traffic_stream_),
            "copying beside a kernel"));
      LATHE_CHECK_OK(check(launch(kernel, call, facts_.sm_count, stream_), "launching a kernel"));
      LATHE_TRY(const std::uint64_t sum, counter_after([&](DevicePointer counter) {
                  void* arguments[] = {&c, &m, &n, &ldc, &counter};
                  return launch_check(checksum_, 512, 1, 256, arguments);
                }));
      if (i == 0) first = sum;
      if (sum != first)
        return refused("not_deterministic",
                       fmt::format("{} at {}x{}x{}: run {} gave other bits than the first",
                                   name_of(kernel.plan), size.m, size.n, size.k, i + 1));
    }
    std::vector<std::uint64_t> counters(kCounterBytes / 8);
    LATHE_CHECK_OK(read_back(counters.data(), workspace_.at(), kCounterBytes, "reading counters"));
    if (std::any_of(counters.begin(), counters.end(), [](std::uint64_t x) { return x != 0; })) {
      LATHE_CHECK_OK(clear_counters());
      return refused("counters_left", fmt::format("{} at {}x{}x{} leaves counters that are not zero",
                                                  name_of(kernel.plan), size.m, size.n, size.k));
    }
    return Ok{};
  }

  Status clear_counters() {
    return check(driver_.fill_halves(workspace_.at(), 0, kCounterBytes / 2, stream_), "clearing counters");
  }
  /// All but its counters, which kernels leave as they find them.
  Status poison_workspace(const Kernel& kernel) {
    if (!kernel.plan.gathers) return Ok{};
    return check(driver_.fill_halves(workspace_.at() + kCounterBytes, kPoison,
                                     (kWorkspaceBytes - kCounterBytes) / 2, stream_),
                 "poisoning");
  }

  const MeasuringDriver& driver_;
  Stream stream_;
  DeviceFacts facts_;
  std::size_t l2_bytes_;
  Result<Sensors> sensors_;
  Stream traffic_stream_ = nullptr;
  Buffer operands_, traffic_, before_, small_, workspace_, vendor_workspace_;
  Function fill_ = nullptr, compare_ = nullptr, guards_ = nullptr, checksum_ = nullptr, clocks_ = nullptr;
  Event begin_ = nullptr, end_ = nullptr;
  std::unique_ptr<VendorLibraries> vendors_;
  std::vector<std::unique_ptr<VendorCall>> vendor_calls_;
  std::vector<Kernel> kernels_;
  Size prepared_;
  std::vector<Call> sets_;
  Rng rng_{Seed::from_number(16)};
};

}  // namespace

Result<std::unique_ptr<Device>> open_cuda_device(int ordinal, const Compile& compile,
                                                 const OpenSensors& open_sensors) {
  LATHE_TRY(const MeasuringDriver* const driver, measuring_driver());
  int device = 0;
  LATHE_CHECK_OK(check(driver->device_get(&device, ordinal), "finding the GPU"));
  Context context = nullptr;
  LATHE_CHECK_OK(check(driver->context_retain(&context, device), "making a context"));
  LATHE_CHECK_OK(check(driver->context_make_current(context), "making a context"));
  std::array<char, 128> name{};
  int sm_count = 0, l2_bytes = 0;
  LATHE_CHECK_OK(check(driver->device_name(name.data(), name.size(), device), "naming the GPU"));
  LATHE_CHECK_OK(
      check(lathe::gemm::driver()->device_attribute(&sm_count, DeviceAttribute::kMultiprocessors, device),
            "the GPU"));
  LATHE_CHECK_OK(check(lathe::gemm::driver()->device_attribute(&l2_bytes, DeviceAttribute::kL2Bytes, device),
                       "the GPU"));
  Result<Sensors> sensors = Error{ErrorCode::kUnavailable, "nobody reads this GPU's sensors"};
  if (open_sensors) {
    std::array<char, 32> bus{};
    LATHE_CHECK_OK(check(driver->device_bus(bus.data(), bus.size(), device), "finding the GPU's bus"));
    sensors = open_sensors(bus.data());
  }
  Stream stream = nullptr;
  LATHE_CHECK_OK(check(driver->stream_create(&stream, 1), "making a stream"));
  auto opened = std::make_unique<CudaDevice>(*driver, stream, DeviceFacts{name.data(), sm_count},
                                             static_cast<std::size_t>(l2_bytes), std::move(sensors));
  LATHE_CHECK_OK(opened->start(compile));
  return std::unique_ptr<Device>(std::move(opened));
}

}  // namespace lathe::gemm

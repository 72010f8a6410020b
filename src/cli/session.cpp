#include "cli/session.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/broker/cuda_backend.h"
#include "backend/cuda/broker/visible_devices.h"
#include "backend/cuda/broker/window_client.h"
#include "backend/host/host_backend.h"
#include "base/output.h"
#include "base/stop_signals.h"
#include "cli/console.h"
#include "cli/device_choice.h"
#include "gym/bench_shape.h"
#include "policy/catalog/catalog.h"
#include "record/json.h"
#include "record/json_reader.h"

namespace lathe::cli {
namespace {

std::string peaks_key(const DeviceInfo& device) {
  return fmt::format("peaks/{}/{} threads/{}", device.kind, device.threads, device.name);
}

std::string peaks_text(const DevicePeaks& peaks) {
  nlohmann::json document = {{"flops", peaks.flops_per_second},
                             {"tensor_flops", peaks.tensor_flops_per_second},
                             {"levels", nlohmann::json::array()}};
  for (const auto& level : peaks.levels)
    document["levels"].push_back({level.name, level.capacity_bytes, level.bytes_per_second});
  return json_text(document);
}

/// Nothing where another version, or a hand, has written something else.
std::optional<DevicePeaks> peaks_from(const std::string& text) {
  const auto document = parse_json(text, "peaks");
  if (!document.ok()) return std::nullopt;
  DevicePeaks peaks;
  JsonReader reader(*document, "peaks");
  reader.read("flops", peaks.flops_per_second);
  reader.read("tensor_flops", peaks.tensor_flops_per_second);
  if (!reader.status().ok() || peaks.flops_per_second <= 0) return std::nullopt;
  for (const auto& level : document->value("levels", nlohmann::json())) {
    if (!level.is_array() || level.size() != 3 || !level[0].is_string() || !level[1].is_number() ||
        !level[2].is_number() || level[2].get<double>() <= 0)
      return std::nullopt;
    peaks.levels.push_back({level[0].get<std::string>(), level[1].get<double>(), level[2].get<double>()});
  }
  return peaks;
}

/// Every verb computes on one device; programs on different GPUs do not disturb each other.
Error not_on_every_gpu() {
  constexpr const char* kRemedy =
      "start one program a GPU, --device cuda:0, cuda:1, ...; they may share a --store";
  const auto devices = cuda::list_visible({});
  if (!devices.ok()) return devices.error();
  return invalid("one program computes on one GPU; there are " + cuda::names_of(*devices), kRemedy);
}

/// "auto" is the GPU where one works. One that is there and does not work is worth a word.
Result<std::unique_ptr<Backend>> open_device(const CommonOptions& options) {
  LATHE_TRY(const DeviceChoice choice, parse_device(options.device));
  if (choice.kind == DeviceChoice::Kind::kService) return needs_own_device();
  if (choice.kind == DeviceChoice::Kind::kEveryCuda) return not_on_every_gpu();
  if (choice.runs_host_programs()) {
    LATHE_TRY(const HostBackendOptions host, host_options(options));
    return make_host_backend(host);
  }
  if (choice.kind != DeviceChoice::Kind::kCpu) {
    auto gpu = make_cuda_backend({.device = choice.index});
    if (gpu.ok() || choice.wants_gpu()) return gpu;
    if (::access("/dev/nvidiactl", F_OK) == 0)
      print_error(gpu.error(), "the GPU is left out, the processor serves");
  }
  CpuBackendOptions cpu;
  cpu.threads = options.threads;
  cpu.cancel = stop_token();
  if (wants_reduced_jail(options)) {
    cpu.jail = JailKind::kReduced;
    print_error("lathe: candidates run in a reduced jail, without namespaces; every verdict says so\n");
  }
  return make_cpu_backend(cpu);
}

}  // namespace

const CancelToken& stop_token() {
  static const CancelToken& token = cancelled_by_signals();
  return token;
}

void install_signal_handlers() {
  (void)stop_token();
  // A write to a closed pipe, or beyond the limit on a file's size, fails instead of ending the
  // program.
  for (const int signal : {SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_IGN);
}

Result<HostBackendOptions> host_options(const CommonOptions& options) {
  LATHE_TRY(const DeviceChoice choice, parse_device(options.device));
  HostBackendOptions host;
  if (choice.kind == DeviceChoice::Kind::kHostCuda) {
    LATHE_TRY(host.gpu, make_host_gpu({.device = choice.index}));
  }
  host.threads = options.threads;
  host.cancel = stop_token();
  if (wants_reduced_jail(options)) host.jail = JailKind::kReduced;
  return host;
}

bool wants_reduced_jail(const CommonOptions& options) {
  const char* chosen = std::getenv("LATHE_REDUCED_JAIL");
  return options.reduced_jail || (chosen && *chosen && std::string_view(chosen) != "0");
}

std::string store_folder(const CommonOptions& options) {
  if (!options.store_folder.empty()) return options.store_folder;
  const char* chosen = std::getenv("LATHE_STORE");
  return chosen && *chosen ? chosen : ".lathe";
}

Result<std::unique_ptr<Store>> open_store(const CommonOptions& options) {
  const std::string folder = store_folder(options);
  if (folder.find("://") != std::string::npos)  // the URL may have a password
    return invalid("runs are kept in a folder, not on a server",
                   "name one with --store; only lathe serve knows postgres://...");
  auto store = Store::open(folder);
  if (store.ok() || store.error().code != ErrorCode::kIo) return store;
  Error error = std::move(store).error();
  error.hint += "; --store or LATHE_STORE names another place";
  return error;
}

Result<std::unique_ptr<Store>> open_existing_store(const CommonOptions& options) {
  const std::string folder = store_folder(options);
  if (folder.find("://") != std::string::npos) return open_store(options);
  if (::access((folder + "/lathe.db").c_str(), F_OK) != 0)
    return Error{ErrorCode::kNotFound, "there is no store in '" + folder + "'",
                 "name one with --store or LATHE_STORE; lathe optimize makes one"};
  return Store::open(folder);
}

Result<DevicePeaks> measure_peaks(Backend& backend) {
  const auto lease = backend.lane().take(DeviceLane::Use::kTiming, DeviceLane::Grain::kStage, stop_token());
  return backend.peaks();
}

Result<std::unique_ptr<Backend>> open_backend(const CommonOptions& options, Store* store) {
  LATHE_TRY(auto backend, open_device(options));
  if (!store) return backend;
  const std::string key = peaks_key(backend->device());
  if (const auto fact = store->get_fact(key); fact.ok() && *fact)
    if (const auto peaks = peaks_from(**fact)) backend->set_peaks(*peaks);
  if (const auto peaks = measure_peaks(*backend); peaks.ok())
    (void)store->put_fact(key, peaks_text(*peaks));  // a store that can only be read is measured beside
  return backend;
}

GymOptions gym_options(Backend& backend) {
  GymOptions options;
  options.cancel = stop_token();
  options.anchors = [&backend](const TaskSpec& task) -> std::vector<Candidate> {
    const auto peaks = measure_peaks(backend);
    if (!peaks.ok()) return {};
    return catalog_anchors({std::make_shared<const TaskSpec>(task), backend.device(), *peaks});
  };
  return options;
}

Status check_json_file(const std::string& json_file) {
  if (json_file.empty() || json_file == "-") return Ok{};
  return check_output(json_file);
}

Status write_json(const std::string& json_file, const nlohmann::json& document) {
  if (json_file.empty()) return Ok{};
  if (json_file == "-") return print_json(document), Ok{};
  return write_output(json_file, json_text(document, 2) + "\n");
}

ReportExtras make_extras(const TaskSpec& task, const DeviceInfo& device, const DevicePeaks& peaks,
                         const TaskBaselines& baselines) {
  ReportExtras extras;
  extras.device = fmt::format("{}, {} thread{}", device.name, device.threads, device.threads == 1 ? "" : "s");
  if (device.jail != name(JailKind::kFull)) extras.device += ", " + device.jail + " jail";
  extras.peaks = peaks;
  extras.peaks.flops_per_second = peaks.flops_limit(task);
  for (const NamedShape& shape : task.shapes) {
    const auto bound = lathe::bind(task, shape.dims);
    if (!bound.ok()) continue;
    extras.work.push_back(
        {shape_name(shape.dims, task), bound->flops, bound->bytes_min, peaks.floor_ns(*bound)});
  }
  extras.baselines = baselines.times;
  extras.best_baseline = baselines.best;
  extras.left_out = baselines.left_out;
  return extras;
}

std::string format_ns(double ns) {
  if (ns < 1e3) return fmt::format("{:.0f} ns", ns);
  if (ns < 1e6) return fmt::format("{:.2f} us", ns / 1e3);
  if (ns < 1e9) return fmt::format("{:.2f} ms", ns / 1e6);
  return fmt::format("{:.2f} s", ns / 1e9);
}

}  // namespace lathe::cli

#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/host/host_backend.h"
#include "base/cancel.h"
#include "base/events.h"
#include "cli/exit_code.h"
#include "gym/gym.h"
#include "report/report.h"
#include "store/store.h"

namespace lathe::cli {

/// Options that several verbs share.
struct CommonOptions {
  std::string store_folder;  ///< empty: $LATHE_STORE, else .lathe
  std::string json_file;     ///< "-" is standard output
  int threads = 1;
  bool reduced_jail = false;    ///< or $LATHE_REDUCED_JAIL
  std::string device = "auto";  ///< see parse_device()
};

/// Cancelled by the first Ctrl-C or SIGTERM (base/stop_signals.h).
const CancelToken& stop_token();
void install_signal_handlers();

/// Whether --reduced-jail or $LATHE_REDUCED_JAIL accepts a jail without namespaces.
bool wants_reduced_jail(const CommonOptions& options);

/// What --store says, else $LATHE_STORE, else ".lathe".
std::string store_folder(const CommonOptions& options);
Result<std::unique_ptr<Store>> open_store(const CommonOptions& options);
/// Errors: kNotFound; a folder that holds no store is left alone.
Result<std::unique_ptr<Store>> open_existing_store(const CommonOptions& options);
/// As backend.peaks(), alone on the device.
Result<DevicePeaks> measure_peaks(Backend& backend);
/// The backend of the device asked for, with the peaks that the store remembers for this machine.
Result<std::unique_ptr<Backend>> open_backend(const CommonOptions& options, Store* store);
/// What a backend of the HOST tier is made with, or what grades beside one.
Result<HostBackendOptions> host_options(const CommonOptions& options);

/// A gym's options with which every verb reaches the same verdicts: screens may be timed against
/// the catalogue's kernels. `backend` must outlive the gym.
GymOptions gym_options(Backend& backend);

/// Whether write_json() could write now: asked before hours of work.
Status check_json_file(const std::string& json_file);
/// Writes a document where --json says; nothing when it says nothing.
Status write_json(const std::string& json_file, const nlohmann::json& document);

/// Facts about a task on a device that documents and reports need.
ReportExtras make_extras(const TaskSpec& task, const DeviceInfo& device, const DevicePeaks& peaks,
                         const TaskBaselines& baselines);

/// "1.23 ms".
std::string format_ns(double ns);

}  // namespace lathe::cli

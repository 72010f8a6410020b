#include "backend/cuda/broker/health.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <optional>

#include "backend/cuda/broker/device_log.h"
#include "backend/cuda/broker/keeper_client.h"
#include "backend/cuda/broker/toolchain.h"
#include "backend/cuda/broker/visible_devices.h"
#include "backend/cuda/wire/profile_frames.h"
#include "backend/vendor_library.h"
#include "sandbox/process.h"

namespace lathe {
namespace {

using namespace cuda;

constexpr int kProbeTimeoutMs = 30'000;

GpuPart missing(std::string name, const Error& error, const char* cost, bool needed = false) {
  return {std::move(name), false, needed, fmt::format("{}: {}", cost, error.to_string())};
}

GpuPart compiler_part(const CudaBackendOptions& options, const DeviceFacts& facts) {
  const std::string arch = fmt::format("sm_{}{}", facts.compute_major, facts.compute_minor);
  const auto toolchain =
      Toolchain::create({options.runner_program, options.include_folder, options.cache_folder, arch, 30});
  if (!toolchain.ok()) return missing("NVRTC", toolchain.error(), "no kernel can be compiled", true);
  constexpr std::size_t kNameBytes = sizeof "NVRTC " - 1;
  const std::string version = (*toolchain)->version().substr(kNameBytes);
  return {"NVRTC", true, true, version.substr(0, version.find(' ')) + ", in a jail"};
}

/// Those that `--device` can choose, by number.
void add_devices(const CudaBackendOptions& options, const DeviceFacts& chosen, std::vector<GpuPart>& parts) {
  const auto devices = list_visible(options);
  if (!devices.ok()) return parts.push_back(missing("GPUs", devices.error(), "they cannot be listed"));
  for (std::size_t i = 0; i < devices->size(); ++i) {
    const ListedDevice& one = (*devices)[i];
    parts.push_back({fmt::format("cuda:{}", i), true, false,
                     fmt::format("{}, {}, {}{}", one.name, one.uuid, one.pci,
                                 one.uuid == chosen.uuid ? "; the following is of it" : "")});
  }
}

/// Asks a confined launcher what it is able to do.
Result<ProfileAnswer> ask_launcher(const CudaBackendOptions& options) {
  LATHE_TRY(HelperProcess launcher, HelperProcess::spawn(options.runner_program, launcher_arguments(options),
                                                         options.device_environment));
  LATHE_CHECK_OK(launcher.channel().send(encode(ProfileJob{})));
  LATHE_TRY(const Frame frame, launcher.first_frame(kProbeTimeoutMs));
  return decode_profile_answer(frame.bytes);
}

void add_launcher_parts(const CudaBackendOptions& options, std::vector<GpuPart>& parts) {
  const auto answer = ask_launcher(options);
  if (!answer.ok()) {
    parts.push_back(missing("GPU jail", answer.error(), "no kernel can run", true));
    return;
  }
  parts.push_back({"GPU jail", true, true,
                   "candidates run in namespaces, Landlock and seccomp, in contexts of their own"});
  if (answer->ok)
    parts.push_back(
        {"GPU counters", true, false, "CUPTI counts what kernels do: lathe eval --depth profile"});
  else
    parts.push_back(missing("GPU counters", Error{ErrorCode::kUnavailable, answer->text},
                            "profiles cannot name a bottleneck or a roof"));
}

/// For example "9.19.0". Loads a part of cuDNN to ask it.
std::string cudnn_version(const std::string& path) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto ask =
      reinterpret_cast<std::size_t (*)()>(library ? ::dlsym(library, "cudnnGetVersion") : nullptr);
  const std::size_t version = ask ? ask() : 0;
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

/// Checks only that cuDNN loads, which needs no context; whether its calls work shows at the first
/// one.
GpuPart cudnn_part(const CudaBackendOptions& options) {
  constexpr const char* kName = "cuDNN";
  constexpr const char* kCost =
      "convolutions, pools, softmax and batch_norm are compared with the naive build only, and plans "
      "cannot use `node` steps for them";
  const auto library = VendorLibrary::open(options.vendor_library);
  if (!library.ok()) return missing(kName, library.error(), kCost);
  const auto path = library->find_cudnn(options.cudnn_library);
  if (!path.ok()) return missing(kName, path.error(), kCost);
  return {kName, true, false, fmt::format("{}, {}", cudnn_version(*path), *path)};
}

void add_sensor_parts(const DeviceFacts& facts, std::vector<GpuPart>& parts) {
  constexpr const char* kClocks = "GPU clocks and power";
  constexpr const char* kEnergy = "GPU energy";
  const auto nvml = Nvml::open(facts.pci);
  if (!nvml.ok()) {
    parts.push_back(missing(kClocks, nvml.error(),
                            "pairs timed at different clocks are kept, and verdicts lack the GPU's state"));
    parts.push_back(missing(kEnergy, nvml.error(), "profiles lack energy"));
    return;
  }
  const DeviceReading now = nvml->read();
  const Error silent{ErrorCode::kUnavailable, "NVML does not report this GPU's clock"};
  if (now.clock_mhz > 0)
    parts.push_back(
        {kClocks, true, false,
         fmt::format("{:.0f} MHz, memory {:.0f} MHz, {:.0f} W, {:.0f} C; driver {}", now.clock_mhz,
                     now.memory_clock_mhz, now.power_w, now.celsius, nvml->driver_version())});
  else
    parts.push_back(missing(kClocks, silent, "pairs timed at different clocks are kept"));
  if (const auto joules = nvml->joules(); joules.ok())
    parts.push_back({kEnergy, true, false, "joules a call at --depth profile"});
  else
    parts.push_back(missing(kEnergy, joules.error(), "profiles lack energy"));
}

}  // namespace

std::vector<GpuPart> examine_gpu(const CudaBackendOptions& given) {
  std::vector<GpuPart> parts;
  constexpr const char* kDriver = "GPU driver";
  const auto options = with_defaults(given);
  if (!options.ok()) return {missing(kDriver, options.error(), "nothing runs on a GPU", true)};
  const auto keeper =
      KeeperClient::start({.program = options->runner_program, .environment = options->device_environment});
  if (!keeper.ok()) return {missing(kDriver, keeper.error(), "nothing runs on a GPU", true)};
  const DeviceFacts& facts = (*keeper)->facts();
  parts.push_back({kDriver, true, true,
                   fmt::format("{}, sm_{}{}, {:.0f} GiB; CUDA {}.{}", facts.name, facts.compute_major,
                               facts.compute_minor, static_cast<double>(facts.memory_bytes) / (1 << 30),
                               facts.driver_version / 1000, facts.driver_version % 1000 / 10)});
  add_devices(*options, facts, parts);
  parts.push_back(compiler_part(*options, facts));
  add_launcher_parts(*options, parts);
  parts.push_back(cudnn_part(*options));
  add_sensor_parts(facts, parts);
  return parts;
}

}  // namespace lathe

#include "cli/worker_programs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "backend/cuda/broker/visible_devices.h"
#include "cli/device_choice.h"
#include "sandbox/process.h"

namespace lathe::cli {
namespace {

std::vector<std::string> environment_of_workers() {
  constexpr std::string_view kSecrets[] = {"LATHE_TOKEN=", "LATHE_QUEUE=", "LATHE_STORE="};
  std::vector<std::string> environment;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text = *entry;
    if (std::none_of(std::begin(kSecrets), std::end(kSecrets),
                     [&](std::string_view secret) { return text.starts_with(secret); }))
      environment.emplace_back(text);
  }
  return environment;
}

}  // namespace

Result<std::vector<std::string>> worker_devices(const std::string& device) {
  LATHE_TRY(const DeviceChoice choice, parse_device(device));
  if (choice.kind == DeviceChoice::Kind::kService) return needs_own_device();
  if (choice.kind == DeviceChoice::Kind::kCpu) return std::vector<std::string>{"cpu"};
  if (choice.kind == DeviceChoice::Kind::kHostCpu) return std::vector<std::string>{"host:cpu"};
  const auto gpus = cuda::list_visible({});
  if (choice.kind == DeviceChoice::Kind::kAuto && (!gpus.ok() || gpus->empty()))
    return std::vector<std::string>{"cpu"};
  if (!gpus.ok()) return gpus.error();
  const bool is_one =
      choice.kind == DeviceChoice::Kind::kCuda || choice.kind == DeviceChoice::Kind::kHostCuda;
  if (is_one && choice.index >= std::ssize(*gpus))
    return Error{
        ErrorCode::kNotFound,
        fmt::format("there is no cuda:{}; there {} {}", choice.index, gpus->size() == 1 ? "is" : "are",
                    gpus->empty() ? "no GPU" : cuda::names_of(*gpus)),
        "choose one of these; CUDA_VISIBLE_DEVICES says which GPUs are visible"};
  if (choice.kind == DeviceChoice::Kind::kHostCuda)
    return std::vector<std::string>{fmt::format("host:cuda:{}", choice.index)};
  if (choice.kind == DeviceChoice::Kind::kCuda)
    return std::vector<std::string>{fmt::format("cuda:{}", choice.index)};
  std::vector<std::string> devices;
  for (std::size_t i = 0; i < gpus->size(); ++i) devices.push_back(fmt::format("cuda:{}", i));
  if (choice.kind == DeviceChoice::Kind::kAuto) devices.resize(1);
  return devices;
}

std::string kind_of_device(const std::string& device) {
  for (const char* const kind : {"cuda", "host:cuda"})
    if (device.starts_with(kind)) return kind;
  return device;
}

Result<std::vector<serve::WorkerProgram>> worker_programs(const CommonOptions& options,
                                                          const std::vector<std::string>& devices,
                                                          const WorkerChoice& choice) {
  std::string program = choice.program;
  if (program.empty()) {
    LATHE_TRY(program, sibling_program("lathe-serve"));
  }
  std::vector<serve::WorkerProgram> programs;
  for (const std::string& device : devices)
    for (int i = 0; i < choice.for_each; ++i) {
      Command command{
          .argv = {program, "worker", "--device", device, "--threads", std::to_string(options.threads)},
          .environment = environment_of_workers(),
          .own_group = true};
      if (wants_reduced_jail(options)) command.argv.push_back("--reduced-jail");
      const std::string name = choice.for_each == 1 ? device : fmt::format("{}/{}", device, i);
      programs.push_back({name, std::move(command)});
    }
  return programs;
}

}  // namespace lathe::cli

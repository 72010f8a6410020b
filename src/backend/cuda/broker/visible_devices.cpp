#include "backend/cuda/broker/visible_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "backend/installation.h"
#include "sandbox/process.h"

namespace lathe::cuda {
namespace {

constexpr int kListTimeoutMs = 30'000;
constexpr std::string_view kVisible = "CUDA_VISIBLE_DEVICES", kOrder = "CUDA_DEVICE_ORDER";

/// As the driver reads an entry: a number or the begin of a UUID. Anything else ends the list.
bool names_a_device(std::string_view entry) {
  if (entry.starts_with("GPU-") || entry.starts_with("MIG-")) return true;
  return !entry.empty() && entry.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string_view trimmed(std::string_view text) {
  const auto begin = std::min(text.find_first_not_of(" \t"), text.size());
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

std::vector<std::string> entries_of(std::string_view visible) {
  std::vector<std::string> entries;
  while (!visible.empty()) {
    const std::size_t comma = std::min(visible.find(','), visible.size());
    const std::string_view entry = trimmed(visible.substr(0, comma));
    if (!names_a_device(entry)) break;
    entries.emplace_back(entry);
    visible.remove_prefix(std::min(comma + 1, visible.size()));
  }
  return entries;
}

std::string setting(std::string_view variable, std::string_view value) {
  return fmt::format("{}={}", variable, value);
}

}  // namespace

DeviceVariables DeviceVariables::of_process() {
  return {std::getenv(kVisible.data()), std::getenv(kOrder.data())};
}

Result<std::vector<std::string>> environment_of(int index, const DeviceVariables& variables) {
  std::string entry = std::to_string(index);
  if (variables.visible) {
    const auto entries = entries_of(variables.visible);
    if (index >= std::ssize(entries))
      return Error{ErrorCode::kNotFound,
                   fmt::format("{}='{}' leaves {}, so there is no cuda:{}", kVisible, variables.visible,
                               entries.empty()       ? "no GPU"
                               : entries.size() == 1 ? "one GPU"
                                                     : fmt::format("{} GPUs", entries.size()),
                               index),
                   fmt::format("choose another, or set {} otherwise", kVisible)};
    entry = entries[static_cast<std::size_t>(index)];
  }
  std::vector<std::string> environment = {setting(kVisible, entry)};
  if (variables.order) environment.push_back(setting(kOrder, variables.order));
  return environment;
}

Result<std::vector<ListedDevice>> list_visible(const CudaBackendOptions& options) {
  LATHE_TRY(const std::string program, find_program(options.runner_program, "lathe-cuda-runner"));
  const DeviceVariables variables = DeviceVariables::of_process();
  std::vector<std::string> environment;
  if (variables.visible) environment.push_back(setting(kVisible, variables.visible));
  if (variables.order) environment.push_back(setting(kOrder, variables.order));
  LATHE_TRY(HelperProcess lister, HelperProcess::spawn(program, {"list"}, environment));
  LATHE_TRY(const Frame frame, lister.first_frame(kListTimeoutMs));
  LATHE_TRY(DeviceList list, decode_device_list(frame.bytes));
  if (!list.error.empty()) return Error{ErrorCode::kUnavailable, list.error};
  return std::move(list.devices);
}

std::string names_of(const std::vector<ListedDevice>& devices) {
  std::string names;
  for (std::size_t i = 0; i < devices.size(); ++i)
    names += fmt::format("{}cuda:{} {} ({})", i == 0 ? "" : ", ", i, devices[i].name, devices[i].uuid);
  return names;
}

Error explain_missing(const Error& error, int index,
                      const std::function<Result<std::vector<ListedDevice>>()>& list) {
  if (index == 0) return error;
  const auto devices = list();
  if (!devices.ok() || devices->empty() || index < std::ssize(*devices)) return error;
  return {ErrorCode::kNotFound,
          fmt::format("there is no cuda:{}; there {} {}", index, devices->size() == 1 ? "is" : "are",
                      names_of(*devices)),
          fmt::format("choose one of these; {} says which GPUs are visible", kVisible)};
}

}  // namespace lathe::cuda

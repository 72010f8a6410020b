#include "cli/device_choice.h"

#include <charconv>
#include <string_view>

namespace lathe::cli {

Result<DeviceChoice> parse_device(const std::string& text) {
  using Kind = DeviceChoice::Kind;
  constexpr std::string_view kNumbered = "cuda:";
  if (text == "auto") return DeviceChoice{Kind::kAuto};
  if (text == "cpu") return DeviceChoice{Kind::kCpu};
  if (text == "host:cpu" || text == "host") return DeviceChoice{Kind::kHostCpu};
  if (text == "cuda") return DeviceChoice{Kind::kCuda};
  if (text == "cuda:all") return DeviceChoice{Kind::kEveryCuda};
  const Error unknown =
      invalid("'" + text + "' is no device", "one of auto, cpu, cuda, cuda:N, cuda:all, host:cpu");
  if (!text.starts_with(kNumbered)) return unknown;
  const std::string_view digits = std::string_view(text).substr(kNumbered.size());
  DeviceChoice choice{Kind::kCuda};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), choice.index);
  if (error != std::errc{} || end != digits.data() + digits.size() || choice.index < 0) return unknown;
  return choice;
}

}  // namespace lathe::cli

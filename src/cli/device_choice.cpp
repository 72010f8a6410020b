#include "cli/device_choice.h"

#include <charconv>
#include <string_view>

#include "base/http/client.h"

namespace lathe::cli {

Result<DeviceChoice> parse_device(const std::string& text) {
  using Kind = DeviceChoice::Kind;
  constexpr std::string_view kHost = "host:", kNumbered = "cuda:";
  if (text == "auto") return DeviceChoice{Kind::kAuto};
  if (text == "cpu") return DeviceChoice{Kind::kCpu};
  if (text == "host:cpu" || text == "host") return DeviceChoice{Kind::kHostCpu};
  if (text == "cuda") return DeviceChoice{Kind::kCuda};
  if (text == "host:cuda") return DeviceChoice{Kind::kHostCuda};
  if (text == "cuda:all") return DeviceChoice{Kind::kEveryCuda};
  if (text.find("://") != std::string::npos) {
    LATHE_CHECK_OK(http::check_url(text));
    return DeviceChoice{.kind = Kind::kService, .url = text};
  }
  const Error unknown = invalid("'" + text + "' is no device",
                                "one of auto, cpu, cuda, cuda:N, cuda:all, host:cpu, host:cuda, "
                                "host:cuda:N, http://HOST:8320");
  std::string_view digits = text;
  const bool host = digits.starts_with(kHost);
  if (host) digits.remove_prefix(kHost.size());
  if (!digits.starts_with(kNumbered)) return unknown;
  digits.remove_prefix(kNumbered.size());
  DeviceChoice choice{host ? Kind::kHostCuda : Kind::kCuda};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), choice.index);
  if (error != std::errc{} || end != digits.data() + digits.size() || choice.index < 0) return unknown;
  return choice;
}

Error needs_own_device() {
  return invalid("this takes a device of this machine, not a service",
                 "lathe eval, optimize, data make and policy eval have candidates judged elsewhere");
}

}  // namespace lathe::cli

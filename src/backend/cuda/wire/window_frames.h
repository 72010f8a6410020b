#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "backend/cuda/wire/protocol.h"

namespace lathe::cuda {

/// A GPU's facts and the limits of its data sheet.
struct WindowDevice {
  DeviceFacts facts;
  double dram_bytes_per_second = 0, l2_bytes_per_second = 0;
  double flops_per_second = 0, tensor_flops_per_second = 0;
};
std::string encode(const WindowDevice& device);
Result<WindowDevice> decode_window_device(std::string_view bytes);

inline constexpr int kWindowMeasurements = 10;  ///< of which the least counts

/// A request to the process that holds windows (backend/host_gpu.h), which serves one at a time.
/// kOpen comes with the memories of inputs and of outputs, and its reply with handles of both
/// windows.
struct WindowRequest {
  enum class Verb : std::uint8_t { kOpen, kClose, kStage, kGive, kTake, kFetch, kMeasure };
  Verb verb = Verb::kOpen;
  std::uint64_t id = 0;  ///< which its reply repeats
  std::uint64_t window = 0;
  std::uint64_t inputs = 0, outputs = 0;   ///< kOpen: bytes of a call's
  std::uint8_t poison = 0;                 ///< kStage
  std::uint64_t slot = ~std::uint64_t{0};  ///< kStage: where the inputs are to stay; beyond memory: nowhere
  bool filled = false;                     ///< kStage: they are there
  std::uint64_t offset = 0;                ///< kFetch
};
std::string encode(const WindowRequest& request);
Result<WindowRequest> decode_window_request(std::string_view bytes);

struct WindowReply {
  std::uint64_t id = 0;
  bool ok = false;
  std::string text;  ///< why not
  /// kOpen: the windows' bytes. kStage: whether the slot has the inputs. kMeasure: nanoseconds of
  /// kGive and kTake, bytes free on the device.
  std::array<double, 3> numbers = {};
};
std::string encode(const WindowReply& reply);
Result<WindowReply> decode_window_reply(std::string_view bytes);

}  // namespace lathe::cuda

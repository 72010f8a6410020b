#pragma once

#include <map>
#include <memory>
#include <optional>

#include "backend/cuda/runner/device_memory.h"
#include "backend/cuda/wire/window_frames.h"
#include "sandbox/channel.h"
#include "sandbox/memfd.h"

namespace lathe::cuda {

/// Holds windows of device memory (backend/host_gpu.h) in a context where no candidate runs.
class WindowServer {
 public:
  static Result<std::unique_ptr<WindowServer>> open(const Driver& driver);

  /// Until the broker closes the channel.
  void serve(const Channel& channel);
  const WindowDevice& device() const { return device_; }

 private:
  struct Windows {
    DeviceMemory inputs, outputs;  ///< which another process maps
    DeviceMemory staged, taken;
    DeviceMemory kept;           ///< inputs of trials that come again, in slots
    std::uint64_t next_address;  ///< of what give() gives
    Mapping host_inputs, host_outputs;
    std::uint64_t input_bytes = 0, output_bytes = 0;
  };

  explicit WindowServer(const Driver& driver) : driver_(&driver) {}
  Status handle(const WindowRequest& request, const std::vector<UniqueFd>& fds, WindowReply& reply,
                std::vector<UniqueFd>& handles);
  Status open_windows(const WindowRequest& request, const std::vector<UniqueFd>& fds, WindowReply& reply,
                      std::vector<UniqueFd>& handles);
  Status stage(Windows& windows, const WindowRequest& request, WindowReply& reply) const;
  /// Where the slot's inputs are to be; nullopt: memory for that does not go so far.
  std::optional<std::uint64_t> slot_address(Windows& windows, std::uint64_t slot) const;
  Status give(const Windows& windows) const;
  Status take(const Windows& windows) const;
  Status measure(const Windows& windows, WindowReply& reply) const;

  const Driver* driver_;
  Stream stream_ = nullptr;
  WindowDevice device_;
  std::map<std::uint64_t, Windows> windows_;
};

}  // namespace lathe::cuda

#pragma once

#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <variant>

#include "backend/device_record.h"
#include "base/fd.h"
#include "serve/ledger.h"
#include "serve/work_queue.h"

namespace lathe::serve {

/// Front ends and workers of other protocols do not work together; a worker says its own first.
inline constexpr int kWorkerProtocol = 2;

// From a worker to its front end.
struct WorkerHello {
  int protocol = kWorkerProtocol;
  WorkerKind kind;
  std::string device_name;
  int slots = 1;  ///< evaluations that it wants to have at once
};
/// What it measured its device to be: once, some time after its hello.
struct WorkerDevice {
  DeviceRecord record;
};
struct WorkerBeat {
  double busy_seconds = 0;  ///< of the device, since the worker's start
};
struct WorkerAnswer {
  std::int64_t lease = 0;
  std::optional<Verdict> verdict;  ///< absent: `error` says why there is none
  Error error = {};
};
/// The worker takes no more work and gives back what it has.
struct WorkerLeaves {};
using WorkerMessage = std::variant<WorkerHello, WorkerDevice, WorkerBeat, WorkerAnswer, WorkerLeaves>;

// From the front end to a worker.
struct WorkOrder {
  std::int64_t lease = 0;
  Digest id;
  std::string trace;
  Digest task;
  std::string task_name;
  std::string task_text;
  std::string candidate;
  Depth depth = Depth::kScreen;
  double deadline_seconds = 0;  ///< from now on; 0: none
};
struct CancelOrder {
  std::int64_t lease = 0;
};
using FrontMessage = std::variant<WorkOrder, CancelOrder>;

std::string encode(const WorkerMessage& message);
std::string encode(const FrontMessage& message);
/// Errors: kCorrupt for bytes that are no message. The other side may be anything.
Result<WorkerMessage> decode_worker_message(std::string_view bytes);
Result<FrontMessage> decode_front_message(std::string_view bytes);
// The same as parts of a document.
nlohmann::json to_json(const WorkerMessage& message);
nlohmann::json to_json(const FrontMessage& message);
Result<WorkerMessage> worker_message_from_json(const nlohmann::json& document);
Result<FrontMessage> front_message_from_json(const nlohmann::json& document);

/// Messages over a stream socket, each behind its length in four bytes. One thread may receive
/// while others send.
class MessageStream {
 public:
  static constexpr std::size_t kMaxBytes = 16 << 20;

  explicit MessageStream(UniqueFd socket) : socket_(std::move(socket)) {}
  /// Waits until the socket has taken all of it. Errors: kIo when the peer is gone.
  Status send(std::string_view message);
  /// Errors: kIo when the peer is gone, kCorrupt for a length beyond kMaxBytes.
  Result<std::string> receive();
  /// Ends both directions: threads in send() and receive() return with kIo.
  void close();

 private:
  UniqueFd socket_;
  std::mutex sending_;
};

}  // namespace lathe::serve

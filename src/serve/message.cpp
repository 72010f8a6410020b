#include "serve/message.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "record/json.h"
#include "record/json_reader.h"

namespace lathe::serve {
namespace {

using nlohmann::json;

constexpr std::pair<ErrorCode, const char*> kCodes[] = {
    {ErrorCode::kInvalid, "invalid"},         {ErrorCode::kNotFound, "not_found"},
    {ErrorCode::kUnavailable, "unavailable"}, {ErrorCode::kIo, "io"},
    {ErrorCode::kCorrupt, "corrupt"},         {ErrorCode::kTimeout, "timeout"},
    {ErrorCode::kCancelled, "cancelled"},     {ErrorCode::kBusy, "busy"},
    {ErrorCode::kInternal, "internal"},
};

const char* name(ErrorCode code) {
  for (const auto& [known, text] : kCodes)
    if (known == code) return text;
  return "internal";
}

Result<ErrorCode> parse_code(std::string_view text) {
  for (const auto& [known, name] : kCodes)
    if (name == text) return known;
  return invalid("there is no error '" + std::string(text) + "'");
}

Error corrupt(const std::string& what) {
  return {ErrorCode::kCorrupt, "a message of the wrong form: " + what};
}

struct ToJson {
  json operator()(const WorkerHello& hello) const {
    return {{"type", "hello"},
            {"protocol", hello.protocol},
            {"device_kind", hello.kind.device_kind},
            {"gym_version", hello.kind.gym_version},
            {"device_name", hello.device_name},
            {"slots", hello.slots}};
  }
  json operator()(const WorkerDevice& device) const {
    return {{"type", "device"}, {"device", lathe::to_json(device.record)}};
  }
  json operator()(const WorkerBeat& beat) const {
    return {{"type", "beat"}, {"busy_seconds", beat.busy_seconds}};
  }
  json operator()(const WorkerAnswer& answer) const {
    json message = {{"type", "answer"}, {"lease", answer.lease}};
    if (answer.verdict) {
      message["verdict"] = lathe::to_json(*answer.verdict);
    } else {
      message["error"] = {{"code", name(answer.error.code)}, {"message", answer.error.message}};
    }
    return message;
  }
  json operator()(const WorkerLeaves&) const { return {{"type", "leaves"}}; }
  json operator()(const WorkOrder& order) const {
    return {{"type", "order"},
            {"lease", order.lease},
            {"id", order.id.hex()},
            {"trace", order.trace},
            {"task", order.task.hex()},
            {"task_name", order.task_name},
            {"task_text", order.task_text},
            {"candidate", order.candidate},
            {"depth", lathe::name(order.depth)},
            {"deadline_seconds", order.deadline_seconds}};
  }
  json operator()(const CancelOrder& cancel) const { return {{"type", "cancel"}, {"lease", cancel.lease}}; }
};

Result<json> document_of(std::string_view bytes) {
  auto document = parse_json(bytes, "message");
  if (!document.ok()) return corrupt(document.error().message);
  return document;
}

Result<std::string> type_of(const json& document) {
  if (!document.is_object()) return corrupt("no object");
  std::string type;
  JsonReader reader(document, "message");
  reader.read("type", type);
  if (!reader.status().ok()) return corrupt(reader.status().error().message);
  return type;
}

template <class Message>
Result<Message> unless_wrong(const JsonReader& reader, Message message) {
  if (!reader.status().ok()) return corrupt(reader.status().error().message);
  return message;
}

}  // namespace

json to_json(const WorkerMessage& message) { return std::visit(ToJson{}, message); }
json to_json(const FrontMessage& message) { return std::visit(ToJson{}, message); }
std::string encode(const WorkerMessage& message) { return json_text(to_json(message)); }
std::string encode(const FrontMessage& message) { return json_text(to_json(message)); }

Result<WorkerMessage> decode_worker_message(std::string_view bytes) {
  LATHE_TRY(const json document, document_of(bytes));
  return worker_message_from_json(document);
}

Result<WorkerMessage> worker_message_from_json(const json& document) {
  LATHE_TRY(const std::string type, type_of(document));
  JsonReader reader(document, "message");
  if (type == "hello") {
    WorkerHello hello;
    reader.read("protocol", hello.protocol);
    reader.read("device_kind", hello.kind.device_kind);
    reader.read("gym_version", hello.kind.gym_version);
    reader.read("device_name", hello.device_name);
    reader.read("slots", hello.slots);
    return unless_wrong<WorkerMessage>(reader, hello);
  }
  if (type == "device") {
    auto record = device_record_from_json(document.value("device", json::object()));
    if (!record.ok()) return corrupt(record.error().message);
    return WorkerMessage(WorkerDevice{*std::move(record)});
  }
  if (type == "beat") {
    WorkerBeat beat;
    reader.read("busy_seconds", beat.busy_seconds);
    return unless_wrong<WorkerMessage>(reader, beat);
  }
  if (type == "answer") {
    WorkerAnswer answer;
    reader.read("lease", answer.lease);
    if (reader.has("verdict")) {
      auto verdict = verdict_from_json(document["verdict"]);
      if (!verdict.ok()) return corrupt(verdict.error().message);
      answer.verdict = *std::move(verdict);
    } else {
      reader.read_object("error", [&](JsonReader& error) {
        error.read_name("code", answer.error.code, parse_code);
        error.read("message", answer.error.message);
      });
    }
    return unless_wrong<WorkerMessage>(reader, std::move(answer));
  }
  if (type == "leaves") return WorkerMessage(WorkerLeaves{});
  return corrupt("of type '" + type + "'");
}

Result<FrontMessage> decode_front_message(std::string_view bytes) {
  LATHE_TRY(const json document, document_of(bytes));
  return front_message_from_json(document);
}

Result<FrontMessage> front_message_from_json(const json& document) {
  LATHE_TRY(const std::string type, type_of(document));
  JsonReader reader(document, "message");
  if (type == "order") {
    WorkOrder order;
    reader.read("lease", order.lease);
    reader.read("id", order.id);
    reader.read("trace", order.trace);
    reader.read("task", order.task);
    reader.read("task_name", order.task_name);
    reader.read("task_text", order.task_text);
    reader.read("candidate", order.candidate);
    reader.read_name("depth", order.depth, parse_depth);
    reader.read("deadline_seconds", order.deadline_seconds);
    return unless_wrong<FrontMessage>(reader, std::move(order));
  }
  if (type == "cancel") {
    CancelOrder cancel;
    reader.read("lease", cancel.lease);
    return unless_wrong<FrontMessage>(reader, cancel);
  }
  return corrupt("of type '" + type + "'");
}

Status MessageStream::send(std::string_view message) {
  std::lock_guard lock(sending_);
  std::array<char, 4> length{};
  const auto size = static_cast<std::uint32_t>(message.size());
  std::memcpy(length.data(), &size, sizeof size);
  std::string bytes(length.data(), length.size());
  bytes += message;
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const ssize_t sent = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno_error("the other side of a worker's socket is gone");
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
  return Ok{};
}

Result<std::string> MessageStream::receive() {
  const auto fill = [&](char* to, std::size_t size) -> Status {
    while (size > 0) {
      const ssize_t got = ::recv(socket_.get(), to, size, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return errno_error("cannot read a worker's socket");
      if (got == 0) return Error{ErrorCode::kIo, "the other side of a worker's socket is gone"};
      to += got;
      size -= static_cast<std::size_t>(got);
    }
    return Ok{};
  };
  std::uint32_t size = 0;
  std::array<char, 4> length{};
  LATHE_CHECK_OK(fill(length.data(), length.size()));
  std::memcpy(&size, length.data(), sizeof size);
  if (size > kMaxBytes) return corrupt(std::to_string(size) + " bytes long");
  std::string message(size, '\0');
  LATHE_CHECK_OK(fill(message.data(), size));
  return message;
}

void MessageStream::close() { ::shutdown(socket_.get(), SHUT_RDWR); }

}  // namespace lathe::serve

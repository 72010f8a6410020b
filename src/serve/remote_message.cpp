#include "serve/remote_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "record/json.h"
#include "record/json_reader.h"
#include "serve/request_json.h"

namespace lathe::serve {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxWorkerName = 128;
constexpr std::int64_t kMaxNumber = std::int64_t{1} << 53;

Result<json> object_of(std::string_view body) {
  LATHE_TRY(json document, parse_body(body));
  if (!document.is_object()) return invalid("the body is no object");
  return document;
}

bool is_worker_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxWorkerName && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_.:/").find(c) != std::string_view::npos;
  });
}

template <class Message>
std::string batch_text(const MessageBatch<Message>& batch) {
  json messages = json::array();
  for (const Message& message : batch.messages) messages.push_back(to_json(message));
  return json_text({{"first", batch.first}, {"messages", std::move(messages)}});
}

template <class Message>
Result<MessageBatch<Message>> parse_messages(std::string_view body,
                                             Result<Message> (*parse)(const json& document)) {
  LATHE_TRY(const json document, object_of(body));
  MessageBatch<Message> batch;
  JsonReader reader(document, "batch");
  reader.read("first", batch.first);
  if (!reader.status().ok()) return invalid(reader.status().error().message);
  if (batch.first < 1 || batch.first > kMaxNumber) return invalid("batch.first is no number of a message");
  const auto messages = document.find("messages");
  if (messages == document.end() || !messages->is_array() || messages->size() > kMaxMessages)
    return invalid(fmt::format("batch.messages is no list of at most {} messages", kMaxMessages));
  for (const json& one : *messages) {
    auto message = parse(one);
    if (!message.ok()) return invalid(message.error().message);
    batch.messages.push_back(*std::move(message));
  }
  return batch;
}

}  // namespace

std::string encode(const WorkerJoin& join) {
  return json_text({{"name", join.name}, {"hello", to_json(WorkerMessage(join.hello))}});
}
std::string encode(const WorkerBatch& batch) { return batch_text(batch); }
std::string encode(const FrontBatch& batch) { return batch_text(batch); }

Result<WorkerJoin> parse_join(std::string_view body) {
  LATHE_TRY(const json document, object_of(body));
  WorkerJoin join;
  JsonReader reader(document, "worker");
  reader.read("name", join.name);
  if (!reader.status().ok()) return invalid(reader.status().error().message);
  if (!is_worker_name(join.name))
    return invalid(fmt::format("worker.name is not up to {} letters, digits and -_.:/", kMaxWorkerName));
  const auto hello = document.find("hello");
  if (hello == document.end()) return invalid("worker.hello is missing");
  const auto message = worker_message_from_json(*hello);
  if (!message.ok()) return invalid(message.error().message);
  const auto* said = std::get_if<WorkerHello>(&*message);
  if (!said) return invalid("worker.hello is another message");
  if (said->slots < 1 || said->slots > kMaxSlots)
    return invalid(fmt::format("worker.hello.slots is not a number from 1 to {}", kMaxSlots));
  join.hello = *said;
  return join;
}

Result<WorkerBatch> parse_worker_batch(std::string_view body) {
  return parse_messages<WorkerMessage>(body, worker_message_from_json);
}

Result<FrontBatch> parse_front_batch(std::string_view body) {
  return parse_messages<FrontMessage>(body, front_message_from_json);
}

}  // namespace lathe::serve

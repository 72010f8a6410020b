#include "backend/cuda/wire/window_frames.h"

#include "sandbox/wire.h"

namespace lathe::cuda {
namespace {

Error unreadable(const char* what) {
  return {ErrorCode::kCorrupt, std::string(what) + " of the windows' process cannot be read"};
}

}  // namespace

std::string encode(const WindowDevice& device) {
  WireWriter writer;
  writer.text(encode(device.facts)).put(device.dram_bytes_per_second).put(device.l2_bytes_per_second);
  return writer.put(device.flops_per_second).put(device.tensor_flops_per_second).take();
}

Result<WindowDevice> decode_window_device(std::string_view bytes) {
  WireReader reader(bytes);
  WindowDevice device;
  const std::string facts = reader.text();
  device.dram_bytes_per_second = reader.get<double>();
  device.l2_bytes_per_second = reader.get<double>();
  device.flops_per_second = reader.get<double>();
  device.tensor_flops_per_second = reader.get<double>();
  if (!reader.finished()) return unreadable("the facts");
  LATHE_TRY(device.facts, decode_device_facts(facts));
  return device;
}

std::string encode(const WindowRequest& request) {
  WireWriter writer;
  writer.put(request.verb).put(request.poison).put(request.id).put(request.window);
  writer.put(request.inputs).put(request.outputs).put(request.slot);
  return writer.put(static_cast<std::uint8_t>(request.filled)).put(request.offset).take();
}

Result<WindowRequest> decode_window_request(std::string_view bytes) {
  WireReader reader(bytes);
  WindowRequest request;
  request.verb = reader.get<WindowRequest::Verb>();
  request.poison = reader.get<std::uint8_t>();
  request.id = reader.get<std::uint64_t>();
  request.window = reader.get<std::uint64_t>();
  request.inputs = reader.get<std::uint64_t>();
  request.outputs = reader.get<std::uint64_t>();
  request.slot = reader.get<std::uint64_t>();
  request.filled = reader.flag();
  request.offset = reader.get<std::uint64_t>();
  if (!reader.finished()) return unreadable("a request");
  return request;
}

std::string encode(const WindowReply& reply) {
  WireWriter writer;
  writer.put(reply.id).put(static_cast<std::uint8_t>(reply.ok)).text(reply.text);
  for (const double number : reply.numbers) writer.put(number);
  return writer.take();
}

Result<WindowReply> decode_window_reply(std::string_view bytes) {
  WireReader reader(bytes);
  WindowReply reply;
  reply.id = reader.get<std::uint64_t>();
  reply.ok = reader.flag();
  reply.text = reader.text();
  for (double& number : reply.numbers) number = reader.get<double>();
  if (!reader.finished()) return unreadable("a reply");
  return reply;
}

}  // namespace lathe::cuda

#include <algorithm>
#include <cstring>
#include <exception>

#include "baseline/vendor/node_call.h"
#include "candidate/vendor.h"

struct lathe_vendor_call {
  std::unique_ptr<lathe::vendor::PreparedCall> call;
};

namespace {

lathe::Result<std::unique_ptr<lathe::vendor::PreparedCall>> prepare(const char* json) {
  LATHE_TRY(const lathe::vendor::NodeCall call, lathe::vendor::parse_node_call(json));
  if (call.library != "cublas")
    return lathe::invalid("unknown library '" + call.library + "'", "known: cublas");
  return lathe::vendor::prepare_cublas(call);
}

}  // namespace

lathe_vendor_call* lathe_vendor_prepare(const char* json, int, char* error, unsigned long error_size) {
  std::string message;
  try {
    auto prepared = prepare(json);
    if (prepared.ok()) return new lathe_vendor_call{*std::move(prepared)};
    message = prepared.error().message;
  } catch (const std::exception& exception) {
    message = exception.what();
  }
  if (error_size > 0) {
    const std::size_t length = std::min<std::size_t>(message.size(), error_size - 1);
    std::memcpy(error, message.data(), length);
    error[length] = 0;
  }
  return nullptr;
}

int lathe_vendor_execute(lathe_vendor_call* call, void* const* buffers) {
  return call->call->execute(buffers);
}

void lathe_vendor_release(lathe_vendor_call* call) { delete call; }

int lathe_vendor_set_stream(void* stream) { return lathe::vendor::set_cublas_stream(stream); }

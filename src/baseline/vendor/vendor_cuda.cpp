#include <algorithm>
#include <cstring>
#include <exception>

#include "baseline/vendor/cudnn_api.h"
#include "baseline/vendor/node_call.h"
#include "candidate/vendor.h"

struct lathe_vendor_call {
  std::unique_ptr<lathe::vendor::PreparedCall> call;
};

namespace {

lathe::Result<std::unique_ptr<lathe::vendor::PreparedCall>> prepare(const char* json) {
  LATHE_TRY(const lathe::vendor::NodeCall call, lathe::vendor::parse_node_call(json));
  if (call.library == "cublas") return lathe::vendor::prepare_cublas(call);
  if (call.library == "cudnn") return lathe::vendor::prepare_cudnn(call);
  return lathe::invalid("unknown library '" + call.library + "'", "known: cublas, cudnn");
}

void write(const std::string& message, char* text, unsigned long size) {
  if (size == 0) return;
  const std::size_t length = std::min<std::size_t>(message.size(), size - 1);
  std::memcpy(text, message.data(), length);
  text[length] = 0;
}

std::string text_of(const lathe::Error& error) {
  return error.hint.empty() ? error.message : error.message + "; " + error.hint;
}

}  // namespace

lathe_vendor_call* lathe_vendor_prepare(const char* json, int, lathe_vendor_error* error) {
  std::string message;
  error->no_library = 0;
  try {
    auto prepared = prepare(json);
    if (prepared.ok()) return new lathe_vendor_call{*std::move(prepared)};
    error->no_library = prepared.error().code == lathe::ErrorCode::kUnavailable;
    message = text_of(prepared.error());
  } catch (const std::exception& exception) {
    message = exception.what();
  }
  write(message, error->text, sizeof(error->text));
  return nullptr;
}

int lathe_vendor_execute(lathe_vendor_call* call, void* const* buffers) {
  return call->call->execute(buffers);
}

void lathe_vendor_release(lathe_vendor_call* call) { delete call; }

int lathe_vendor_set_stream(void* stream) {
  const int code = lathe::vendor::set_cublas_stream(stream);
  return code != 0 ? code : lathe::vendor::set_cudnn_stream(stream);
}

int lathe_vendor_find_cudnn(const char* first_place, char* text, unsigned long text_size) {
  const auto found = lathe::vendor::find_cudnn(first_place);
  write(found.ok() ? *found : text_of(found.error()), text, text_size);
  return found.ok() ? 1 : 0;
}

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "record/json.h"
#include "serve/kernelgym/request.h"
#include "serve/message.h"
#include "serve/remote_message.h"
#include "serve/request_json.h"

// The bodies that clients send to lathe serve, and what its workers and it say to each other.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lathe::serve;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)parse_evaluation(text);
  (void)parse_batch(text);
  (void)kernelgym::parse_batch(text);
  if (lathe::json_nesting(text) <= kMaxNesting)
    if (const auto body = lathe::parse_json(text, "body"); body.ok())
      for (const auto where : {kernelgym::Computes::kOnProcessor, kernelgym::Computes::kOnGpu})
        if (const auto request = kernelgym::parse_request(*body, where); request.ok())
          if (!parse_evaluation(lathe::json_text(request->evaluation)).ok()) __builtin_trap();
  if (const auto message = decode_worker_message(text); message.ok())
    if (!decode_worker_message(encode(*message)).ok()) __builtin_trap();
  if (const auto message = decode_front_message(text); message.ok())
    if (!decode_front_message(encode(*message)).ok()) __builtin_trap();
  if (const auto join = parse_join(text); join.ok())
    if (!parse_join(encode(*join)).ok()) __builtin_trap();
  if (const auto batch = parse_worker_batch(text); batch.ok())
    if (!parse_worker_batch(encode(*batch)).ok()) __builtin_trap();
  if (const auto batch = parse_front_batch(text); batch.ok())
    if (!parse_front_batch(encode(*batch)).ok()) __builtin_trap();
  return 0;
}

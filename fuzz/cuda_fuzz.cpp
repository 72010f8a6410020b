#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "backend/cuda/broker/compiler_notes.h"
#include "backend/cuda/broker/cubin_image.h"
#include "backend/cuda/broker/sass.h"
#include "backend/cuda/wire/profile_frames.h"
#include "backend/cuda/wire/protocol.h"

namespace {

template <class Decoded>
void must_round_trip(const Decoded& decoded, std::string_view bytes) {
  if (decoded.ok() && lathe::cuda::encode(*decoded) != bytes) std::abort();
}

}  // namespace

/// Frames from the processes that use the GPU, and cubins from the compile jail.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lathe::cuda;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  must_round_trip(decode_keeper_request(bytes), bytes);
  must_round_trip(decode_keeper_reply(bytes), bytes);
  must_round_trip(decode_device_facts(bytes), bytes);
  must_round_trip(decode_load_order(bytes), bytes);
  must_round_trip(decode_load(bytes), bytes);
  must_round_trip(decode_load_reply(bytes), bytes);
  must_round_trip(decode_block(bytes), bytes);
  must_round_trip(decode_block_reply(bytes), bytes);
  (void)facts_of_cubin(bytes);
  (void)facts_of_log(bytes);
  for (const auto& [kind, count] : facts_of_sass(bytes))
    if (kind.empty() || count < 1) std::abort();
  must_round_trip(decode_profile_job(bytes), bytes);
  must_round_trip(decode_profile_answer(bytes), bytes);
  const auto image = parse_cubin(bytes);
  if (image.ok() && image->code_bytes == 0 && !image->kernels.empty() &&
      check_cubin(bytes).reason == "bad_cubin")
    std::abort();
  return 0;
}

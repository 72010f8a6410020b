#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "backend/compile_job.h"
#include "backend/cpu/protocol.h"

namespace {

/// Whatever decodes must encode to the same bytes, so that frames are unambiguous and read
/// completely.
template <class Decoded>
void must_round_trip(const Decoded& decoded, std::string_view bytes) {
  if (decoded.ok() && lathe::protocol::encode(*decoded) != bytes) std::abort();
}

}  // namespace

/// Frames may come from a hostile process.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lathe::protocol;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  must_round_trip(decode_load(bytes), bytes);
  must_round_trip(decode_load_reply(bytes), bytes);
  must_round_trip(decode_block(bytes), bytes);
  must_round_trip(decode_block_reply(bytes), bytes);
  must_round_trip(decode_compile_job(bytes), bytes);
  must_round_trip(decode_compile_reply(bytes), bytes);
  return 0;
}

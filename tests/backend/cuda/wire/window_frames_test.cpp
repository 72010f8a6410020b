#include "backend/cuda/wire/window_frames.h"

#include <gtest/gtest.h>

namespace lathe::cuda {
namespace {

TEST(WindowFrames, ComeBackAsTheyWere) {
  WindowRequest request{.verb = WindowRequest::Verb::kFetch, .id = 7, .window = 3};
  request.inputs = 1, request.outputs = 2, request.poison = 0x55, request.offset = 4096;
  request.slot = 5, request.filled = true;
  const auto asked = decode_window_request(encode(request));
  ASSERT_TRUE(asked.ok());
  EXPECT_EQ(encode(*asked), encode(request));
  const WindowReply reply{.id = 7, .ok = true, .text = "why", .numbers = {1.5, 2.5}};
  const auto answered = decode_window_reply(encode(reply));
  ASSERT_TRUE(answered.ok());
  EXPECT_EQ(answered->numbers, reply.numbers);
  EXPECT_EQ(answered->text, "why");
  WindowDevice device{.facts = {.name = "a GPU", .uuid = "GPU-1"}, .dram_bytes_per_second = 4e12};
  const auto described = decode_window_device(encode(device));
  ASSERT_TRUE(described.ok());
  EXPECT_EQ(described->facts.uuid, "GPU-1");
  EXPECT_EQ(described->dram_bytes_per_second, 4e12);
}

TEST(WindowFrames, CutOnesAreRefused) {
  const std::string request = encode(WindowRequest{}), reply = encode(WindowReply{}),
                    device = encode(WindowDevice{});
  for (std::size_t size = 0; size < request.size(); ++size)
    EXPECT_FALSE(decode_window_request(request.substr(0, size)).ok());
  for (std::size_t size = 0; size < reply.size(); ++size)
    EXPECT_FALSE(decode_window_reply(reply.substr(0, size)).ok());
  for (std::size_t size = 0; size < device.size(); ++size)
    EXPECT_FALSE(decode_window_device(device.substr(0, size)).ok());
}

}  // namespace
}  // namespace lathe::cuda

#include "sandbox/channel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "sandbox/memfd.h"

namespace lathe {
namespace {

class ChannelTest : public testing::Test {
 protected:
  ChannelTest() : ends_(Channel::make_pair().value()) {}
  Channel& near() { return ends_.first; }
  Channel& far() { return ends_.second; }

 private:
  std::pair<Channel, Channel> ends_;
};

TEST_F(ChannelTest, FramesKeepTheirBorders) {
  ASSERT_TRUE(near().send("one").ok());
  ASSERT_TRUE(near().send(std::string("t\0o", 3)).ok());
  EXPECT_EQ(far().receive(1000)->bytes, "one");
  EXPECT_EQ(far().receive(1000)->bytes, std::string("t\0o", 3));
}

TEST_F(ChannelTest, WhoLooksOutSeesAFrameAndThePeersEnd) {
  constexpr std::int64_t kLongNs = 60'000'000'000;
  std::thread sender([&] { EXPECT_TRUE(near().send("one").ok()); });
  far().look_out(kLongNs);
  EXPECT_EQ(far().receive(0)->bytes, "one");
  sender.join();
  far().look_out(1000);  // nothing comes
  EXPECT_EQ(far().receive(0).error().code, ErrorCode::kTimeout);
  ::close(near().release());
  far().look_out(kLongNs);
  EXPECT_EQ(far().receive(0).error().code, ErrorCode::kIo);
}

TEST_F(ChannelTest, TheLargestFrameArrivesWhole) {
  const std::string large(kMaxFrameBytes, 'x');
  std::thread sender([&] { EXPECT_TRUE(near().send(large).ok()); });
  EXPECT_EQ(far().receive(5000)->bytes, large);
  sender.join();
}

TEST_F(ChannelTest, ALongerFrameIsCorruptAndTheNextOneIsNot) {
  ASSERT_TRUE(near().send(std::string(kMaxFrameBytes + 1, 'x')).ok());
  ASSERT_TRUE(near().send("next").ok());
  EXPECT_EQ(far().receive(1000).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(far().receive(1000)->bytes, "next");
}

TEST_F(ChannelTest, DescriptorsTravelAndCloseOnExec) {
  const UniqueFd memory = make_sealed_memfd("text", "hello").value();
  ASSERT_TRUE(near().send("take", {memory.get(), memory.get()}).ok());
  const auto frame = far().receive(1000);
  ASSERT_TRUE(frame.ok());
  ASSERT_EQ(frame->fds.size(), 2u);
  EXPECT_NE(frame->fds[0].get(), memory.get());
  EXPECT_TRUE(::fcntl(frame->fds[0].get(), F_GETFD) & FD_CLOEXEC);
  char text[6] = {};
  EXPECT_EQ(::pread(frame->fds[1].get(), text, 5, 0), 5);
  EXPECT_STREQ(text, "hello");
}

TEST_F(ChannelTest, DescriptorsOfARefusedFrameAreNotLeaked) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  ASSERT_TRUE(near().send(std::string(kMaxFrameBytes + 1, 'x'), {write_end.get()}).ok());
  write_end.reset();
  EXPECT_FALSE(far().receive(1000).ok());
  pollfd closed{read_end.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&closed, 1, 1000), 1);
  EXPECT_TRUE(closed.revents & POLLHUP);
}

TEST_F(ChannelTest, SilenceIsATimeoutAndAClosedPeerIsAnError) {
  EXPECT_EQ(near().receive(10).error().code, ErrorCode::kTimeout);
  const UniqueFd closing(far().release());
  ASSERT_TRUE(closing.valid());
  ::shutdown(closing.get(), SHUT_RDWR);
  EXPECT_EQ(near().receive(1000).error().code, ErrorCode::kIo);
  EXPECT_FALSE(near().send("x").ok());
}

}  // namespace
}  // namespace lathe

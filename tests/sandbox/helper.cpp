// Answers one question about itself over its channel: what process_test.cpp wants to know of a helper.

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "sandbox/process.h"

int main(int argc, char** argv) {
  const lathe::Channel channel{lathe::UniqueFd(lathe::kHelperChannelFd)};
  const auto question = channel.receive(5000);
  if (!question.ok()) return 1;
  std::string answer;
  if (question->bytes == "args")
    for (int i = 1; i < argc; ++i) answer += "[" + std::string(argv[i]) + "]";
  if (question->bytes == "environment")
    for (char** entry = environ; *entry; ++entry) answer += std::string(*entry) + ";";
  if (question->bytes == "descriptors")
    for (int fd = 0; fd < 1024; ++fd)
      if (::fcntl(fd, F_GETFD) >= 0) answer += std::to_string(fd) + " ";
  return channel.send(answer).ok() ? 0 : 1;
}

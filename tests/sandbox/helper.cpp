// Answers one question about itself over its channel: what process_test.cpp wants to know of a
// helper.

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>

#include "base/fd.h"
#include "sandbox/process.h"

int main(int argc, char** argv) {
  const lathe::Channel channel{lathe::UniqueFd(lathe::kHelperChannelFd)};
  if (argc == 3 && argv[1] == std::string("fail"))
    return lathe::fail_to_start({lathe::ErrorCode::kUnavailable, argv[2]});
  if (argc == 2 && argv[1] == std::string("crowded")) {
    const rlimit none{};
    ::setrlimit(RLIMIT_NPROC, &none);
    return lathe::serve_in_namespaces([] { return 0; }, {}, lathe::JailKind::kReduced);
  }
  if (argc == 2 && argv[1] == std::string("jailed")) {
    const auto answer = [&] {
      const auto score = lathe::read_file("/proc/self/oom_score_adj");
      return channel.send(score.ok() ? *score : score.error().to_string()).ok() ? 0 : 1;
    };
    return lathe::serve_in_namespaces(answer, {}, lathe::JailKind::kReduced);
  }
  const auto question = channel.receive(5000);
  if (!question.ok()) return 1;
  if (question->bytes == "crash") ::raise(SIGSEGV);
  std::string answer;
  if (question->bytes == "complain")
    if (!channel.send("ready").ok() || ::write(2, "too late", 8) < 0) return 1;
  if (question->bytes == "args")
    for (int i = 1; i < argc; ++i) answer += "[" + std::string(argv[i]) + "]";
  if (question->bytes == "environment")
    for (char** entry = environ; *entry; ++entry) answer += std::string(*entry) + ";";
  if (question->bytes == "descriptors")
    for (int fd = 0; fd < 1024; ++fd)
      if (::fcntl(fd, F_GETFD) >= 0) answer += std::to_string(fd) + " ";
  return channel.send(answer).ok() ? 0 : 1;
}

// A compile worker that compiles nothing, for compile_pool_test.cpp: its object is the source in
// capitals. A source "die" ends it, "sleep" takes it a minute.

#include <fcntl.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <thread>

#include "backend/compile_job.h"
#include "sandbox/memfd.h"
#include "sandbox/process.h"

int main() {
  using namespace lathe;
  const Channel channel{UniqueFd(kHelperChannelFd)};
  ::fcntl(kHelperChannelFd, F_SETFD, FD_CLOEXEC);
  serve_jobs(channel, [&](const protocol::CompileJob& job) -> Status {
    if (job.source == "die") return Error{ErrorCode::kInternal, "as it was told"};
    if (job.source == "sleep") std::this_thread::sleep_for(std::chrono::minutes(1));
    std::string object = job.source;
    std::ranges::transform(object, object.begin(), [](unsigned char c) { return std::toupper(c); });
    LATHE_TRY(const UniqueFd memory, make_sealed_memfd("object", object));
    return channel.send(protocol::encode(protocol::CompileReply{.ok = true}), {memory.get()});
  });
}

// A keeper without a GPU that fails as the name it is started by says, for the test of its client.
// What it has made it tells in place of a measurement: workloads, banks.

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "backend/cuda/wire/protocol.h"
#include "sandbox/process.h"

namespace lathe::cuda {
namespace {

using Verb = KeeperRequest::Verb;

std::atomic<int> workloads = 0, banks = 0, resets = 0;
std::string fault;
bool first = true;  ///< of the processes

void serve(const Channel& channel);

/// The last reset of the first process goes wrong.
bool fails_now(const KeeperRequest& request) {
  constexpr int kResetsThatWork = 3;
  return first && request.verb == Verb::kReset && ++resets > kResetsThatWork;
}

std::string answer(const KeeperRequest& request) {
  KeeperReply reply{request.id, true, "", {}};
  if (request.verb == Verb::kCreate) ++workloads;
  if (request.verb == Verb::kAddBank) ++banks;
  if (request.verb == Verb::kMeasure)
    reply.numbers = {static_cast<double>(workloads), static_cast<double>(banks)};
  if (request.verb == Verb::kCollect) reply.numbers = {-1};
  if (request.verb == Verb::kDestroy) reply = {request.id, false, "no such workload", {}};
  if (!fails_now(request)) return encode(reply);
  if (fault == "dies") ::_exit(0);
  if (fault == "hangs") std::this_thread::sleep_for(std::chrono::hours(1));
  if (fault == "late") std::this_thread::sleep_for(std::chrono::milliseconds(300));
  if (fault == "garbles") return "what?";
  if (fault == "confuses") ++reply.id;
  return encode(reply);
}

void serve(const Channel& channel) {
  for (;;) {
    auto frame = channel.receive(-1);
    if (!frame.ok()) return;
    const auto request = decode_keeper_request(frame->bytes);
    if (!request.ok()) ::_exit(3);
    if (request->verb == Verb::kServe)
      std::thread([own = Channel(std::move(frame->fds.at(0)))] { serve(own); }).detach();
    if (!channel.send(answer(*request)).ok()) return;
  }
}

int run(const std::filesystem::path& program) {
  fault = program.filename().string();
  const std::filesystem::path mark = program.string() + ".started";
  first = !std::filesystem::exists(mark);
  std::ofstream(mark).put('1');
  const Channel channel{UniqueFd(kHelperChannelFd)};
  DeviceFacts facts;
  facts.name = first || fault != "changes" ? "a GPU" : "another GPU";
  if (fault == "changes") fault = "dies";
  if (!channel.send(encode(facts)).ok()) return 1;
  serve(channel);
  ::_exit(0);
}

}  // namespace
}  // namespace lathe::cuda

int main(int, char** argv) { return lathe::cuda::run(argv[0]); }

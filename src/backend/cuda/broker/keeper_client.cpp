#include "backend/cuda/broker/keeper_client.h"

#include <fmt/format.h>

#include <algorithm>

#include "sandbox/memfd.h"

namespace lathe::cuda {
namespace {

constexpr int kStartTimeoutMs = 20'000;
constexpr int kUploadTimeoutMs = 60'000;
constexpr int kKeeperReplyTimeoutMs = 10'000;
constexpr std::int64_t kLargestCluster = 8;  // blocks, on every GPU that has clusters
constexpr std::size_t kPiecesOfFrame = kMaxFrameBytes / sizeof(Piece) - 16;

using Verb = KeeperRequest::Verb;

/// The process is gone, or hangs.
bool is_lost(const Error& error) { return error.code == ErrorCode::kIo || error.code == ErrorCode::kTimeout; }

Result<KeeperReply> read_reply(const Frame& frame) {
  LATHE_TRY(KeeperReply reply, decode_keeper_reply(frame.bytes));
  if (!reply.ok) return Error{ErrorCode::kUnavailable, "the GPU's memory: " + reply.text, "run lathe doctor"};
  return reply;
}

Result<KeeperReply> receive_reply(const Channel& channel, int timeout_ms) {
  LATHE_TRY(const Frame frame, channel.receive(timeout_ms));
  return read_reply(frame);
}

}  // namespace

std::string arch_of(const DeviceFacts& facts) {
  const char* const suffix = facts.compute_major >= 9 ? "a" : "";  // wgmma and its like
  return fmt::format("sm_{}{}{}", facts.compute_major, facts.compute_minor, suffix);
}

Dims facts_of(const DeviceFacts& facts) {
  return {{"sm_count", facts.multiprocessors},
          {"smem_optin", facts.shared_optin_bytes},
          {"l2_bytes", facts.l2_bytes},
          {"max_cluster", facts.compute_major >= 9 ? kLargestCluster : 1},
          {"threads", 1}};
}

Result<std::unique_ptr<KeeperClient>> KeeperClient::start(const std::string& runner_program) {
  LATHE_TRY(HelperProcess process, HelperProcess::spawn(runner_program, {"keep"}));
  std::unique_ptr<KeeperClient> client(new KeeperClient(runner_program, std::move(process)));
  LATHE_CHECK_OK(client->receive_facts());
  return client;
}

Status KeeperClient::receive_facts() {
  LATHE_TRY(const Frame frame, process_.channel().receive(kStartTimeoutMs));
  LATHE_TRY(facts_, decode_device_facts(frame.bytes));
  if (!facts_.error.empty()) return Error{ErrorCode::kUnavailable, facts_.error};
  return Ok{};
}

Result<KeeperReply> KeeperClient::exchange(const KeeperRequest& request, const std::vector<int>& fds,
                                           int timeout_ms) const {
  LATHE_CHECK_OK(process_.channel().send(encode(request), fds));
  return receive_reply(process_.channel(), timeout_ms);
}

Result<KeeperReply> KeeperClient::ask(const KeeperRequest& request, const std::vector<int>& fds,
                                      int timeout_ms) {
  std::lock_guard lock(mutex_);
  auto reply = exchange(request, fds, timeout_ms);
  if (reply.ok() || !is_lost(reply.error())) return reply;
  LATHE_CHECK_OK(restart());
  if (request.verb == Verb::kCollect)
    return Error{ErrorCode::kUnavailable, "the GPU was lost with the outputs of a block; it serves again"};
  return exchange(request, fds, timeout_ms);
}

Status KeeperClient::restart() {
  ++generation_;
  LATHE_TRY(process_, HelperProcess::spawn(program_, {"keep"}));
  LATHE_CHECK_OK(receive_facts());
  if (kernels_.valid()) {
    LATHE_TRY(const KeeperReply loaded, exchange({Verb::kKernels}, {kernels_.get()}, kKeeperReplyTimeoutMs));
  }
  for (const auto& [workload, held] : held_) {
    KeeperRequest again{Verb::kCreate, workload};
    again.layout = held.layout;
    LATHE_TRY(const KeeperReply made,
              exchange(again, {held.inputs.get(), held.outputs.get()}, kUploadTimeoutMs));
  }
  return Ok{};
}

Result<std::uint64_t> KeeperClient::create(const Layout& layout, UniqueFd inputs, UniqueFd outputs) {
  KeeperRequest request;
  request.verb = Verb::kCreate;
  request.layout = layout;
  {
    std::lock_guard lock(mutex_);
    request.workload = next_workload_++;
  }
  LATHE_TRY(const KeeperReply reply, ask(request, {inputs.get(), outputs.get()}, kUploadTimeoutMs));
  std::lock_guard lock(mutex_);
  held_.emplace(request.workload, Held{layout, std::move(inputs), std::move(outputs)});
  return request.workload;
}

void KeeperClient::destroy(std::uint64_t workload) {
  KeeperRequest request;
  request.verb = Verb::kDestroy;
  request.workload = workload;
  {
    std::lock_guard lock(mutex_);
    held_.erase(workload);
  }
  (void)ask(request, {}, kKeeperReplyTimeoutMs);
}

Status KeeperClient::reset(std::uint64_t workload, std::uint8_t poison) {
  LATHE_TRY(const KeeperReply reply, ask({Verb::kReset, workload, poison}, {}, kKeeperReplyTimeoutMs));
  return Ok{};
}

Result<int> KeeperClient::collect(std::uint64_t workload, std::vector<Piece> pieces) {
  int broken = -1;
  for (std::size_t first = 0; first < pieces.size() || first == 0; first += kPiecesOfFrame) {
    const std::size_t last = std::min(pieces.size(), first + kPiecesOfFrame);
    KeeperRequest request{Verb::kCollect, workload};
    request.pieces.assign(pieces.begin() + static_cast<std::ptrdiff_t>(first),
                          pieces.begin() + static_cast<std::ptrdiff_t>(last));
    LATHE_TRY(const KeeperReply reply, ask(request, {}, kKeeperReplyTimeoutMs));
    if (reply.numbers.size() != 1) return Error{ErrorCode::kCorrupt, "the GPU's memory: no word of canaries"};
    if (broken < 0) broken = static_cast<int>(reply.numbers[0]);
  }
  return broken;
}

Status KeeperClient::sample(std::uint64_t workload, std::vector<Piece> lines) {
  KeeperRequest request{Verb::kSample, workload};
  request.pieces = std::move(lines);
  LATHE_TRY(const KeeperReply reply, ask(request, {}, kKeeperReplyTimeoutMs));
  return Ok{};
}

Result<std::vector<UniqueFd>> KeeperClient::handles(std::uint64_t workload, const Layout& layout) {
  std::lock_guard lock(mutex_);
  auto received = receive_handles(workload, layout);
  if (received.ok() || !is_lost(received.error())) return received;
  LATHE_CHECK_OK(restart());
  return Error{ErrorCode::kUnavailable, "the GPU was lost; it serves again"};
}

Result<std::vector<UniqueFd>> KeeperClient::receive_handles(std::uint64_t workload,
                                                            const Layout& layout) const {
  LATHE_CHECK_OK(process_.channel().send(encode(KeeperRequest{Verb::kExport, workload})));
  const std::size_t count = allocations_of(layout.inputs, layout).bytes.size() +
                            allocations_of(layout.outputs, layout).bytes.size();
  std::vector<UniqueFd> handles;
  while (handles.size() < count) {
    LATHE_TRY(Frame frame, process_.channel().receive(kKeeperReplyTimeoutMs));
    if (frame.fds.empty()) {
      LATHE_TRY(const KeeperReply refusal, read_reply(frame));
      return Error{ErrorCode::kCorrupt, "the GPU's memory came without handles"};
    }
    std::ranges::move(frame.fds, std::back_inserter(handles));
  }
  LATHE_TRY(const KeeperReply reply, receive_reply(process_.channel(), kKeeperReplyTimeoutMs));
  return handles;
}

Status KeeperClient::load_kernels(const std::string& cubin) {
  LATHE_TRY(kernels_, make_sealed_memfd("kernels", cubin));
  LATHE_TRY(const KeeperReply reply, ask({Verb::kKernels}, {kernels_.get()}, kKeeperReplyTimeoutMs));
  return Ok{};
}

Status KeeperClient::multiply(const Product& product, const UniqueFd& matrices) {
  KeeperRequest request{Verb::kMultiply};
  request.product = product;
  LATHE_TRY(const KeeperReply reply, ask(request, {matrices.get()}, kUploadTimeoutMs));
  return Ok{};
}

Result<std::vector<double>> KeeperClient::measure() {
  LATHE_TRY(KeeperReply reply, ask({Verb::kMeasure}, {}, kKeeperReplyTimeoutMs));
  return std::move(reply.numbers);
}

}  // namespace lathe::cuda

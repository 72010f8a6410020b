#include "backend/cuda/broker/keeper_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>

#include "backend/cuda/wire/output_memory.h"
#include "sandbox/memfd.h"

namespace lathe::cuda {
namespace {

constexpr int kStartTimeoutMs = 20'000;
constexpr int kUploadTimeoutMs = 60'000;
constexpr std::int64_t kLargestCluster = 8;  // blocks, on every GPU that has clusters
constexpr std::size_t kPiecesOfFrame = kMaxFrameBytes / sizeof(Piece) - 16;

using Verb = KeeperRequest::Verb;

/// The process is gone, hangs, or says what makes no sense.
bool is_lost(const Error& error) {
  return error.code == ErrorCode::kIo || error.code == ErrorCode::kTimeout ||
         error.code == ErrorCode::kCorrupt;
}

Error lost_with(const char* what) {
  return {ErrorCode::kUnavailable, std::string("the GPU was lost with ") + what + "; it serves again"};
}

Result<KeeperReply> read_reply(const KeeperRequest& request, const Frame& frame) {
  LATHE_TRY(KeeperReply reply, decode_keeper_reply(frame.bytes));
  if (reply.id != request.id) return Error{ErrorCode::kCorrupt, "the GPU's memory: an answer to nothing"};
  if (!reply.ok) return Error{ErrorCode::kUnavailable, "the GPU's memory: " + reply.text, "run lathe doctor"};
  return reply;
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
          {"wgmma", facts.compute_major == 9 ? 1 : 0},
          {"threads", 1}};
}

/// A process and its channels, each of which serves one request at a time.
struct KeeperClient::Connection {
  HelperProcess process;
  std::mutex mutex = {};
  std::condition_variable freed = {};
  std::vector<std::unique_ptr<Channel>> free = {};
  std::atomic<std::uint64_t> next_id = 1;

  explicit Connection(HelperProcess started) : process(std::move(started)) {}

  Result<Answer> exchange(const Channel& channel, KeeperRequest request, const std::vector<int>& fds,
                          int timeout_ms) {
    request.id = next_id++;
    LATHE_CHECK_OK(channel.send(encode(request), fds));
    Answer answer;
    for (;;) {
      LATHE_TRY(Frame frame, channel.receive(timeout_ms));
      std::ranges::move(frame.fds, std::back_inserter(answer.handles));
      if (!frame.fds.empty()) continue;
      LATHE_TRY(answer.reply, read_reply(request, frame));
      return answer;
    }
  }

  /// On the process's first channel, before others know of it.
  Status tell(const KeeperRequest& request, const std::vector<int>& fds) {
    LATHE_TRY(const Answer answer, exchange(process.channel(), request, fds, kUploadTimeoutMs));
    return Ok{};
  }

  Status open_channels(int count) {
    for (int i = 0; i < count; ++i) {
      LATHE_TRY(auto pair, Channel::make_pair());
      LATHE_CHECK_OK(tell({Verb::kServe}, {pair.second.fd()}));
      free.push_back(std::make_unique<Channel>(std::move(pair.first)));
    }
    return Ok{};
  }
};

KeeperClient::Reserved::Reserved(std::shared_ptr<Connection> connection)
    : connection_(std::move(connection)) {
  std::unique_lock lock(connection_->mutex);
  connection_->freed.wait(lock, [&] { return !connection_->free.empty(); });
  channel_ = std::move(connection_->free.back());
  connection_->free.pop_back();
}

KeeperClient::Reserved::~Reserved() {
  std::lock_guard lock(connection_->mutex);
  connection_->free.push_back(std::move(channel_));
  connection_->freed.notify_one();
}

Result<std::unique_ptr<KeeperClient>> KeeperClient::start(const KeeperOptions& options) {
  std::unique_ptr<KeeperClient> client(new KeeperClient(options));
  LATHE_TRY(client->connection_, client->connect());
  return client;
}

std::shared_ptr<KeeperClient::Connection> KeeperClient::connection() const {
  std::lock_guard lock(mutex_);
  return connection_;
}

/// The first process tells the device's facts; a later one must be on the same device.
Result<std::shared_ptr<KeeperClient::Connection>> KeeperClient::connect() {
  LATHE_TRY(HelperProcess process, HelperProcess::spawn(options_.program, {"keep"}, options_.environment));
  auto made = std::make_shared<Connection>(std::move(process));
  LATHE_TRY(const Frame frame, made->process.first_frame(kStartTimeoutMs));
  LATHE_TRY(DeviceFacts facts, decode_device_facts(frame.bytes));
  if (!facts.error.empty()) return Error{ErrorCode::kUnavailable, facts.error};
  if (!connection_)
    facts_ = std::move(facts);
  else if (encode(facts) != encode(facts_))
    return Error{ErrorCode::kUnavailable, "the GPU was lost, and another one came: " + facts.name};
  LATHE_CHECK_OK(made->open_channels(options_.channels));
  return made;
}

Result<KeeperClient::Answer> KeeperClient::ask(const KeeperRequest& request, const std::vector<int>& fds,
                                               int timeout_ms, const std::function<void()>& remember) {
  for (int attempt = 0;; ++attempt) {
    const std::shared_ptr<Connection> current = connection();
    auto answer = [&] {
      const Reserved reserved(current);
      return current->exchange(*reserved.channel_, request, fds, timeout_ms);
    }();
    if (answer.ok()) {
      std::lock_guard lock(mutex_);
      if (current == connection_) {
        if (remember) remember();
        return answer;
      }
    } else if (!is_lost(answer.error())) {
      return answer;
    } else {
      LATHE_CHECK_OK(replace(current));
    }
    if (request.verb == Verb::kCollect) return lost_with("the outputs of a block");
    if (attempt > 0) return lost_with("a request, twice");
  }
}

/// One of the threads that notice does it, the others wait.
Status KeeperClient::replace(const std::shared_ptr<Connection>& lost) {
  std::lock_guard lock(mutex_);
  if (connection_ != lost) return Ok{};
  lost->process.kill();
  LATHE_TRY(const std::shared_ptr<Connection> made, connect());
  if (kernels_.valid()) LATHE_CHECK_OK(made->tell({Verb::kKernels}, {kernels_.get()}));
  for (const auto& [workload, held] : held_) {
    KeeperRequest request{Verb::kCreate, workload};
    request.layout = held.layout;
    LATHE_CHECK_OK(made->tell(request, {held.inputs.get()}));
    for (const auto& [bank, outputs] : held.banks)
      LATHE_CHECK_OK(made->tell({Verb::kAddBank, workload, bank}, {outputs.get()}));
  }
  ++generation_;
  connection_ = made;
  return Ok{};
}

Result<std::uint64_t> KeeperClient::create(const Layout& layout, UniqueFd inputs) {
  KeeperRequest request{Verb::kCreate, next_workload_++};
  request.layout = layout;
  LATHE_TRY(const Answer answer, ask(request, {inputs.get()}, kUploadTimeoutMs, [&] {
              held_.emplace(request.workload, Held{layout, std::move(inputs)});
            }));
  return request.workload;
}

void KeeperClient::destroy(std::uint64_t workload) {
  {
    std::lock_guard lock(mutex_);
    held_.erase(workload);
  }
  (void)ask({Verb::kDestroy, workload}, {}, options_.reply_timeout_ms);
}

Status KeeperClient::add_bank(std::uint64_t workload, std::uint32_t bank, UniqueFd outputs) {
  LATHE_TRY(const Answer answer, ask({Verb::kAddBank, workload, bank}, {outputs.get()}, kUploadTimeoutMs,
                                     [&] { held_.at(workload).banks.emplace(bank, std::move(outputs)); }));
  return Ok{};
}

Status KeeperClient::reset(std::uint64_t workload, std::uint32_t bank, std::uint8_t poison) {
  LATHE_TRY(const Answer answer, ask({Verb::kReset, workload, bank, poison}, {}, options_.reply_timeout_ms));
  return Ok{};
}

Result<int> KeeperClient::collect(std::uint64_t workload, std::uint32_t bank, std::vector<Piece> pieces) {
  int broken = -1;
  for (std::size_t first = 0; first < pieces.size() || first == 0; first += kPiecesOfFrame) {
    const std::size_t last = std::min(pieces.size(), first + kPiecesOfFrame);
    KeeperRequest request{Verb::kCollect, workload, bank};
    request.pieces.assign(pieces.begin() + static_cast<std::ptrdiff_t>(first),
                          pieces.begin() + static_cast<std::ptrdiff_t>(last));
    LATHE_TRY(const Answer answer, ask(request, {}, options_.reply_timeout_ms));
    const auto& numbers = answer.reply.numbers;
    if (numbers.size() != 1) return Error{ErrorCode::kCorrupt, "the GPU's memory: no word of canaries"};
    if (broken < 0) broken = static_cast<int>(numbers[0]);
  }
  return broken;
}

std::unique_ptr<KeeperClient::Reserved> KeeperClient::reserve() {
  return std::make_unique<Reserved>(connection());
}

Status KeeperClient::sample(Reserved& reserved, std::uint64_t workload, std::uint32_t bank,
                            std::vector<Piece> lines) const {
  KeeperRequest request{Verb::kSample, workload, bank};
  request.pieces = std::move(lines);
  LATHE_TRY(const Answer answer,
            reserved.connection_->exchange(*reserved.channel_, request, {}, options_.reply_timeout_ms));
  return Ok{};
}

Result<std::vector<UniqueFd>> KeeperClient::handles(std::uint64_t workload, std::uint32_t bank,
                                                    const Layout& layout) {
  LATHE_TRY(Answer answer, ask({Verb::kExport, workload, bank}, {}, options_.reply_timeout_ms));
  if (answer.handles.size() != handle_count(layout))
    return Error{ErrorCode::kUnavailable, "the GPU's memory came without its handles"};
  return std::move(answer.handles);
}

Status KeeperClient::load_kernels(const std::string& cubin) {
  LATHE_TRY(UniqueFd kernels, make_sealed_memfd("kernels", cubin));
  LATHE_TRY(const Answer answer, ask({Verb::kKernels}, {kernels.get()}, options_.reply_timeout_ms,
                                     [&] { kernels_ = std::move(kernels); }));
  return Ok{};
}

Status KeeperClient::multiply(const Product& product, const UniqueFd& matrices) {
  KeeperRequest request{Verb::kMultiply};
  request.product = product;
  LATHE_TRY(const Answer answer, ask(request, {matrices.get()}, kUploadTimeoutMs));
  return Ok{};
}

Result<std::vector<double>> KeeperClient::measure() {
  LATHE_TRY(Answer answer, ask({Verb::kMeasure}, {}, options_.reply_timeout_ms));
  return std::move(answer.reply.numbers);
}

}  // namespace lathe::cuda

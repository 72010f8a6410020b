#include "gemm/runtime/workspace.h"

#include <algorithm>
#include <functional>
#include <thread>

#include "gemm/runtime/plan.h"

namespace lathe::gemm {
namespace {

constexpr int kNonBlocking = 1, kRelaxed = 2, kCapturing = 1, kNoDestructorSync = 1, kMove = 1;

/// Lets this thread allocate while some stream is captured.
class Relaxed {
 public:
  explicit Relaxed(const Driver& driver) : driver_(driver) { driver_.exchange_capture_mode(&mode_); }
  ~Relaxed() { driver_.exchange_capture_mode(&mode_); }
  Relaxed(const Relaxed&) = delete;
  Relaxed& operator=(const Relaxed&) = delete;

 private:
  const Driver& driver_;
  int mode_ = kRelaxed;
};

std::pair<Stream, std::uint64_t> key_of(Stream stream) {
  // CU_STREAM_PER_THREAD names another stream in each thread.
  const bool per_thread = reinterpret_cast<std::uintptr_t>(stream) == 2;
  return {stream, per_thread ? std::hash<std::thread::id>()(std::this_thread::get_id()) : 0};
}

}  // namespace

Workspaces::~Workspaces() {
  for (const auto& [key, piece] : of_stream_) driver_.release(piece.at);
  const std::lock_guard lock(returned_->mutex);
  for (const Piece& piece : returned_->pieces) driver_.release(piece.at);
  returned_->pieces.clear();
  if (clearing_) driver_.stream_destroy(clearing_);
}

DevicePointer Workspaces::of(Stream stream, std::size_t bytes) {
  const Key key = key_of(stream);
  const std::lock_guard lock(mutex_);
  if (const auto lent = lent_.find(key); lent != lent_.end()) return lent->second;
  int status = 0;
  std::uint64_t capture = 0;
  GraphTag* graph = nullptr;
  if (driver_.capture_info(stream, &status, &capture, &graph, nullptr, nullptr) != 0) return 0;
  if (status == kCapturing) return of_capture(key, capture, graph, bytes);
  if (const auto known = of_stream_.find(key); known != of_stream_.end()) return known->second.at;
  const Piece piece = allocate(kWorkspaceBytes);
  if (piece.at != 0) of_stream_[key] = piece;
  return piece.at;
}

void Workspaces::lend(Stream stream, DevicePointer memory) {
  const std::lock_guard lock(mutex_);
  if (memory == 0)
    lent_.erase(key_of(stream));
  else
    lent_[key_of(stream)] = memory;
}

DevicePointer Workspaces::of_capture(const Key& key, std::uint64_t capture, GraphTag* graph,
                                     std::size_t bytes) {
  // Calls captured on one stream follow one another.
  Captured& last = captured_[key];
  if (last.capture == capture && last.piece.bytes >= bytes) return last.piece.at;
  Piece piece = take_returned(bytes);
  if (piece.at == 0) piece = allocate(bytes);
  if (piece.at == 0) return 0;
  auto loan = std::make_unique<Loan>(Loan{returned_, piece});
  UserObjectTag* object = nullptr;
  const bool kept =
      driver_.user_object_create(&object, loan.get(), &Workspaces::give_back, 1, kNoDestructorSync) == 0;
  if (kept) loan.release();  // NOLINT: give_back() deletes it
  if (!kept || driver_.graph_retain(graph, object, 1, kMove) != 0) {
    if (!kept) give_back(loan.release());
    return 0;
  }
  last = {capture, piece};
  return piece.at;
}

Workspaces::Piece Workspaces::take_returned(std::size_t bytes) {
  const std::lock_guard lock(returned_->mutex);
  auto& pieces = returned_->pieces;
  const auto found =
      std::find_if(pieces.begin(), pieces.end(), [&](const Piece& one) { return one.bytes >= bytes; });
  if (found == pieces.end()) return {};
  const Piece piece = *found;
  pieces.erase(found);
  return piece;
}

Workspaces::Piece Workspaces::allocate(std::size_t bytes) {
  const Relaxed relaxed(driver_);
  DevicePointer at = 0;
  if (driver_.allocate(&at, bytes) != 0) return {};
  if (clear(at)) return {at, bytes};
  driver_.release(at);
  return {};
}

bool Workspaces::clear(DevicePointer memory) {
  if (!clearing_ && driver_.stream_create(&clearing_, kNonBlocking) != 0) return false;
  return driver_.fill_words(memory, 0, kCounterBytes / 4, clearing_) == 0 &&
         driver_.stream_synchronize(clearing_) == 0;
}

void Workspaces::give_back(void* loan) {
  const std::unique_ptr<Loan> owned(static_cast<Loan*>(loan));
  const std::lock_guard lock(owned->to->mutex);
  owned->to->pieces.push_back(owned->piece);
}

}  // namespace lathe::gemm

#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "gemm/runtime/driver.h"

namespace lathe::gemm {

/// Device memory for kernels that gather, so that no two of their products that may run at once
/// have the same: one piece for each stream, and one for the calls that a capture makes on a
/// stream, which lives as long as the graph. Thread-safe; of the context that is current.
class Workspaces {
 public:
  explicit Workspaces(const Driver& driver) : driver_(driver) {}
  /// Graphs that were captured must be gone, or keep their memory until the context goes.
  ~Workspaces();
  Workspaces(const Workspaces&) = delete;
  Workspaces& operator=(const Workspaces&) = delete;

  /// Memory for a product on `stream`, its counters zero: kWorkspaceBytes, or `bytes` if it is
  /// being captured. 0 where there is none to be had.
  DevicePointer of(Stream stream, std::size_t bytes);

  /// From now on calls on `stream`, captured or not, use this; 0 takes it back.
  void lend(Stream stream, DevicePointer memory);

 private:
  using Key = std::pair<Stream, std::uint64_t>;  ///< and the thread, for the stream that each thread has
  struct Piece {
    DevicePointer at = 0;
    std::size_t bytes = 0;
  };
  /// Pieces whose graphs are gone. Those may outlive the handle.
  struct Returned {
    std::mutex mutex;
    std::vector<Piece> pieces;
  };
  struct Loan {
    std::shared_ptr<Returned> to;
    Piece piece;
  };
  /// The newest piece of a stream's capture.
  struct Captured {
    std::uint64_t capture = 0;
    Piece piece;
  };

  DevicePointer of_capture(const Key& key, std::uint64_t capture, GraphTag* graph, std::size_t bytes);
  Piece take_returned(std::size_t bytes);
  /// Allocated, with counters of zero.
  Piece allocate(std::size_t bytes);
  bool clear(DevicePointer memory);
  static void give_back(void* loan);

  const Driver& driver_;
  std::mutex mutex_;
  Stream clearing_ = nullptr;
  std::map<Key, Piece> of_stream_;
  std::map<Key, DevicePointer> lent_;
  std::map<Key, Captured> captured_;
  std::shared_ptr<Returned> returned_ = std::make_shared<Returned>();
};

}  // namespace lathe::gemm

#pragma once

#include <memory>
#include <mutex>

#include "backend/cuda/broker/keeper_client.h"
#include "sandbox/memfd.h"
#include "task/products.h"

namespace lathe::cuda {

/// Computes references' large products in the keeper's process and context. Thread-safe: calls are
/// serialised.
class DeviceProducts final : public ProductEngine {
 public:
  explicit DeviceProducts(std::shared_ptr<KeeperClient> keeper) : keeper_(std::move(keeper)) {}
  /// kUnavailable if the device lacks memory, or if a view is neither row- nor column-major.
  Status multiply(const MatrixProduct<double>& product) override;
  Status multiply(const MatrixProduct<float>& product) override;
  Status multiply(const GatheredProduct<double>& product) override;
  Status multiply(const GatheredProduct<float>& product) override;
  /// Releases the staging memory.
  void rest();

 private:
  template <class T>
  Status multiply_there(const MatrixProduct<T>& product);
  template <class T>
  Status multiply_there(const GatheredProduct<T>& product);
  Status reserve(std::uint64_t bytes);

  std::shared_ptr<KeeperClient> keeper_;
  std::mutex mutex_;
  UniqueFd memory_;  ///< shared with the keeper; kept until rest(), because allocating it is slow
  Mapping matrices_;
};

}  // namespace lathe::cuda

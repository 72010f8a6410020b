#pragma once

#include <memory>

#include "backend/cuda/keeper_client.h"
#include "task/products.h"

namespace lathe::cuda {

/// References' large products, in the keeper's process and context. Thread-safe: one at a time.
class DeviceProducts final : public ProductEngine {
 public:
  explicit DeviceProducts(std::shared_ptr<KeeperClient> keeper) : keeper_(std::move(keeper)) {}
  /// kUnavailable: the device has no room for the matrices, or a view is of neither order.
  Status multiply(const MatrixProduct<double>& product) override;
  Status multiply(const MatrixProduct<float>& product) override;

 private:
  std::shared_ptr<KeeperClient> keeper_;
};

}  // namespace lathe::cuda

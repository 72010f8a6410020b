#pragma once

#include <memory>
#include <mutex>

#include "backend/cuda/broker/keeper_client.h"
#include "backend/device_lane.h"
#include "sandbox/memfd.h"
#include "task/products.h"

namespace lathe::cuda {

/// Computes references' large products in the keeper's process and context. Thread-safe: calls are
/// serialised.
class DeviceProducts final : public ProductEngine {
 public:
  DeviceProducts(std::shared_ptr<KeeperClient> keeper, DeviceLane& lane)
      : keeper_(std::move(keeper)), lane_(lane) {}
  /// kUnavailable if the device lacks memory, or if a view is neither row- nor column-major.
  Status multiply(const MatrixProduct<double>& product) override;
  Status multiply(const MatrixProduct<float>& product) override;
  Status multiply(const GatheredProduct<double>& product) override;
  Status multiply(const GatheredProduct<float>& product) override;
  /// Releases the staging memory.
  void on_idle();

 private:
  template <class T>
  Status multiply_there(const MatrixProduct<T>& product);
  template <class T>
  Status multiply_there(const GatheredProduct<T>& product);
  Status multiply_on_device(const Product& request);
  Status reserve(std::uint64_t bytes);

  std::shared_ptr<KeeperClient> keeper_;
  DeviceLane& lane_;
  std::mutex mutex_;
  UniqueFd memory_;  ///< shared with the keeper; kept until on_idle(), because allocating it is slow
  Mapping matrices_;
};

}  // namespace lathe::cuda

#pragma once

#include <cmath>
#include <functional>
#include <set>

#include "gemm/device.h"

namespace lathe::gemm {

/// A GPU whose kernels take the model's time, but for those that a test changes.
class FakeGemmDevice final : public Device {
 public:
  const DeviceFacts& facts() const override { return facts_; }

  Result<Contender> add_kernel(const Plan& plan, std::string_view) override {
    plans_.push_back(plan);
    return static_cast<Contender>(plans_.size() - 1);
  }
  Result<std::vector<VendorContender>> add_vendors(const Size&, const Track& track) override {
    vendors_of = track;
    return std::vector<VendorContender>{
        {-1, "cublas_nn"}, {-2, "cublas_tn"}, {-3, "lt_nn_0"}, {-4, "lt_tn_0"}, {-5, "lt_tn_1"}};
  }
  void drop_vendors() override {}

  Result<std::vector<RoundTimes>> time(const Size& size, std::span<const Contender> contenders,
                                       const TimeOptions& options) override {
    ++timings;
    if (on_time) on_time(size);
    std::vector<RoundTimes> times;
    for (const Contender id : contenders) {
      if (lost) return Error{ErrorCode::kUnavailable, "CUDA_ERROR_ILLEGAL_ADDRESS"};
      const std::string name = id < 0 ? "vendor" : name_of(plans_.at(static_cast<std::size_t>(id)));
      if (faulty.contains(name)) {
        lost = true;
        return Error{ErrorCode::kUnavailable, "CUDA_ERROR_ILLEGAL_ADDRESS"};
      }
      if (unlaunchable.contains(name)) return Error{ErrorCode::kUnavailable, "CUDA_ERROR_INVALID_VALUE"};
      const double ns = id < 0 ? 4000 - 100 * id : time_of(size, plans_.at(static_cast<std::size_t>(id)));
      times.emplace_back(static_cast<std::size_t>(options.rounds), options.cold ? 1.5 * ns : ns);
    }
    return times;
  }
  /// The host's part is 1000 ns of ours, 2000 of a vendor's; a gap makes a call twice as long.
  Result<std::vector<CallTimes>> time_calls(const Size& size, std::span<const Contender> contenders,
                                            const CallOptions& options) override {
    std::vector<CallTimes> times;
    for (const Contender id : contenders) {
      const double host_ns = id < 0 ? 2000 : 1000;
      const double ns =
          host_ns + (id < 0 ? 4000 - 100 * id : time_of(size, plans_.at(static_cast<std::size_t>(id))));
      const auto calls = static_cast<std::size_t>(options.calls);
      times.push_back({RoundTimes(calls, options.gap_us > 0 ? 2 * ns : ns), RoundTimes(calls, host_ns)});
    }
    return times;
  }
  Status verify(const Size&, Contender kernel, int) override {
    const std::string name = name_of(plans_.at(static_cast<std::size_t>(kernel)));
    if (wrong.contains(name)) return refused("wrong_result", name + ": 3 wrong elements");
    return Ok{};
  }
  Result<Draw> draw(const Size&, Contender contender, double) override {
    return contender < 0 ? Draw{500, "power_cap"} : Draw{400, ""};
  }
  Result<double> clock_mhz() override {
    if (lost) return Error{ErrorCode::kUnavailable, "CUDA_ERROR_ILLEGAL_ADDRESS"};
    return 1980.0;
  }

  double time_of(const Size& size, const Plan& plan) const {
    const auto found = changed.find(name_of(plan));
    return model_ns(plan, {plan.layout, size.m, size.n, size.k}, facts_.sm_count) *
           (found == changed.end() ? 1 : found->second);
  }

  std::set<std::string> wrong, faulty, unlaunchable;
  std::map<std::string, double> changed;  ///< factors of the model's time
  std::function<void(const Size&)> on_time;
  bool lost = false;
  Track vendors_of;
  int timings = 0;

 private:
  DeviceFacts facts_{"a fake GPU", 132};
  std::vector<Plan> plans_;
};

}  // namespace lathe::gemm

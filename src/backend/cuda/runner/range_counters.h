#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/runner/cupti_api.h"

namespace lathe::cuda {

/// The configuration with which one kind of chip collects the given metrics. Needs no GPU.
class MetricConfig {
 public:
  /// Leaves out metrics that the chip lacks. `availability` may be empty.
  static Result<MetricConfig> make(const Cupti& cupti, const char* chip, std::span<const std::string> metrics,
                                   std::vector<std::uint8_t> availability);
  MetricConfig(MetricConfig&& other) noexcept;
  ~MetricConfig();

  const std::vector<std::string>& metrics() const { return metrics_; }
  const std::vector<std::uint8_t>& image() const { return image_; }
  Result<std::map<std::string, double>> evaluate(const std::vector<std::uint8_t>& data) const;

 private:
  explicit MetricConfig(const Cupti& cupti) : cupti_(&cupti) {}
  bool knows(const std::string& metric) const;

  const Cupti* cupti_;
  CuptiHost host_ = nullptr;
  std::vector<std::string> metrics_;
  std::vector<std::uint8_t> availability_, image_;
};

/// Collects metrics over `work`, which runs once per pass that the hardware needs, each time after
/// `prepare`. kUnavailable if counters are missing or not permitted; the hint says why.
Result<std::map<std::string, double>> count_metrics(Context context, std::span<const std::string> metrics,
                                                    const std::function<Status()>& prepare,
                                                    const std::function<Status()>& work);

}  // namespace lathe::cuda

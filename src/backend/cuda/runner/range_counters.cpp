#include "backend/cuda/runner/range_counters.h"

#include <cmath>
#include <utility>

namespace lathe::cuda {
namespace {

constexpr int kMostPasses = 100;

std::vector<const char*> pointers_to(std::span<const std::string> names) {
  std::vector<const char*> pointers;
  for (const std::string& name : names) pointers.push_back(name.c_str());
  return pointers;
}

/// Owns the range profiler of the current context.
class RangeProfiler {
 public:
  explicit RangeProfiler(const Cupti& cupti) : cupti_(cupti) {}
  ~RangeProfiler() {
    CuptiRangeOnly off;
    off.range = range_;
    if (range_) cupti_.disable(&off);
  }
  RangeProfiler(const RangeProfiler&) = delete;
  RangeProfiler& operator=(const RangeProfiler&) = delete;

  Status enable(Context context, const MetricConfig& config) {
    CuptiEnable on;
    on.context = context;
    LATHE_CHECK_OK(check_cupti(cupti_.enable(&on), "cannot enable counters"));
    range_ = on.range;
    auto names = pointers_to(config.metrics());
    CuptiDataSize size;
    size.range = range_;
    size.metrics = names.data();
    size.count = names.size();
    LATHE_CHECK_OK(check_cupti(cupti_.data_size(&size), "cannot size the counters' data"));
    data_.resize(size.bytes);
    CuptiDataInitialize fresh;
    fresh.range = range_;
    fresh.bytes = data_.size();
    fresh.data = data_.data();
    LATHE_CHECK_OK(check_cupti(cupti_.data_initialize(&fresh), "cannot prepare the counters' data"));
    CuptiSetConfig set;
    set.range = range_;
    set.config = config.image().data();
    set.config_bytes = config.image().size();
    set.data = data_.data();
    set.data_bytes = data_.size();
    return check_cupti(cupti_.set_config(&set), "cannot choose counters");
  }

  /// True once the hardware has completed all passes.
  Result<bool> pass(const std::function<Status()>& work) {
    CuptiRangeOnly range;
    range.range = range_;
    CuptiPush push;
    push.range = range_;
    push.name = "calls";
    CuptiStop stop;
    stop.range = range_;
    LATHE_CHECK_OK(check_cupti(cupti_.start(&range), "cannot start counting"));
    LATHE_CHECK_OK(check_cupti(cupti_.push(&push), "cannot begin a range"));
    Status worked = work();
    LATHE_CHECK_OK(check_cupti(cupti_.pop(&range), "cannot end a range"));
    LATHE_CHECK_OK(check_cupti(cupti_.stop(&stop), "cannot stop counting"));
    LATHE_CHECK_OK(std::move(worked));
    return stop.all_passes != 0;
  }

  Status decode() {
    CuptiDecode decode;
    decode.range = range_;
    return check_cupti(cupti_.decode(&decode), "cannot read the counters");
  }
  const std::vector<std::uint8_t>& data() const { return data_; }

 private:
  const Cupti& cupti_;
  CuptiRange range_ = nullptr;
  std::vector<std::uint8_t> data_;
};

Result<std::vector<std::uint8_t>> available_counters(const Cupti& cupti, Context context) {
  CuptiAvailability request;
  request.context = context;
  LATHE_CHECK_OK(check_cupti(cupti.availability(&request), "cannot ask for counters"));
  std::vector<std::uint8_t> image(request.bytes);
  request.image = image.data();
  LATHE_CHECK_OK(check_cupti(cupti.availability(&request), "cannot ask for counters"));
  return image;
}

}  // namespace

Result<MetricConfig> MetricConfig::make(const Cupti& cupti, const char* chip,
                                        std::span<const std::string> metrics,
                                        std::vector<std::uint8_t> availability) {
  MetricConfig config(cupti);
  config.availability_ = std::move(availability);
  CuptiHostInitialize begin;
  begin.chip = chip;
  begin.availability = config.availability_.empty() ? nullptr : config.availability_.data();
  LATHE_CHECK_OK(check_cupti(cupti.host_initialize(&begin), "cannot look up this chip's counters"));
  config.host_ = begin.host;
  for (const std::string& metric : metrics)
    if (config.knows(metric)) config.metrics_.push_back(metric);
  auto names = pointers_to(config.metrics_);
  CuptiAddMetrics add;
  add.host = config.host_;
  add.metrics = names.data();
  add.count = names.size();
  LATHE_CHECK_OK(check_cupti(cupti.add_metrics(&add), "cannot choose counters"));
  CuptiConfigSize size;
  size.host = config.host_;
  LATHE_CHECK_OK(check_cupti(cupti.config_size(&size), "cannot choose counters"));
  config.image_.resize(size.bytes);
  CuptiConfigImage image;
  image.host = config.host_;
  image.bytes = config.image_.size();
  image.image = config.image_.data();
  LATHE_CHECK_OK(check_cupti(cupti.config_image(&image), "cannot choose counters"));
  return config;
}

MetricConfig::MetricConfig(MetricConfig&& other) noexcept
    : cupti_(other.cupti_),
      host_(std::exchange(other.host_, nullptr)),
      metrics_(std::move(other.metrics_)),
      availability_(std::move(other.availability_)),
      image_(std::move(other.image_)) {}

MetricConfig::~MetricConfig() {
  CuptiHostOnly end;
  end.host = host_;
  if (host_) cupti_->host_deinitialize(&end);
}

bool MetricConfig::knows(const std::string& metric) const {
  CuptiMetricProperties properties;
  properties.host = host_;
  properties.metric = metric.c_str();
  return cupti_->metric_properties(&properties) == 0;
}

Result<std::map<std::string, double>> MetricConfig::evaluate(const std::vector<std::uint8_t>& data) const {
  std::vector<double> values(metrics_.size());
  auto names = pointers_to(metrics_);
  CuptiEvaluate request;
  request.host = host_;
  request.data = data.data();
  request.bytes = data.size();
  request.metrics = names.data();
  request.count = names.size();
  request.values = values.data();
  LATHE_CHECK_OK(check_cupti(cupti_->evaluate(&request), "cannot evaluate the counters"));
  std::map<std::string, double> counted;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (std::isfinite(values[i])) counted[metrics_[i]] = values[i];
  return counted;
}

Result<std::map<std::string, double>> count_metrics(Context context, std::span<const std::string> metrics,
                                                    const std::function<Status()>& prepare,
                                                    const std::function<Status()>& work) {
  LATHE_TRY(const Cupti* bound, cupti());
  CuptiInitialize initialize;
  LATHE_CHECK_OK(check_cupti(bound->initialize(&initialize), "cannot initialise CUPTI"));
  CuptiChipName chip;
  LATHE_CHECK_OK(check_cupti(bound->chip_name(&chip), "cannot identify the chip"));
  LATHE_TRY(auto availability, available_counters(*bound, context));
  LATHE_TRY(const MetricConfig config,
            MetricConfig::make(*bound, chip.name, metrics, std::move(availability)));
  RangeProfiler profiler(*bound);
  LATHE_CHECK_OK(profiler.enable(context, config));
  bool complete = false;
  for (int pass = 0; pass < kMostPasses && !complete; ++pass) {
    LATHE_CHECK_OK(prepare());
    LATHE_TRY(complete, profiler.pass(work));
  }
  LATHE_CHECK_OK(profiler.decode());
  return config.evaluate(profiler.data());
}

}  // namespace lathe::cuda

#include "task/ops/support/bilinear.h"

#include <mutex>

#include "task/ops/support/indexing.h"

namespace lathe::ops {

std::vector<float> magnitudes(const Value& x, double factor, bool with_error, double scale) {
  auto result = zero_vector<float>(x.data.size());
  const bool add_error = with_error && !x.err.empty();
  for_each_part(result.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const double value = factor * std::fabs(x.data[i]) + (add_error ? x.err[i] : 0.0);
      result[i] = static_cast<float>(value * scale);
    }
  });
  return result;
}

std::vector<float> nonzero_flags(const Value& x) {
  auto result = zero_vector<float>(x.data.size());
  for_each_part(result.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) result[i] = may_round(x.data[i], x.error_at(i)) ? 1.0f : 0.0f;
  });
  return result;
}

double largest_magnitude(const Value& x, bool with_error) {
  double largest = 0;
  std::mutex mutex;
  for_each_part(x.data.size(), [&](std::size_t begin, std::size_t end) {
    double here = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const double value = std::fabs(x.data[i]) + (with_error ? x.error_at(i) : 0.0);
      if (std::isfinite(value)) here = std::max(here, value);
    }
    std::lock_guard lock(mutex);
    largest = std::max(largest, here);
  });
  return largest;
}

void add_scaled(const std::vector<float>& added, double factor, std::vector<double>& to) {
  for_each_part(to.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) to[i] += factor * static_cast<double>(added[i]);
  });
}

void scale_by_sums(const std::vector<float>& terms, const Numerics& numerics, std::vector<double>& to) {
  for_each_part(to.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      to[i] *= sum_factor(numerics, static_cast<double>(terms[i])) * numerics.unit_roundoff;
  });
}

void add_bias(const Value& bias, std::size_t stride, const Numerics& numerics, Value& out) {
  if (!bias.err.empty() && out.err.empty()) fill_zeros(out.err, out.data.size());
  for_each_part(out.data.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t channel = i / stride % bias.data.size();
      out.data[i] += bias.data[channel];
      if (out.err.empty()) continue;
      out.err[i] += bias.error_at(channel) + rounding(numerics, out.data[i]) +
                    start_error(numerics, out.terms, bias.data[channel]);
    }
  });
}

Value zero_tail(const Value& x, std::size_t axis, std::int64_t count) {
  Value result{x.shape, x.data, {}};
  const Lines lines = lines_along(x.shape, axis);
  const std::size_t kept = lines.length - std::min(lines.length, static_cast<std::size_t>(count));
  for (std::size_t line = 0; line < lines.count; ++line) {
    for (std::size_t i = kept; i < lines.length; ++i) result.data[lines.start(line) + i * lines.stride] = 0;
  }
  return result;
}

}  // namespace lathe::ops

#include "task/ops/support/bilinear.h"

#include "task/ops/support/indexing.h"

namespace lathe::ops {

std::vector<float> magnitudes(const Value& x, double factor, bool with_error, double scale) {
  auto result = zero_vector<float>(x.data.size());
  const bool add_error = with_error && !x.err.empty();
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double value = factor * std::fabs(x.data[i]) + (add_error ? x.err[i] : 0.0);
    result[i] = static_cast<float>(value * scale);
  }
  return result;
}

std::vector<float> nonzero_flags(const Value& x) {
  auto result = zero_vector<float>(x.data.size());
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = x.data[i] != 0 ? 1.0f : 0.0f;
  return result;
}

double largest_magnitude(const Value& x, bool with_error) {
  double largest = 0;
  for (std::size_t i = 0; i < x.data.size(); ++i) {
    const double value = std::fabs(x.data[i]) + (with_error ? x.error_at(i) : 0.0);
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  return largest;
}

void add_bias(const Value& bias, std::size_t stride, const Numerics& numerics, Value& out) {
  if (!bias.err.empty()) out.err.resize(out.data.size(), 0.0);
  for (std::size_t i = 0; i < out.data.size(); ++i) {
    const std::size_t channel = i / stride % bias.data.size();
    out.data[i] += bias.data[channel];
    if (out.err.empty()) continue;
    out.err[i] += bias.error_at(channel) + rounding(numerics, out.data[i]) +
                  start_error(numerics, out.terms, bias.data[channel]);
  }
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

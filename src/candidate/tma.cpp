#include "candidate/tma.h"

#include <fmt/format.h>

namespace lathe {
namespace {

constexpr std::int64_t kMaxExtent = std::int64_t{1} << 32;
constexpr std::int64_t kMaxStride = std::int64_t{1} << 40;
constexpr std::int64_t kMaxBox = 256, kMaxBoxBytes = 227 << 10;
constexpr std::int64_t kAlign = 16;

class TmaCheck {
 public:
  TmaCheck(const TmaDecl& declared, BoundTma& map)
      : declared_(declared), map_(map), element_(static_cast<std::int64_t>(info(map.dtype).bytes)) {}

  Status run(std::int64_t buffer_bytes) {
    for (std::size_t i = 0; i < map_.dims.size(); ++i)
      if (map_.dims[i] < 1 || map_.dims[i] > kMaxExtent)
        return refuse(fmt::format("dims[{}] is {}", i, map_.dims[i]), "it must lie in 1..2^32");
    LATHE_CHECK_OK(check_strides());
    LATHE_CHECK_OK(check_box());
    if (map_.fill_nan && !info(map_.dtype).is_float)
      return refuse("fill = \"nan\" needs a floating-point dtype", "use zero");
    return check_span(buffer_bytes);
  }

 private:
  Error refuse(const std::string& what, const std::string& hint) const {
    return invalid(fmt::format("bad_tma: map '{}': {}", declared_.name, what), hint, declared_.where);
  }

  Status check_strides() {
    const bool packed = map_.strides.empty();
    std::int64_t stride = element_ * map_.dims[0];
    for (std::size_t i = 0; i + 1 < map_.dims.size(); ++i) {
      if (packed) {
        if (i > 0) stride = stride < kMaxStride / map_.dims[i] ? stride * map_.dims[i] : kMaxStride;
        map_.strides.push_back(stride);
      }
      const std::int64_t given = map_.strides[i];
      if (given < kAlign || given >= kMaxStride || given % kAlign != 0)
        return refuse(
            fmt::format("strides[{}] is {} bytes", i, given),
            "it must be a multiple of 16 below 2^40; `when` or `requires` can keep such shapes away");
    }
    return Ok{};
  }

  Status check_box() {
    std::int64_t bytes = element_;
    for (std::size_t i = 0; i < map_.box.size(); ++i) {
      if (map_.box[i] < 1 || map_.box[i] > kMaxBox)
        return refuse(fmt::format("box[{}] is {}", i, map_.box[i]), "it must lie in 1..256");
      bytes *= map_.box[i];
      if (bytes > kMaxBoxBytes) return refuse("the box is larger than shared memory", "at most 227 KiB");
    }
    const std::int64_t inner = element_ * map_.box[0];
    if (inner % kAlign != 0)
      return refuse(fmt::format("the box is {} bytes wide", inner),
                    "box[0] must fill a multiple of 16 bytes");
    const std::int64_t swizzle = map_.swizzle;
    if (swizzle != 0 && swizzle != 32 && swizzle != 64 && swizzle != 128)
      return refuse(fmt::format("swizzle is {}", swizzle), "allowed: 0, 32, 64, 128");
    if (swizzle != 0 && inner > swizzle)
      return refuse(fmt::format("the box is {} bytes wide, the swizzle {}", inner, swizzle),
                    "copy several narrower boxes");
    return Ok{};
  }

  Status check_span(std::int64_t buffer_bytes) const {
    std::int64_t span = element_ * map_.dims[0];
    for (std::size_t i = 1; i < map_.dims.size() && span <= buffer_bytes; ++i) {
      const std::int64_t steps = map_.dims[i] - 1, stride = map_.strides[i - 1];
      span = steps > buffer_bytes / stride ? buffer_bytes + 1 : span + steps * stride;
    }
    if (span <= buffer_bytes) return Ok{};
    return refuse(fmt::format("it reaches beyond the {} bytes of '{}'", buffer_bytes, declared_.base),
                  "dims and strides begin with the innermost dim");
  }

  const TmaDecl& declared_;
  BoundTma& map_;
  std::int64_t element_;
};

}  // namespace

Status complete_tma(const TmaDecl& declared, std::int64_t buffer_bytes, BoundTma& map) {
  return TmaCheck(declared, map).run(buffer_bytes);
}

}  // namespace lathe

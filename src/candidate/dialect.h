#pragma once

namespace lathe {

/// The language of a device's kernels.
enum class Dialect { kCpu, kCuda };

}  // namespace lathe

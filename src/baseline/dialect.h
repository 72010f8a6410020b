#pragma once

namespace lathe {

/// In which language a baseline is written.
enum class Dialect { kCpu, kCuda };

}  // namespace lathe

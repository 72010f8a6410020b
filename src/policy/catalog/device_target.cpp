#include "policy/catalog/device_target.h"

namespace lathe::catalog {

Target target_of(const DeviceInfo& device) {
  const auto found = device.facts.find("vector_bytes");
  const bool known = found != device.facts.end() && found->second >= 32;
  Target target{.cuda = device.dialect == Dialect::kCuda,
                .lanes = known ? static_cast<int>(found->second / 4) : 16};
  const auto fact = [&](const char* name, int otherwise) {
    const auto at = device.facts.find(name);
    return at != device.facts.end() ? static_cast<int>(at->second) : otherwise;
  };
  target.bf16_pairs = fact("bf16_pairs", 0) != 0;
  target.cluster = fact("max_cluster", 1);
  target.shared_bytes = fact("smem_optin", 48 * 1024);
  target.multiprocessors = fact("sm_count", target.multiprocessors);
  target.warpgroups = fact("wgmma", 0) != 0;
  return target;
}

}  // namespace lathe::catalog

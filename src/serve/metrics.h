#pragma once

#include <string>

#include "serve/service.h"

namespace lathe::serve {

/// Prometheus' text format, version 0.0.4.
std::string metrics_text(const ServiceCounts& counts, int quarantined_workers);

}  // namespace lathe::serve

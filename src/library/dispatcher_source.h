#pragma once

#include <string>
#include <vector>

#include "library/kernel_source.h"

namespace lathe {

/// The C header of a package.
std::string header_source(const ExportRequest& request, const std::string& package);

/// The C++ file behind it: the plan's expressions as code, over integers that notice overflow and division by
/// zero. Errors: an expression uses a device fact that the request lacks.
Result<std::string> dispatcher_source(const ExportRequest& request, const std::string& package,
                                      const std::vector<KernelVariant>& variants);

}  // namespace lathe

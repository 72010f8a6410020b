#pragma once

#include <cstdint>
#include <string>

#include "task/spec.h"

namespace lathe {

struct GenerateOptions {
  int min_nodes = 2;
  int max_nodes = 6;
  std::int64_t max_elements = 1 << 20;  ///< of the largest tensor at the scored shape
};

/// A sound, non-degenerate task sampled from a seed: TOML text that parses and passes lint. Equal
/// seeds and options give equal text.
Result<std::string> generate_task(std::uint64_t seed, const GenerateOptions& options = {});

}  // namespace lathe

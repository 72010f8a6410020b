#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/weight_format.h"

namespace lathe {

struct SafetensorsEntry {
  std::string name;
  std::vector<std::int64_t> shape;
  WeightFormat format = WeightFormat::kF32;
  std::span<const std::byte> bytes;
};

/// The tensors of one .safetensors file, sorted by name, all checked against the file's bytes, into
/// which they point. Formats other than F32, F16 and BF16 are refused. Errors (kCorrupt, kInvalid)
/// name `file` and the tensor.
Result<std::vector<SafetensorsEntry>> parse_safetensors(std::span<const std::byte> bytes,
                                                        const std::string& file);

}  // namespace lathe

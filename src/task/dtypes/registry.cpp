#include <array>
#include <string>

#include "task/dtypes/dtypes.h"

namespace lathe {

std::span<const DTypeInfo> all_dtypes() {
  static const std::array table{dtypes::fp64(),  dtypes::fp32(),    dtypes::fp16(),
                                dtypes::bf16(),  dtypes::fp8e4m3(), dtypes::int8(),
                                dtypes::int32(), dtypes::int64(),   dtypes::boolean()};
  return table;
}

const DTypeInfo& info(DType dtype) {
  const DTypeInfo& entry = all_dtypes()[static_cast<std::size_t>(dtype)];
  assert(entry.dtype == dtype);
  return entry;
}

Result<DType> parse_dtype(std::string_view name, const SourcePos& where) {
  std::string known;
  for (const DTypeInfo& entry : all_dtypes()) {
    if (entry.name == name) return entry.dtype;
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  return invalid("unknown dtype '" + std::string(name) + "'", "the dtypes are " + known, where);
}

}  // namespace lathe

#include "task/native_reference.h"

namespace lathe {

Result<std::unique_ptr<Reference>> make_native_reference(const TaskSpec& spec) {
  return Error{ErrorCode::kUnavailable, "native references are not supported", {}, {spec.path, 0, 0}};
}

}  // namespace lathe

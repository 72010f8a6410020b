#pragma once

#include <exception>
#include <new>
#include <string>
#include <type_traits>

#include "base/result.h"

namespace lathe {

inline Error out_of_memory() {
  return {ErrorCode::kUnavailable, "out of memory",
          "raise the memory limit, or use smaller shapes and fewer threads"};
}

/// What `work` returns, which is a Result. Memory that ran out, and whatever a library threw, are
/// Errors.
template <class Work>
std::invoke_result_t<Work> without_exceptions(Work&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::exception& exception) {
    return Error{ErrorCode::kInternal, std::string("an unexpected exception: ") + exception.what()};
  }
}

}  // namespace lathe

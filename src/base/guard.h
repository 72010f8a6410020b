#pragma once

#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

#include "base/result.h"

namespace lathe {

inline Error out_of_memory() {
  return {ErrorCode::kUnavailable, "out of memory",
          "raise the memory limit, or use smaller shapes and fewer threads"};
}

inline Error no_more_processes(std::string message) {
  return {ErrorCode::kUnavailable,
          std::move(message),
          "raise the limit on processes: ulimit -u, or that of the container",
          {},
          "no_processes"};
}

/// What `work` returns, which is a Result. Memory that ran out, threads that may not be started,
/// and whatever a library threw, are Errors.
template <class Work>
std::invoke_result_t<Work> without_exceptions(Work&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::system_error& exception) {
    if (exception.code() == std::errc::resource_unavailable_try_again)
      return no_more_processes("the system starts no more threads");
    return Error{ErrorCode::kInternal, std::string("an unexpected exception: ") + exception.what()};
  } catch (const std::exception& exception) {
    return Error{ErrorCode::kInternal, std::string("an unexpected exception: ") + exception.what()};
  }
}

}  // namespace lathe

#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace lathe {

/// A position in a source text. `line` and `column` start at 1; 0 means unknown.
struct SourcePos {
  std::string file;
  int line = 0;
  int column = 0;
};

enum class ErrorCode {
  kInvalid,      ///< the caller's or the user's input is wrong
  kNotFound,     ///< a name, file or row does not exist
  kUnavailable,  ///< this machine lacks a feature
  kIo,           ///< the operating system refused
  kCorrupt,      ///< stored or received bytes are damaged
  kTimeout,
  kCancelled,
  kBusy,  ///< no room now; the same call may succeed later
  kInternal,
};

/// What went wrong, where, and what to do about it. `hint` is one sentence addressed to the user.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  std::string hint = {};
  SourcePos where = {};
  std::string reason =
      {};  ///< the stable code of a verdict that comes of it ("undefined_kernel"); empty: none

  /// "file:line:column: message" and, on a second line, "hint: ...".
  std::string to_string() const;
};

/// A value or an Error. Library functions return it for every failure that can occur; no exception
/// crosses a library's boundary.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return assert(ok()), *std::get_if<0>(&state_); }
  const T& value() const& { return assert(ok()), *std::get_if<0>(&state_); }
  T&& value() && { return assert(ok()), std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& { return assert(!ok()), *std::get_if<1>(&state_); }
  Error&& error() && { return assert(!ok()), std::move(*std::get_if<1>(&state_)); }

 private:
  std::variant<T, Error> state_;
};

/// Success without a value: `return Ok{};`.
struct Ok {};
using Status = Result<Ok>;

inline Error invalid(std::string message, std::string hint = {}, SourcePos where = {}) {
  return {ErrorCode::kInvalid, std::move(message), std::move(hint), std::move(where)};
}

/// A candidate's own fault, with the reason of its verdict.
inline Error refused(std::string_view reason, std::string message, std::string hint = {},
                     SourcePos where = {}) {
  return {ErrorCode::kInvalid, std::move(message), std::move(hint), std::move(where), std::string(reason)};
}

/// An Error from errno: "<action>: <strerror>".
Error errno_error(std::string action, std::string hint = {});

}  // namespace lathe

#define LATHE_CONCAT_(a, b) a##b
#define LATHE_CONCAT(a, b) LATHE_CONCAT_(a, b)

/// `LATHE_TRY(auto x, f());` binds x to the value of f(), or returns its error from the enclosing
/// function.
#define LATHE_TRY(decl, expr) LATHE_TRY_(LATHE_CONCAT(lathe_try_, __COUNTER__), decl, expr)
#define LATHE_TRY_(tmp, decl, expr)             \
  auto tmp = (expr);                            \
  if (!tmp.ok()) return std::move(tmp).error(); \
  decl = *std::move(tmp)

/// Returns the error of a Status-valued expression from the enclosing function, if there is one.
#define LATHE_CHECK_OK(expr)                                                                    \
  do {                                                                                          \
    if (auto lathe_status = (expr); !lathe_status.ok()) return std::move(lathe_status).error(); \
  } while (false)

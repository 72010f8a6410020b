#include "library/package.h"

namespace lathe {

const char* const kHeaderTemplate =
    R"text(/* lathe_{name}: the task '{task}', as a verified kernel. Made by Lathe; README.md says how to use it. */
#ifndef LATHE_{name}_H_
#define LATHE_{name}_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#ifndef LATHE_EXPORT_TYPES_
#define LATHE_EXPORT_TYPES_
enum {{
  LATHE_OK = 0,
  LATHE_OUTSIDE_DOMAIN = 1, /* the kernel was not made for these dims; outputs are not to be used */
  LATHE_NO_WORKSPACE = 2,   /* workspace is null although workspace_bytes is not 0 */
  LATHE_MISALIGNED = 3      /* a pointer is not a multiple of 64 bytes */
}};

/* The caller's threads. `run` calls body(state, begin, end) on disjoint ranges that together are [0, items), on
 * at most `threads` threads, and returns when all calls have returned. */
typedef struct lathe_parallel {{
  int64_t threads;
  void* context;
  void (*run)(void* context, int64_t items, void (*body)(void* state, int64_t begin, int64_t end), void* state);
}} lathe_parallel;
#endif

/* Bytes of workspace that a call with these dims needs, or -1 outside the domain. */
int64_t lathe_{name}_workspace_bytes({dims}const lathe_parallel* parallel);

/* Runs the kernel. Buffers are dense, row-major, do not overlap and start at multiples of 64 bytes. `workspace`
 * need not be initialised; two calls at once need two of them. `parallel` may be null: one thread. */
int lathe_{name}({data}{dims}void* workspace, const lathe_parallel* parallel);

#ifdef __cplusplus
}}
#endif

#endif
)text";

const char* const kDispatcherRuntime = R"text(
#include <stddef.h>
#include <string.h>

namespace {

// An integer that records overflow, division by zero and invalid shifts.
struct Int {
  int64_t value;
  bool sound = true;
  constexpr Int(int64_t v) : value(v) {}
  constexpr Int(int64_t v, bool s) : value(s ? v : 0), sound(s) {}
  constexpr explicit operator bool() const { return sound && value != 0; }
};

[[maybe_unused]] Int operator+(Int a, Int b) {
  int64_t r = 0;
  const bool bad = __builtin_add_overflow(a.value, b.value, &r);
  return Int(r, a.sound && b.sound && !bad);
}
[[maybe_unused]] Int operator-(Int a, Int b) {
  int64_t r = 0;
  const bool bad = __builtin_sub_overflow(a.value, b.value, &r);
  return Int(r, a.sound && b.sound && !bad);
}
[[maybe_unused]] Int operator*(Int a, Int b) {
  int64_t r = 0;
  const bool bad = __builtin_mul_overflow(a.value, b.value, &r);
  return Int(r, a.sound && b.sound && !bad);
}
[[maybe_unused]] bool divides(Int a, Int b) {
  return a.sound && b.sound && b.value != 0 && !(a.value == INT64_MIN && b.value == -1);
}
[[maybe_unused]] Int operator/(Int a, Int b) { return divides(a, b) ? Int(a.value / b.value) : Int(0, false); }
[[maybe_unused]] Int operator%(Int a, Int b) { return divides(a, b) ? Int(a.value % b.value) : Int(0, false); }
[[maybe_unused]] bool shifts(Int a, Int b) { return a.sound && b.sound && b.value >= 0 && b.value <= 62; }
[[maybe_unused]] Int operator<<(Int a, Int b) { return shifts(a, b) ? a * Int(INT64_C(1) << b.value) : Int(0, false); }
[[maybe_unused]] Int operator>>(Int a, Int b) { return shifts(a, b) ? Int(a.value >> b.value) : Int(0, false); }
[[maybe_unused]] Int operator-(Int a) { return Int(0) - a; }
[[maybe_unused]] Int operator&&(Int a, Int b) {
  if (!a.sound || a.value == 0) return a;
  return Int(b.value != 0, b.sound);
}
[[maybe_unused]] Int operator||(Int a, Int b) {
  if (!a.sound || a.value != 0) return Int(1, a.sound);
  return Int(b.value != 0, b.sound);
}
[[maybe_unused]] Int operator!(Int a) { return Int(a.value == 0, a.sound); }
[[maybe_unused]] Int operator<(Int a, Int b) { return Int(a.value < b.value, a.sound && b.sound); }
[[maybe_unused]] Int operator<=(Int a, Int b) { return Int(a.value <= b.value, a.sound && b.sound); }
[[maybe_unused]] Int operator>(Int a, Int b) { return Int(a.value > b.value, a.sound && b.sound); }
[[maybe_unused]] Int operator>=(Int a, Int b) { return Int(a.value >= b.value, a.sound && b.sound); }
[[maybe_unused]] Int operator==(Int a, Int b) { return Int(a.value == b.value, a.sound && b.sound); }
[[maybe_unused]] Int operator!=(Int a, Int b) { return Int(a.value != b.value, a.sound && b.sound); }
[[maybe_unused]] Int min(Int a, Int b) { return Int(a.value < b.value ? a.value : b.value, a.sound && b.sound); }
[[maybe_unused]] Int max(Int a, Int b) { return Int(a.value > b.value ? a.value : b.value, a.sound && b.sound); }
[[maybe_unused]] Int cdiv(Int a, Int b) {
  if (!a.sound || !b.sound || b.value <= 0) return Int(0, false);
  return Int(a.value / b.value + (a.value % b.value > 0));
}
[[maybe_unused]] Int align(Int a, Int b) { return cdiv(a, b) * b; }

[[maybe_unused]] bool misaligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 64 != 0; }

// Appends a buffer to the workspace at a multiple of 64 bytes.
[[maybe_unused]] void place(int64_t* offset, int64_t* bytes, Int* end, Int size) {
  *offset = end->value;
  *bytes = size.value;
  *end = *end + align(size, Int(64));
  if (size.value < 0) *end = Int(0, false);
}

int64_t take(Int number, bool* sound) {
  *sound = *sound && number.sound;
  return number.value;
}

template <class Body>
void share(int64_t items, const lathe_parallel* parallel, Body body) {
  if (items == 0) return;
  if (parallel == nullptr || parallel->threads <= 1 || items == 1) return body(0, items);
  parallel->run(
      parallel->context, items,
      [](void* state, int64_t begin, int64_t end) { (*static_cast<Body*>(state))(begin, end); }, &body);
}

}  // namespace

)text";

}  // namespace lathe

#pragma once

#include "lathe/cpu/vector.h"

namespace lathe {

/// A mask known at compile time to be all true: loads and stores with it are unmasked.
struct whole {};
template <class T>
inline f32v load(const T* p, whole) {
  return load(p);
}
template <class T>
inline void store(T* p, f32v a, whole) {
  store(p, a);
}
/// A non-temporal store if all lanes are stored, for which p must be vector-aligned.
inline void store_past_cache(float* p, f32v a, whole) { stream(p, a); }
inline void store_past_cache(float* p, f32v a, maskv m) { store(p, a, m); }

/// Lanes outside the mask become `neutral`.
inline f32v keep(whole, f32v a, float) { return a; }
inline f32v keep(maskv m, f32v a, float neutral) { return select(m, a, f32v(neutral)); }

/// Updates a running extremum and its index; the first of equal values wins.
template <bool kLargest>
inline void update_extremum(f32v& best, f32v& index, f32v value, f32v at) {
  const maskv tie = eq(value, best) & lt(at, index);
  const maskv better = (kLargest ? gt(value, best) : lt(value, best)) | tie;
  best = select(better, value, best);
  index = select(better, at, index);
}
template <bool kLargest>
inline float extremum_index(f32v best, f32v index) {
  const float value = kLargest ? reduce_max(best) : reduce_min(best);
  return reduce_min(select(eq(best, f32v(value)), index, f32v(__builtin_inff())));
}

inline f32v select(bool m, f32v yes, f32v no) { return m ? yes : no; }

}  // namespace lathe

#include "backend/cpu/runner/call.h"

#include <algorithm>
#include <array>

namespace lathe {

void CallFrame::run(std::int64_t begin, std::int64_t end) const {
  using W = std::uint64_t;
  using Kernel = void (*)(W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W,
                          double, double, double, double, double, double, double, double);
  std::array<W, kMaxWords> w{};
  std::array<double, kMaxReals> r{};
  std::copy(words.begin(), words.end(), w.begin());
  std::copy(reals.begin(), reals.end(), r.begin());
  w[words.size()] = static_cast<W>(begin);
  w[words.size() + 1] = static_cast<W>(end);
  reinterpret_cast<Kernel>(function)(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11],
                                     w[12], w[13], w[14], w[15], w[16], w[17], w[18], w[19], w[20], w[21],
                                     w[22], w[23], w[24], w[25], r[0], r[1], r[2], r[3], r[4], r[5], r[6],
                                     r[7]);
}

}  // namespace lathe

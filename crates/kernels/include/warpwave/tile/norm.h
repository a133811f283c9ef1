// What ops that divide a row by its root mean square share: right values also where squares overflow or vanish.
#pragma once
#include <warpwave/tile/rows.h>
namespace ww {
// Whether a sum of squares (eps_n: the eps that joins it, times the width) holds what the row asks for; otherwise the row is measured again, scaled.
template <class R> WW_FN bool squares_hold(R squares, R eps_n) { return squares < R(1e37f) && squares + eps_n > R(1e-25f); }
// The power of two that brings a row's largest magnitude near 1
template <class R> WW_FN R near_one(R largest) {
  R s = 1;
  if (!(largest > 0) || !(largest < R(INFINITY))) return s;
  constexpr R kMost = sizeof(R) == 8 ? R(0x1p1000) : R(0x1p100);
  while (largest * s > R(0x1p20f)) s *= R(0x1p-20f);
  while (largest * s < R(0x1p-20f) && s < kMost) s *= R(0x1p20f);
  return s;
}
// 1 / sqrt(mean square + eps) of a row that was scaled by s; 0 for a row of zeros and eps = 0
template <class R> WW_FN R inverse_root(R squares, R inverse_n, R eps, R s) {
  R under = squares * inverse_n + eps * s * s;
  return under > 0 ? R(1) / ww::sqrt(under) : under == 0 ? R(0) : under;
}
}  // namespace ww

// Smooth functions of rows, from exp2, fma and reciprocal of the target: the same code everywhere, float64 by the host's library where a
// polynomial would not reach.
//
// With h = exp(-|v|/2) and r = 1/(1 + h^2) the logistic function is r above 0 and h^2 r below, its derivative h^2 r^2: nothing cancels and
// nothing overflows, and x*h*h*r holds its digits where the function itself is subnormal already.
//
// Relative errors, u = 2^-24 (2^-53 for float64), for results of type T:
//   silu, exp, tanh      24 u; 16-bit T: (24 + 2|x|) u, which no 16-bit rounding sees
//   gelu                 24 u; float64 (64 + 4 x^2) u; 16-bit T: 2^-15 (a shorter polynomial)
//   gelu_tanh            (24 + 6|v|) u, v = 2 sqrt(2/pi) (x + 0.044715 x^3)
//   *_grad               as much of the sum of the magnitudes of both terms
// Infinities give the limits (silu(-inf) = 0), NaN gives NaN.
#pragma once
#include <warpwave/tile/types.h>
namespace ww {

// of float64, by the target that has it
template <class R> R tanh(R) = delete;
template <class R> R erfc(R) = delete;

template <class T> struct smooth {
  using R = pick_t<sizeof(T) == 8, double, float>;
  static constexpr bool kNarrow = sizeof(T) == 2, kWide = sizeof(T) == 8;
  static constexpr R kLog2e = R(kWide ? 1.4426950408889634074 : 1.44269502162933349609375);
  static constexpr R kLog2eRest = R(kWide ? 2.0355273740931033e-17 : 1.92596299112661746887e-8);
  static constexpr R kLn2 = R(0.69314718055994530942);
  static constexpr R kFar = R(kWide ? 4000 : 400);   // exp(-kFar) = 0

  // exp(c * (x + rest)), c * x at most a few hundred; where results have 16 bits, without the digits that they do not show
  WW_FN static R exp_of(R x, R c, R rest) {
    R k = c * kLog2e, y = x * k;
    if constexpr (kNarrow) return ww::exp2(y);
    R lost = ww::fma(x, c * kLog2eRest, ww::fma(x, k, -y));
    return ww::exp2(y) * ww::fma(ww::fma(rest, k, lost), kLn2, R(1));
  }
  WW_FN static R exp(R x) {
    x = x > kFar ? kFar : x < -kFar ? -kFar : x;
    return exp_of(x, R(1), R(0));
  }
  WW_FN static R tanh(R x) {
    if constexpr (kWide) {
      return ww::tanh(x);
    } else {
      R a = ww::abs(x), z = x * x;
      R h = exp_of(a > kFar ? kFar : a, R(-2), R(0)), far = (R(1) - h) * ww::reciprocal(R(1) + h);
      R s = ww::fma(z, R(-0.00590830755f), R(0.0208006663f));
      s = ww::fma(z, s, R(-0.0537828013f));
      s = ww::fma(z, s, R(0.133318747f));
      s = ww::fma(z, s, R(-0.333332942f));
      return a < R(0.6) ? ww::fma(x * z, s, x) : x < R(0) ? -far : far;
    }
  }

  // The logistic function of v in two pieces. kExact: v is exact, so that the digits of the exponent matter
  struct logistic {
    R h, r;
    bool up;
    WW_FN R times(R x) const { return up ? x * r : x * h * h * r; }
    WW_FN R value() const { return up ? r : h * h * r; }
  };
  template <bool kExact> WW_FN static logistic logistic_of(R v) {
    R a = ww::abs(v), h;
    if constexpr (kExact && !kNarrow) h = exp_of(a > kFar ? kFar : a, R(-0.5), R(0));
    else h = ww::exp2(a * (R(-0.5) * kLog2e));
    return {h, ww::reciprocal(ww::fma(h, h, R(1))), v > R(0)};
  }
  // x cut to where a factor of 0 gives 0; NaN is left to that factor
  WW_FN static R above(R x, R lo) { return ww::max(x, lo); }
  WW_FN static R within(R x, R bound) { return ww::min(ww::max(x, -bound), bound); }

  WW_FN static R silu(R x) {
    auto s = logistic_of<true>(x);
    return s.up ? x * s.r : above(x, -R(1e5)) * s.h * s.h * s.r;
  }
  // (x sigmoid x)' = s + x s (1 - s)
  WW_FN static R silu_grad(R x) {
    auto s = logistic_of<true>(x);
    R d = s.h * s.r;
    return ww::fma(within(x, R(1e5)) * d, d, s.value());
  }

  static constexpr R kTanh1 = R(1.5957691216057307118), kTanh3 = R(0.071354816272600251790);   // 2 sqrt(2/pi), 0.044715 of that
  WW_FN static R gelu_tanh(R x) {
    auto s = logistic_of<false>(x * ww::fma(kTanh3, x * x, kTanh1));
    return s.up ? x * s.r : above(x, -R(1e5)) * s.h * s.h * s.r;
  }
  WW_FN static R gelu_tanh_grad(R x) {
    auto s = logistic_of<false>(x * ww::fma(kTanh3, x * x, kTanh1));
    R d = s.h * s.r, y = within(x, R(100));
    return ww::fma(y * ww::fma(R(3) * kTanh3, y * y, kTanh1) * d, d, s.value());
  }

  // The normal distribution: h = exp(-x^2/4), h * q its integral from |x| on
  struct tail {
    R h, q;
  };
  WW_FN static tail tail_of(R x) {
    if constexpr (kWide) {
      R h = exp_of(within(x, R(60)) * within(x, R(60)), R(-0.25), R(0)), a = ww::abs(x);
      R all = R(0.5) * ww::erfc(a * R(0.70710678118654752440));
      return {x != x ? x : h, h > R(0) ? all / h : R(0)};
    } else if constexpr (kNarrow) {
      R t = ww::reciprocal(ww::fma(R(0.3), ww::abs(x), R(1)));
      R s = ww::fma(t, R(-0.0770973546f), R(0.21603688f));
      s = ww::fma(t, s, R(-0.0169478974f));
      s = ww::fma(t, s, R(0.144196302f));
      s = ww::fma(t, s, R(0.113741943f));
      s = ww::fma(t, s, R(0.120074231f));
      R h = ww::exp2(x * x * (R(-0.25) * kLog2e));
      return {h, h * t * s};
    } else {
      R a = ww::abs(x);
      a = a > R(60) ? R(60) : a;
      R t = ww::reciprocal(ww::fma(R(0.35), a, R(1)));
      R s = ww::fma(t, R(-0.0291460147f), R(0.143972097f));
      s = ww::fma(t, s, R(-0.255715051f));
      s = ww::fma(t, s, R(0.159175033f));
      s = ww::fma(t, s, R(-0.0231104067f));
      s = ww::fma(t, s, R(0.105508232f));
      s = ww::fma(t, s, R(0.119832814f));
      s = ww::fma(t, s, R(0.139861876f));
      s = ww::fma(t, s, R(0.139621404f));
      R z = a * a, h = exp_of(z, R(-0.25), ww::fma(a, a, -z));
      return {h, h * t * s};
    }
  }
  WW_FN static R gelu(R x) {
    auto n = tail_of(x);
    return x > R(0) ? x * ww::fma(-n.h, n.q, R(1)) : above(x, -R(1e5)) * n.h * n.q;
  }
  // Phi(x) + x phi(x)
  WW_FN static R gelu_grad(R x) {
    auto n = tail_of(x);
    R all = x > R(0) ? ww::fma(-n.h, n.q, R(1)) : n.h * n.q;
    return ww::fma(within(x, R(100)) * n.h, n.h * R(0.39894228040143267794), all);
  }
};

}  // namespace ww

#include "check.h"
#include <cmath>
using namespace ww;

// value of the 16-bit pattern `bits` with e exponent and m fraction bits, by definition
static double value_of(uint32_t bits, int e, int m) {
  uint32_t exponent = bits >> m & ((1u << e) - 1), fraction = bits & ((1u << m) - 1);
  int bias = (1 << (e - 1)) - 1;
  double x = exponent == 0 ? std::ldexp(double(fraction), 1 - bias - m) : std::ldexp(double(fraction + (1u << m)), int(exponent) - bias - m);
  if (exponent == (1u << e) - 1) x = fraction ? double(NAN) : double(INFINITY);
  return bits >> 15 ? -x : x;
}
template <class T> static void sixteen_bits(int e, int m) {
  uint32_t inf = ((1u << e) - 1) << m;
  for (uint32_t b = 0; b < 0x10000; ++b) {
    T x{uint16_t(b)};
    double want = value_of(b, e, m);
    float got = to_float(x);
    if ((b & 0x7fff) > inf) {
      uint32_t back = from_float<T>(got).bits;
      EXPECT(got != got && (back & 0x7fff) > inf && back >> 15 == b >> 15, std::to_string(b));
      continue;
    }
    EXPECT(double(got) == want && std::signbit(got) == bool(b >> 15), std::to_string(b));
    EXPECT(from_float<T>(got).bits == b, std::to_string(b));
  }
  // midpoints of neighbours go to the even one, and one float to either side of a midpoint to the nearer one
  for (uint32_t sign = 0; sign < 0x10000; sign += 0x8000)
    for (uint32_t b = 0; b < inf; ++b) {
      double lo = value_of(b, e, m), hi = b + 1 == inf ? std::ldexp(1.0, 1 << (e - 1)) : value_of(b + 1, e, m);
      float mid = float((lo + hi) / 2), s = sign ? -1.f : 1.f;
      if (double(mid) == (lo + hi) / 2) EXPECT(from_float<T>(s * mid).bits == (sign | (b % 2 ? b + 1 : b)), std::to_string(b));
      EXPECT(from_float<T>(s * std::nextafter(mid, 0.f)).bits == (sign | b), std::to_string(b));
      EXPECT(from_float<T>(s * std::nextafter(mid, INFINITY)).bits == (sign | (b + 1)), std::to_string(b));
    }
  EXPECT(from_float<T>(INFINITY).bits == inf);
  EXPECT(from_float<T>(-INFINITY).bits == (inf | 0x8000));
  EXPECT(from_float<T>(3e38f).bits == (e == 5 ? inf : 0x7f62u));
}
TEST(f16_conversions) { sixteen_bits<f16>(5, 10); }
TEST(bf16_conversions) { sixteen_bits<bf16>(8, 7); }

TEST(exp2_within_one_ulp) {
  double worst = 0;
  for (int i = -160 * 4096; i <= 130 * 4096; i += 7) {
    float x = float(i) / 4096;
    double want = std::exp2(double(x));
    float got = ww::exp2(x);
    if (want > 3.4028235e38) {
      EXPECT(got == INFINITY, std::to_string(x));
      continue;
    }
    double ulp = want < 0x1p-126 ? 0x1p-149 : std::ldexp(1.0, std::ilogb(want) - 23), error = std::fabs(double(got) - want) / ulp;
    if (error > worst) worst = error;
  }
  EXPECT(worst <= 1.0, std::to_string(worst));
  for (int n = -149; n < 128; ++n) EXPECT(ww::exp2(float(n)) == std::ldexp(1.f, n), std::to_string(n));
  EXPECT(ww::exp2(-INFINITY) == 0.f && ww::exp2(INFINITY) == INFINITY && ww::exp2(-1e30f) == 0.f && ww::exp2(NAN) != ww::exp2(NAN));
}
TEST(max_passes_nan_over) {
  EXPECT(ww::max(NAN, 1.f) == 1.f && ww::max(1.f, NAN) == 1.f && ww::min(NAN, 1.f) == 1.f && ww::min(1.f, NAN) == 1.f);
  EXPECT(ww::max(NAN, NAN) != ww::max(NAN, NAN));
}

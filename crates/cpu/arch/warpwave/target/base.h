// What the host target rests on: 16-bit floats, float32 math that vectorises, AddressSanitizer's poison, and `fail`.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif
#define WW_FN inline
namespace ww {
using ::int32_t;
using ::int64_t;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;

struct bf16 { uint16_t bits; };
struct f16 { uint16_t bits; };

namespace host {
// An op broke one of the rules of warpwave/tile/tile.h.
[[noreturn]] inline void fail(const char* rule) {
  std::fprintf(stderr, "warpwave host: %s\n", rule);
  std::fflush(stderr);
  std::abort();
}
inline void close_memory([[maybe_unused]] const void* p, [[maybe_unused]] size_t n) {
#if defined(__SANITIZE_ADDRESS__)
  asm("" : "+r"(p));   // or g++ warns that fresh memory is handed out as const before it was written
  __asan_poison_memory_region(p, n);
#endif
}
inline void open_memory([[maybe_unused]] const void* p, [[maybe_unused]] size_t n) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(p, n);
#endif
}
// When asynchronous work happens, on this thread: 0 as late as its wait allows, 1 as early as possible, 2 and more: a pseudo-random choice each time.
inline thread_local int schedule = 0;

inline uint32_t bits_of(float x) {
  uint32_t u;
  std::memcpy(&u, &x, 4);
  return u;
}
inline float float_of(uint32_t u) {
  float x;
  std::memcpy(&x, &u, 4);
  return x;
}
// To float32, to the odd neighbour where it is inexact: a second rounding then gives what one alone would (Boldo and Melquiond, 2005).
inline float odd(double x) {
  float y = float(x);
  uint32_t u = bits_of(y), even = ~u & 1u;
  bool below = std::fabs(double(y)) < std::fabs(x);
  return double(y) == x || x != x ? y : float_of(below ? u + even : u - even);
}
}  // namespace host

// Conversions are selects, not branches: the loops around them vectorise.
WW_FN float to_float(float x) { return x; }
WW_FN float to_float(double x) { return float(x); }
WW_FN float to_float(bf16 x) { return host::float_of(uint32_t(x.bits) << 16); }
WW_FN float to_float(f16 x) {
  uint32_t sign = (x.bits & 0x8000u) << 16, low = x.bits & 0x7fffu;
  // exponent moved by multiplication, which also normalises subnormals
  uint32_t finite = host::bits_of(host::float_of(low << 13) * 0x1p112f);
  return host::float_of(sign | (low >= 0x7c00u ? 0x7f800000u | low << 13 : finite));
}
WW_FN float to_float(int32_t x) { return float(x); }
WW_FN float to_float(int64_t x) { return float(x); }
// as values of the accumulation type: float64 only for float64
template <class R, class T> WW_FN R to_real(T x) {
  if constexpr (std::is_same_v<T, double>) return R(x);
  else return to_float(x);
}
// nearest even
template <class T> WW_FN T from_float(float x);
template <class T, class R> WW_FN T from_real(R x) {
  if constexpr (std::is_same_v<T, double>) return x;
  else if constexpr (std::is_same_v<R, double> && sizeof(T) == 2) return from_float<T>(host::odd(x));
  else return from_float<T>(float(x));
}
template <> WW_FN float from_float<float>(float x) { return x; }
template <> WW_FN double from_float<double>(float x) { return x; }
template <> WW_FN bf16 from_float<bf16>(float x) {
  uint32_t u = host::bits_of(x), rounded = (u + 0x7fffu + (u >> 16 & 1)) >> 16;
  return {uint16_t((u & 0x7fffffffu) > 0x7f800000u ? u >> 16 | 0x40u : rounded)};
}
template <> WW_FN f16 from_float<f16>(float x) {
  uint32_t u = host::bits_of(x), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
  uint32_t normal = (a - (112u << 23) + 0xfffu + (a >> 13 & 1)) >> 13;
  // below 2^-14: adding 0.5 leaves the subnormal's bits at the end of the fraction, rounded by the addition itself
  uint32_t subnormal = host::bits_of(host::float_of(a) + 0.5f) - 0x3f000000u;
  uint32_t r = a < 0x38800000u ? subnormal : normal;
  r = a >= 0x47800000u ? 0x7c00u : r;   // 65520 and more round up to infinity above; this covers exponents beyond
  r = a > 0x7f800000u ? 0x7e00u | (a >> 13 & 0x3ffu) : r;
  return {uint16_t(sign | r)};
}

WW_FN float max(float a, float b) { return a > b ? a : b != b ? a : b; }   // the number, where one is NaN
WW_FN float min(float a, float b) { return a < b ? a : b != b ? a : b; }
WW_FN float sqrt(float x) { return std::sqrt(x); }
WW_FN float abs(float x) { return std::fabs(x); }
WW_FN float product(float a, float b) { return a * b; }   // by itself: nothing is fused here
WW_FN float fma(float a, float b, float c) { return std::fma(a, b, c); }
WW_FN uint64_t multiply_wide(uint32_t a, uint32_t b) { return uint64_t(a) * b; }
WW_FN void store_relaxed(int32_t* p, int32_t x) { __atomic_store_n(p, x, __ATOMIC_RELAXED); }   // programs run side by side


// 2^x within 1 ulp: Taylor terms to x^7 of 2^f, |f| <= 1/2, scaled in two steps so that subnormal results round once.
WW_FN float exp2(float x) {
  float y = x < -151.f ? 0.f : x;   // not by arithmetic: underflow takes the processor a hundred cycles, and masked scores are -inf
  y = y > 129.f ? 129.f : y;
  float shifted = y + 12582912.f;   // 1.5 * 2^23: the integer lies in the low bits
  float f = y - (shifted - 12582912.f);
  float r = 1.52527338e-5f;
  r = r * f + 1.54035304e-4f;
  r = r * f + 1.33335581e-3f;
  r = r * f + 9.61812911e-3f;
  r = r * f + 5.55041087e-2f;
  r = r * f + 2.40226507e-1f;
  r = r * f + 6.93147181e-1f;
  r = r * f + 1.f;
  uint32_t n = host::bits_of(shifted) - 0x4b400000u + 254u;   // n + 254 >= 103
  uint32_t half = n >> 1;
  r = r * host::float_of(half << 23) * host::float_of((n - half) << 23);
  r = x < -151.f ? 0.f : r;
  return x != x ? x : r;
}
WW_FN float log2(float x) { return std::log2(x); }
WW_FN float log(float x) { return std::log(x); }
WW_FN float reciprocal(float x) { return 1.f / x; }

// float64 rows
WW_FN double max(double a, double b) { return a > b ? a : b != b ? a : b; }
WW_FN double min(double a, double b) { return a < b ? a : b != b ? a : b; }
WW_FN double sqrt(double x) { return std::sqrt(x); }
WW_FN double abs(double x) { return std::fabs(x); }
WW_FN double product(double a, double b) { return a * b; }
WW_FN double fma(double a, double b, double c) { return std::fma(a, b, c); }
WW_FN double exp2(double x) { return std::exp2(x); }
WW_FN double log2(double x) { return std::log2(x); }
WW_FN double log(double x) { return std::log(x); }
WW_FN double reciprocal(double x) { return 1. / x; }
WW_FN double tanh(double x) { return std::tanh(x); }
WW_FN double erfc(double x) { return std::erfc(x); }
}  // namespace ww
#include <warpwave/tile/types.h>

// What every NVIDIA target shares: function attributes, fixed-width integers, 16-bit floats, float32 math.
// No header of the CUDA toolkit beyond what nvcc includes by itself: the two element types and their conversions are a few instructions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cmath>
#include <type_traits>
#define WW_FN __device__ __forceinline__
namespace ww {
using ::int32_t;
using ::int64_t;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;

struct bf16 { uint16_t bits; };
struct f16 { uint16_t bits; };

WW_FN float to_float(float x) { return x; }
WW_FN float to_float(int32_t x) { return float(x); }
WW_FN float to_float(int64_t x) { return float(x); }
WW_FN float to_float(bf16 x) { return __uint_as_float(uint32_t(x.bits) << 16); }
WW_FN float to_float(f16 x) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x.bits));
  return r;
}
// nearest even
template <class T> WW_FN T from_float(float x);
template <> WW_FN float from_float<float>(float x) { return x; }
template <> WW_FN bf16 from_float<bf16>(float x) {
  bf16 r;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r.bits) : "f"(x));
  return r;
}
template <> WW_FN f16 from_float<f16>(float x) {
  f16 r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(x));
  return r;
}
// two elements in a word, the first in the low half
template <class T> WW_FN uint32_t pack(float lo, float hi);
template <> WW_FN uint32_t pack<bf16>(float lo, float hi) {
  uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}
template <> WW_FN uint32_t pack<f16>(float lo, float hi) {
  uint32_t r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}

WW_FN float exp2(float x) {   // ex2.approx: 2 ulp; subnormal results flush to 0
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
WW_FN float log2(float x) { return ::log2f(x); }
WW_FN float log(float x) { return ::logf(x); }
WW_FN float reciprocal(float x) { return __fdividef(1.f, x); }
WW_FN float max(float a, float b) { return fmaxf(a, b); }   // the number, where one is NaN
WW_FN float min(float a, float b) { return fminf(a, b); }
WW_FN float sqrt(float x) { return sqrtf(x); }     // correctly rounded
WW_FN float abs(float x) { return fabsf(x); }
// A product that is rounded by itself. A compiler may fuse a plain one with the sum that takes it, at one of its uses and not at another
WW_FN float product(float a, float b) { return __fmul_rn(a, b); }
WW_FN float fma(float a, float b, float c) { return fmaf(a, b, c); }
// One instruction: ptxas gives a 64-bit product with a constant an addition besides (nvcc 13.5), a third of the random words of dropout
WW_FN uint64_t multiply_wide(uint32_t a, uint32_t b) {
  uint64_t r;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(r) : "r"(a), "r"(b));
  return r;
}
WW_FN void store_relaxed(int32_t* p, int32_t x) { *reinterpret_cast<volatile int32_t*>(p) = x; }
}  // namespace ww
#include <warpwave/tile/types.h>

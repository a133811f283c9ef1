// What every AMD target shares: function attributes, fixed-width integers, 16-bit floats, float32 math, lane exchange.
// No vendor header: compile with -nogpuinc -nogpulib; everything below is a compiler builtin.
#pragma once
#include <cstddef>
#include <cstdint>
#define WW_FN __attribute__((device, always_inline)) inline
#ifndef INFINITY
#define INFINITY __builtin_inff()
#endif
#ifndef NAN
#define NAN __builtin_nanf("")
#endif
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
WW_FN float to_float(bf16 x) { return __builtin_bit_cast(float, uint32_t(x.bits) << 16); }
WW_FN float to_float(f16 x) { return float(__builtin_bit_cast(_Float16, x.bits)); }
// nearest even
template <class T> WW_FN T from_float(float x);
template <> WW_FN float from_float<float>(float x) { return x; }
template <> WW_FN bf16 from_float<bf16>(float x) {   // gfx9 and gfx11 have no conversion instruction
  uint32_t u = __builtin_bit_cast(uint32_t, x);
  return {uint16_t((x != x ? 0x7fc00000u : u + 0x7fffu + (u >> 16 & 1)) >> 16)};
}
template <> WW_FN f16 from_float<f16>(float x) { return {__builtin_bit_cast(uint16_t, _Float16(x))}; }
// two elements in a word, the first in the low half
template <class T> WW_FN uint32_t pack(float lo, float hi) { return from_float<T>(lo).bits | uint32_t(from_float<T>(hi).bits) << 16; }

WW_FN float exp2(float x) { return __builtin_amdgcn_exp2f(x); }   // v_exp_f32: 1 ulp; subnormal results flush to 0
WW_FN float log2(float x) {   // v_log_f32 takes no subnormals: scaled by 2^32
  bool small = x < 0x1p-126f;
  return __builtin_amdgcn_logf(small ? x * 0x1p32f : x) - (small ? 32.f : 0.f);
}
WW_FN float log(float x) {   // ln2 in two parts: the product adds no more than half an ulp to v_log_f32's one
  float y = ww::log2(x), r = y * 0x1.62e42ep-1f;
  float e = __builtin_fmaf(y, 0x1.efa39ep-25f, __builtin_fmaf(y, 0x1.62e42ep-1f, -r));
  return __builtin_fabsf(y) < INFINITY ? r + e : y;
}
WW_FN float reciprocal(float x) { return __builtin_amdgcn_rcpf(x); }   // 1 ulp
WW_FN float max(float a, float b) { return __builtin_fmaxf(a, b); }   // the number, where one is NaN
WW_FN float min(float a, float b) { return __builtin_fminf(a, b); }
WW_FN float sqrt(float x) { return __builtin_elementwise_sqrt(x); }   // correctly rounded
WW_FN float abs(float x) { return __builtin_fabsf(x); }
// A product that is rounded by itself. A compiler may fuse a plain one with the sum that takes it, at one of its uses and not at another
WW_FN float product(float a, float b) {
#pragma clang fp contract(off)
  return a * b;
}
WW_FN float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
WW_FN uint64_t multiply_wide(uint32_t a, uint32_t b) { return uint64_t(a) * b; }
WW_FN void store_relaxed(int32_t* p, int32_t x) { __atomic_store_n((__attribute__((address_space(1))) int32_t*)p, x, __ATOMIC_RELAXED); }

namespace hip {
#if defined(__GFX9__)
constexpr int kWave = 64;
#else
constexpr int kWave = 32;
#endif
using uint4 = uint32_t __attribute__((ext_vector_type(4)));
using uint2 = uint32_t __attribute__((ext_vector_type(2)));
// A value that the compiler must not follow, in scalar or vector registers (hip/tests/emulate defines them as nothing).
#ifndef WW_OPAQUE_SCALAR
#define WW_OPAQUE_SCALAR(x) asm volatile("" : "+s"(x))
#define WW_OPAQUE_VECTOR(x) asm volatile("" : "+v"(x))
#endif
#define WW_GLOBAL __attribute__((address_space(1)))
#define WW_LDS __attribute__((address_space(3)))
#define WW_CONSTANT __attribute__((address_space(4)))

WW_FN float as_float(uint32_t x) { return __builtin_bit_cast(float, x); }
WW_FN int thread_id() { return int(__builtin_amdgcn_workitem_id_x()); }
WW_FN int block_id() { return int(__builtin_amdgcn_workgroup_id_x()); }
// From the dispatch packet, so that a kernel has no hidden argument whatever the code object's version.
template <int kThreads> WW_FN int block_count() { return int(__builtin_amdgcn_grid_size_x() / kThreads); }
// all ones where i < n: masks in vector registers, where compares would keep a pair of scalar ones each
WW_FN uint32_t below(int i, int n) { return uint32_t(int(uint32_t(i) - uint32_t(n)) >> 31); }
// Orders the block's shared memory and nothing else: loads from global memory stay under way.
WW_FN void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}

// the value of lane ^ kMask
template <int kMask> WW_FN float lane_xor(float x) {
  int v = __builtin_bit_cast(int, x);
  if constexpr (kMask == 1) v = __builtin_amdgcn_mov_dpp(v, 0xb1, 15, 15, true);        // quad_perm 1,0,3,2
  else if constexpr (kMask == 2) v = __builtin_amdgcn_mov_dpp(v, 0x4e, 15, 15, true);   // quad_perm 2,3,0,1
  else if constexpr (kMask < 32) v = __builtin_amdgcn_ds_swizzle(v, kMask << 10 | 0x1f);
  else v = __builtin_amdgcn_ds_bpermute((thread_id() ^ kMask) << 2, v);
  return __builtin_bit_cast(float, v);
}

// kBytes of global memory at any address.  A HSA queue runs in unaligned-access mode, so one wide instruction serves every address; one
// that is not a multiple of 16 costs a second cache line now and then.
template <int kBytes> struct word_of { using type = uint32_t __attribute__((ext_vector_type(kBytes / 4))); };
template <> struct word_of<4> { using type = uint32_t; };
template <> struct word_of<2> { using type = uint16_t; };
template <int kBytes> struct __attribute__((packed)) anywhere { typename word_of<kBytes>::type w; };
}  // namespace hip
}  // namespace ww
#include <warpwave/tile/types.h>

// RDNA 3: v_wmma_f32_16x16x16 of 16-bit elements; both halves of a wave hold the same operand.  float32 has no matrix instruction:
// multiply-adds, the right operand broadcast from shared memory.
#pragma once
namespace ww::hip {
constexpr int kStepK = 16;
constexpr int waves_for(int rows) { return rows >= 128 ? 8 : 4; }
// A lane or thread number the compiler cannot follow: else it computes the addresses of all fragments before the loop and spills them
// (attention of head dim 128: 86 of 256 registers).
WW_FN int opaque(int x) {
  WW_OPAQUE_VECTOR(x);
  return x;
}
using float8 = float __attribute__((ext_vector_type(8)));
using short16 = short __attribute__((ext_vector_type(16)));
using half16 = _Float16 __attribute__((ext_vector_type(16)));

struct cell {
  float8 v;
  WW_FN float get(int i) const { return v[i]; }
  WW_FN void set(int i, float x) { v[i] = x; }
};
template <class T> struct fragment { uint4 x[sizeof(T)]; };   // k = step*16 + 0..15

template <class T, class Tile> WW_FN fragment<T> read_fragment(const Tile& t, int row, int step, [[maybe_unused]] int lane) {
  fragment<T> f;
#pragma unroll
  for (int i = 0; i < int(sizeof(T)); ++i) f.x[i] = *t.chunk(row, step * int(sizeof(T)) + i);
  return f;
}
template <class T, class Tile> WW_FN fragment<T> load_fragment(const Tile& t, int row, int step, int lane) {
  return read_fragment<T>(t, row + lane % 16, step, lane);
}

template <class T> WW_FN float8 wmma(const fragment<T>& b, const fragment<T>& a, float8 d) {
  if constexpr (__is_same(T, bf16)) return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(__builtin_bit_cast(short16, b), __builtin_bit_cast(short16, a), d);
  else return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(__builtin_bit_cast(half16, b), __builtin_bit_cast(half16, a), d);
}
template <class T, int M, int N, class Tile> WW_FN void multiply(cell (&d)[M][N], const fragment<T> (&a)[M], const Tile& t, int row, int step, int lane) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
    if constexpr (sizeof(T) == 2) {
      fragment<T> b = read_fragment<T>(t, row + n * kCellCols + wmma_row(lane % 16), step, lane);
#pragma unroll
      for (int m = 0; m < M; ++m) d[m][n].v = wmma<T>(b, a[m], d[m][n].v);
    } else {
#pragma unroll
      for (int c = 0; c < 4; ++c)
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          uint4 b = *t.chunk(row + n * kCellCols + lane / 16 * 8 + i, step * 4 + c);
#pragma unroll
          for (int m = 0; m < M; ++m)
#pragma unroll
            for (int k = 0; k < 4; ++k) d[m][n].v[i] = __builtin_fmaf(as_float(a[m].x[c][k]), as_float(b[k]), d[m][n].v[i]);
        }
    }
  }
}
// Lane l and l ^ 16 hold eight neighbours each of the same row; both need all sixteen.
template <class T> WW_FN fragment<T> as_fragment(const cell& c) {
  fragment<T> f;
  constexpr int kWords = sizeof(T) == 2 ? 4 : 8;
  bool upper = lane_id() & 16;
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    uint32_t own;
    if constexpr (sizeof(T) == 4) own = __builtin_bit_cast(uint32_t, c.get(i));
    else own = pack<T>(c.get(2 * i), c.get(2 * i + 1));
    uint32_t other = __builtin_bit_cast(uint32_t, lane_xor<16>(__builtin_bit_cast(float, own)));
    f.x[i / 4][i % 4] = upper ? other : own;
    f.x[kWords / 4 + i / 4][i % 4] = upper ? own : other;
  }
  return f;
}
}  // namespace ww::hip

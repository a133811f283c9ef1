// CDNA: v_mfma_f32_16x16x16 of 16-bit elements, v_mfma_f32_16x16x4 of float32.  gfx90a flushes subnormal 16-bit operands to zero, gfx942
// does not.  A lane reads the same 8 neighbours along k of both operands at once, so a step takes k in an order of its own.
#pragma once
namespace ww::hip {
constexpr int kStepK = 32;
constexpr int waves_for(int) { return 4; }
WW_FN int opaque(int x) { return x; }   // see gfx11
using float4 = float __attribute__((ext_vector_type(4)));
using short4 = short __attribute__((ext_vector_type(4)));
using half4 = _Float16 __attribute__((ext_vector_type(4)));

struct cell {
  float4 v[2];
  WW_FN float get(int i) const { return v[i / 4][i % 4]; }
  WW_FN void set(int i, float x) { v[i / 4][i % 4] = x; }
};
template <class T> struct fragment { uint4 x[sizeof(T) / 2]; };   // k = step*32 + lane/16*8 + 0..7

template <class T, class Tile> WW_FN fragment<T> read_fragment(const Tile& t, int row, int step, [[maybe_unused]] int lane) {
  fragment<T> f;
  constexpr int kParts16 = sizeof(T) / 2;
#pragma unroll
  for (int i = 0; i < kParts16; ++i) f.x[i] = *t.chunk(row, (step * 4 + lane / 16) * kParts16 + i);
  return f;
}
template <class T, class Tile> WW_FN fragment<T> load_fragment(const Tile& t, int row, int step, int lane) {
  return read_fragment<T>(t, row + lane % 16, step, lane);
}

// d^T += b^T a^T over four (16-bit: of each lane four) of the eight k that a lane holds
template <class T> WW_FN float4 mfma(const fragment<T>& b, const fragment<T>& a, int part, float4 d) {
  if constexpr (sizeof(T) == 4) {
    return __builtin_amdgcn_mfma_f32_16x16x4f32(as_float(b.x[part / 4][part % 4]), as_float(a.x[part / 4][part % 4]), d, 0, 0, 0);
  } else {
    using part4 = pick_t<__is_same(T, bf16), short4, half4>;
    auto x = __builtin_bit_cast(part4, uint2{a.x[0][2 * part], a.x[0][2 * part + 1]});
    auto y = __builtin_bit_cast(part4, uint2{b.x[0][2 * part], b.x[0][2 * part + 1]});
    if constexpr (__is_same(T, bf16)) return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(y, x, d, 0, 0, 0);
    else return __builtin_amdgcn_mfma_f32_16x16x16f16(y, x, d, 0, 0, 0);
  }
}
template <class T, int M, int N, class Tile> WW_FN void multiply(cell (&d)[M][N], const fragment<T> (&a)[M], const Tile& t, int row, int step, int lane) {
  fragment<T> b[N][2];
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int h = 0; h < 2; ++h) b[n][h] = read_fragment<T>(t, row + n * kCellCols + mfma_row(lane % 16, h), step, lane);
#pragma unroll
  for (int part = 0; part < (sizeof(T) == 4 ? 8 : 2); ++part)
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int n = 0; n < N; ++n)
#pragma unroll
        for (int h = 0; h < 2; ++h) d[m][n].v[h] = mfma<T>(b[n][h], a[m], part, d[m][n].v[h]);
}
// a lane's eight neighbours of its row are its part of the operand
template <class T> WW_FN fragment<T> as_fragment(const cell& c) {
  fragment<T> f;
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < 8; ++i) f.x[i / 4][i % 4] = __builtin_bit_cast(uint32_t, c.get(i));
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) f.x[0][i] = pack<T>(c.get(2 * i), c.get(2 * i + 1));
  }
  return f;
}
}  // namespace ww::hip

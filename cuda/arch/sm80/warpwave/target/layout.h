// Where things lie: shared tiles, matrix fragments, warps over a tile.  Plain functions of coordinates, proven on the host for all of them
// (cuda/tests/layout_sm80.cpp).
#pragma once
#if defined(__CUDACC__)
#define WW_LAYOUT_FN __host__ __device__ constexpr
#else
#define WW_LAYOUT_FN constexpr
#endif
namespace ww::sm80 {

// ---- shared tiles: rows of 16-byte chunks.  Eight neighbouring rows at one chunk lie in eight different groups of four banks, and so do
// eight chunks that follow each other: the chunk is xored with as many bits of the row as the pitch leaves equal.
WW_LAYOUT_FN int even_bits(int chunks) {
  int v = 0;
  while (v < 3 && (chunks >> v) % 2 == 0) ++v;
  return v;
}
template <int kChunks> WW_LAYOUT_FN int swizzle(int row) {
  constexpr int kBits = even_bits(kChunks);
  return (row >> (3 - kBits)) & ((1 << kBits) - 1);
}
template <int kChunks> WW_LAYOUT_FN int chunk_at(int row, int chunk) { return row * kChunks + (chunk ^ swizzle<kChunks>(row)); }
// rows of whole 16-wide steps, so that a product may read past a width that is an odd multiple of 8
WW_LAYOUT_FN int row_chunks(int cols, int elem_bytes) { return (cols * elem_bytes + 31) / 32 * 2; }

// ---- fragments of mma.m16n8k16 (PTX ISA): element i of a lane's accumulator, half (low, high) of a lane's operand register.  Shifts, since a
// signed division costs more.
struct place { int row, col; };
WW_LAYOUT_FN place acc_place(int lane, int i) { return {(lane >> 2) + i / 2 * 8, (lane & 3) * 2 + i % 2}; }
WW_LAYOUT_FN place a_place(int lane, int reg, int half) { return {(lane >> 2) + reg % 2 * 8, (lane & 3) * 2 + half + reg / 2 * 8}; }   // (m, k)
WW_LAYOUT_FN place b_place(int lane, int reg, int half) { return {(lane & 3) * 2 + half + reg * 8, lane >> 2}; }                     // (k, n)

// ---- which 8-element row of a tile a lane names to ldmatrix.x4, as (row, chunk) from the corner of a 16 x 16 piece.  Registers 0..3 are then
// a fragment of a; registers 0,1 and 2,3 are two fragments of b, 8 columns apart.
WW_LAYOUT_FN place rows_first(int lane) { return {lane & 15, lane >> 4}; }
WW_LAYOUT_FN place chunks_first(int lane) { return {(lane & 7) + (lane >> 4) * 8, lane >> 3 & 1}; }
template <bool kTransposed> WW_LAYOUT_FN place a_source(int lane) { return kTransposed ? chunks_first(lane) : rows_first(lane); }
template <bool kTransposed> WW_LAYOUT_FN place b_source(int lane) { return kTransposed ? rows_first(lane) : chunks_first(lane); }

// ---- warps over a block's tile
WW_LAYOUT_FN int threads_of(int m) { return m >= 128 ? 256 : 2 * m; }
struct warp_grid { int m, n; };
// nearly square warp tiles read least; with whole rows in a warp the warps are stacked
WW_LAYOUT_FN warp_grid grid_of(int m, int n, bool whole_rows) {
  int warps = threads_of(m) / 32;
  warp_grid best{warps, 1};
  if (whole_rows) return best;
  for (int k = 1; k <= warps; k *= 2) {
    warp_grid g{warps / k, k};
    if (m % (16 * g.m) == 0 && n % (8 * g.n) == 0 && m / g.m + n / g.n <= m / best.m + n / best.n) best = g;
  }
  return best;
}
}  // namespace ww::sm80

// Transposing ops on AMD: a tile in the block's shared memory (tile/transpose.h).  A block walks programs with the stride of the grid.
#pragma once
#include <warpwave/hip/base.h>
#include <warpwave/tile/transpose.h>
namespace ww {
namespace hip {
template <TransposeShape S> struct transpose_memory {
  using W = transposed_word<S>;
  WW_LDS char* tile;
  WW_FN static int thread() { return thread_id(); }
  WW_FN static void meet() { barrier(); }
  WW_FN static void load16(uint32_t* r, const W* p, bool in) {
    if (!in) return;
    uint4 w = *(WW_GLOBAL const uint4*)p;
    for (int j = 0; j < 4; ++j) r[j] = w[j];
  }
  WW_FN static void store16(W* p, const uint32_t* r, bool in) {
    if (in) *(WW_GLOBAL uint4*)p = uint4{r[0], r[1], r[2], r[3]};
  }
  WW_FN static uint32_t load1(const W* p, bool in) { return in ? *(WW_GLOBAL const W*)p : 0; }
  WW_FN static void store1(W* p, uint32_t x, bool in) {
    if (in) *(WW_GLOBAL W*)p = W(x);
  }
  WW_FN void put16(int at, const uint32_t* r) const { *(WW_LDS uint4*)(tile + at) = uint4{r[0], r[1], r[2], r[3]}; }
  WW_FN uint32_t get4(int at) const { return *(WW_LDS const uint32_t*)(tile + at); }
  WW_FN void put1(int at, uint32_t x) const { *(WW_LDS W*)(tile + at) = W(x); }
  WW_FN uint32_t get1(int at) const { return *(WW_LDS const W*)(tile + at); }
};

template <class Op> WW_FN void run_transposes(const typename Op::Params& p, WW_LDS char* memory) {
  constexpr TransposeShape S = Op::kTranspose;
  transposing_block<S, transpose_memory<S>> g{{memory}};
  const int64_t step = block_count<S.threads>();
#pragma unroll 1
  for (int64_t i = block_id(); i < p.programs; i += step) Op::run(g, p, i);
}
}  // namespace hip
}  // namespace ww

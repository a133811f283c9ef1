// Transposing ops on NVIDIA: a tile in the block's shared memory (tile/transpose.h).
#pragma once
#include <warpwave/cuda/row_access.h>
#include <warpwave/tile/transpose.h>
namespace ww {
namespace cuda {
template <TransposeShape S> struct transpose_memory {
  using W = transposed_word<S>;
  char* tile;
  WW_FN static int thread() { return thread_of_block(); }
  WW_FN static void meet() { __syncthreads(); }
  WW_FN static void load16(uint32_t* r, const W* p, bool in) { load_bytes<16>(r, reinterpret_cast<const char*>(p), in); }
  WW_FN static void store16(W* p, const uint32_t* r, bool in) { store_bytes<16>(reinterpret_cast<char*>(p), r, in); }
  WW_FN static uint32_t load1(const W* p, bool in) {
    uint32_t r = 0;
    load_bytes<S.bytes>(&r, reinterpret_cast<const char*>(p), in);
    return r;
  }
  WW_FN static void store1(W* p, uint32_t x, bool in) { store_bytes<S.bytes>(reinterpret_cast<char*>(p), &x, in); }
  WW_FN void put16(int at, const uint32_t* r) const { *reinterpret_cast<uint4*>(tile + at) = make_uint4(r[0], r[1], r[2], r[3]); }
  WW_FN uint32_t get4(int at) const { return *reinterpret_cast<const uint32_t*>(tile + at); }
  WW_FN void put1(int at, uint32_t x) const { *reinterpret_cast<W*>(tile + at) = W(x); }
  WW_FN uint32_t get1(int at) const { return *reinterpret_cast<const W*>(tile + at); }
};

template <class Op> WW_FN void run_transposes(const typename Op::Params& p) {
  constexpr TransposeShape S = Op::kTranspose;
  __shared__ __align__(128) char tile[transpose_layout<S>::kSize];
  transposing_block<S, transpose_memory<S>> g{{tile}};
  Op::run(g, p, int64_t(blockIdx.x));
}
// Threads of a multiprocessor: loads under way make up for what a thread of a small tile has fewer of them
template <class Op> constexpr int transpose_bytes_held = transpose_layout<Op::kTranspose>::kSize / Op::kTranspose.threads;
template <class Op> constexpr int transpose_min_blocks = (transpose_bytes_held<Op> > 32 ? 1024 : 1536) / Op::kTranspose.threads;
}  // namespace cuda
}  // namespace ww

// What a kernel's translation unit includes first, sm_90a.
#pragma once
#include <warpwave/cuda/base.h>
#include <warpwave/cuda/rows.h>
#include <warpwave/cuda/transpose.h>
#include <warpwave/target/sched.h>
namespace ww::sm90 {
template <class Op> concept tile_op = requires { typename Op::Rings; };

template <class Op> struct entry {   // a row op
  using arguments = typename Op::Params;
  static constexpr int kBlockThreads = cuda::row_block_threads<Op>, kMinBlocks = cuda::row_min_blocks<Op>;
  static constexpr bool fits(int shared) { return cuda::row_shared_bytes<Op> <= shared; }
  WW_FN static void run(const arguments& a) { cuda::run_rows<Op>(a); }
};
template <transposing_op Op> struct entry<Op> {
  using arguments = typename Op::Params;
  static constexpr int kBlockThreads = Op::kTranspose.threads, kMinBlocks = cuda::transpose_min_blocks<Op>;
  static constexpr bool fits(int) { return true; }   // its shared memory is static
  WW_FN static void run(const arguments& a) { cuda::run_transposes<Op>(a); }
};
template <tile_op Op> struct entry<Op> {
  using arguments = ww::arguments<Op>;
  static constexpr int kBlockThreads = block_threads<Op>, kMinBlocks = min_blocks<Op>;
  static constexpr bool fits(int shared) { return shared_bytes<Op> <= shared && shared <= kMaxShared; }
  WW_FN static void run(const arguments& a) { run_tile_op<Op>(a); }
};
}  // namespace ww::sm90

// shared, threads: what the launch will ask for: bytes of dynamic shared memory, threads of a block
#define WW_KERNEL(name, Op, shared, threads)                                                                                      \
  static_assert(ww::sm90::entry<Op>::fits(shared), "the launch asks for less shared memory than the kernel uses, or for too much"); \
  static_assert(ww::sm90::entry<Op>::kBlockThreads == (threads), "threads of a block as planned");                  \
  extern "C" __global__ void __launch_bounds__(ww::sm90::entry<Op>::kBlockThreads, ww::sm90::entry<Op>::kMinBlocks)               \
      name(const __grid_constant__ ww::sm90::entry<Op>::arguments arguments) {                                                   \
    ww::sm90::entry<Op>::run(arguments);                                                                                         \
  }

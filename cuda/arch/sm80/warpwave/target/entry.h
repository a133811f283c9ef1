// What a kernel's translation unit includes first: every NVIDIA target from sm_80 on.
#pragma once
#include <warpwave/cuda/base.h>
#include <warpwave/cuda/rows.h>
#include <warpwave/cuda/transpose.h>
#include <warpwave/target/sched.h>
namespace ww::sm80 {
template <class Op> concept tile_op = requires { typename Op::Rings; };

template <class Op> struct entry {   // a row op
  static constexpr int kBlockThreads = cuda::row_block_threads<Op>, kMinBlocks = cuda::row_min_blocks<Op>;
  static constexpr bool fits(int shared) { return cuda::row_shared_bytes<Op> <= shared; }
  WW_FN static void run(const typename Op::Params& p) { cuda::run_rows<Op>(p); }
};
template <transposing_op Op> struct entry<Op> {
  static constexpr int kBlockThreads = Op::kTranspose.threads, kMinBlocks = cuda::transpose_min_blocks<Op>;
  static constexpr bool fits(int) { return true; }   // its shared memory is static
  WW_FN static void run(const typename Op::Params& p) { cuda::run_transposes<Op>(p); }
};
template <tile_op Op> struct entry<Op> {
  static constexpr int kBlockThreads = block_threads<Op>, kMinBlocks = 1;
  static constexpr bool fits(int shared) { return shared_bytes<Op> <= shared; }
  WW_FN static void run(const typename Op::Params& p) { run_tile_op<Op>(p); }
};
}  // namespace ww::sm80

// shared, threads: what the launch will ask for: bytes of dynamic shared memory, threads of a block
#define WW_KERNEL(name, Op, shared, threads)                                                                          \
  static_assert(ww::sm80::entry<Op>::fits(shared), "the launch asks for less shared memory than the kernel uses");     \
  static_assert(ww::sm80::entry<Op>::kBlockThreads == (threads), "threads of a block as planned");                  \
  extern "C" __global__ void __launch_bounds__(ww::sm80::entry<Op>::kBlockThreads, ww::sm80::entry<Op>::kMinBlocks)    \
      name(const __grid_constant__ Op::Params params) {                                                               \
    ww::sm80::entry<Op>::run(params);                                                                                 \
  }

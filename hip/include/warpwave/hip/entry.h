// The kernel around an op.  WW_KERNEL(name, Op, bytes, threads): `bytes` is what plan counts as the block's shared memory of a tile op; it is
// static in the kernel (.group_segment_fixed_size), so a launch asks for none.  A row op counts 0 here: its few words for sums across
// waves are its own affair, as is the tile of a transposing op.
// Threads of a block are ww::block_threads<Op> (.max_flat_workgroup_size).  Any grid of at least one block walks all tiles or programs.
#pragma once
#include <warpwave/hip/rows.h>
#include <warpwave/hip/sched.h>
#include <warpwave/hip/transpose.h>
namespace ww {
template <class Op> concept tile_op = requires { typename Op::Rings; };
namespace hip {
template <class Op> constexpr int threads_of() {
  if constexpr (tile_op<Op>) return kTileThreads<Op>;
  else if constexpr (transposing_op<Op>) return Op::kTranspose.threads;
  else return Op::kShape.threads * Op::kShape.groups;
}
template <class Op> constexpr int shared_of() {
  if constexpr (tile_op<Op>) return kTileBytes<Op>;
  else return 0;
}
template <class Op> constexpr int static_of() {
  if constexpr (tile_op<Op>) return kTileBytes<Op>;
  else if constexpr (transposing_op<Op>) return transpose_layout<Op::kTranspose>::kSize;
  else return kRowScratch<Op> * 4;
}
// The arguments are read where they lie: copied at entry, a matmul's 328 bytes fill the scalar registers (53 spills on gfx942).
template <class Op> WW_FN void run_kernel(WW_LDS char* memory) {
  const auto& p = *(const typename Op::Params*)(__attribute__((address_space(4))) const typename Op::Params*)__builtin_amdgcn_kernarg_segment_ptr();
  if constexpr (tile_op<Op>) run_tiles<Op>(p, memory);
  else if constexpr (transposing_op<Op>) run_transposes<Op>(p, memory);
  else run_rows<Op>(p, (WW_LDS float*)memory);
}
}  // namespace hip
template <class Op> constexpr int block_threads = hip::threads_of<Op>();
template <class Op> constexpr int shared_bytes = hip::shared_of<Op>();
}  // namespace ww

#define WW_KERNEL(name, Op, bytes, threads)                                                                                           \
  static_assert(ww::shared_bytes<Op> == (bytes), "shared memory as planned");                                                         \
  static_assert(ww::block_threads<Op> == (threads), "threads of a block as planned");                                                 \
  static_assert(ww::hip::static_of<Op>() <= 65536, "more than a block may have");                                                     \
  extern "C" __attribute__((global, amdgpu_flat_work_group_size(ww::block_threads<Op>, ww::block_threads<Op>))) void name(Op::Params) {\
    static __attribute__((shared, aligned(16))) char memory[ww::hip::static_of<Op>()];                                                \
    ww::hip::run_kernel<Op>((WW_LDS char*)memory);                                                                                    \
  }

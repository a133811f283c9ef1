// Host target: the first header of every translation unit.
//   WARPWAVE_WARP_WIDTH   32 or 64: the warp that reductions over a row emulate.  Both may be linked into one program: whatever depends
//                         on the width has it in its type.
#pragma once
#ifndef WARPWAVE_WARP_WIDTH
#define WARPWAVE_WARP_WIDTH 32
#endif
#include <warpwave/target/base.h>
#include <warpwave/target/rows.h>
#include <warpwave/target/tile.h>
#include <warpwave/target/sched.h>
#include <warpwave/target/transpose.h>
namespace ww::host {
template <class Op> concept tile_op = requires { typename Op::Rings; };

template <class Op, int kWarp> void run(const void* args, int64_t first, int64_t last) {
  const auto& p = *static_cast<const typename Op::Params*>(args);
  if constexpr (tile_op<Op>) run_tiles<Op>(p, first, last);
  else if constexpr (transposing_op<Op>) run_transposes<Op>(p, first, last);
  else run_rows<Op, kWarp>(p, first, last);
}
// programs that a grid of `blocks` reaches: a tile op's blocks walk all tiles, a row op's blocks hold kShape.groups rows each
template <class Op> int64_t programs(const void* args, int64_t blocks) {
  const auto& p = *static_cast<const typename Op::Params*>(args);
  if constexpr (tile_op<Op>) return blocks > 0 ? Op::tiles(p) : 0;
  else if constexpr (transposing_op<Op>) return p.programs < blocks ? p.programs : blocks;
  else return p.programs / Op::kShape.groups < blocks ? p.programs : blocks * Op::kShape.groups;
}
}  // namespace ww::host

// name(args, first, last) runs programs (row ops) or tiles (tile ops) [first, last); name_programs(args, blocks) says how many a grid reaches.
#define WW_KERNEL(name, op, bytes, threads)                                                                                            \
  static_assert((bytes) >= 0);                                                                                                \
  extern "C" void name(const void* args, int64_t first, int64_t last) { ww::host::run<op, WARPWAVE_WARP_WIDTH>(args, first, last); } \
  extern "C" int64_t name##_programs(const void* args, int64_t blocks) { return ww::host::programs<op>(args, blocks); }

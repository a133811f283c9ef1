// warp_specialized: one elected thread copies tiles by tensor map into rings of slots, Op::kGroups warpgroups take them out.  Persistent
// blocks: any number of them, from one on, works through all tiles.
//
// The argument block is arguments<Op>: Op::Params, then from the next multiple of 64 bytes kMaps tensor maps of 128 bytes.
// Map i describes the memory of the view whose kMap is i (16-bit elements; 4-byte outputs use no map).  All maps:
//   rank 4, dims (cols, rows, planes, batches) of the view, none below 1; byte strides (row, plane, batch) of the view, multiples of 16
//   base 16-byte aligned, element strides 1, no interleave, swizzle 128B, out-of-range elements read as 0
//   view that is loaded:  box (64, rows of its shared_tile, 1, 1); the tile has at most 256 rows.  Matmul a: block_m rows (a_t: block_k);
//                         matmul b: block_k rows (b_t: block_n).  Attention q: groups * 64; k and v: block_kv
//   view that is stored:  box (64, 64, 1, 1)
// A map that no copy reaches (no tile, no item, or a view without kRowsAligned) is never read and may hold anything.
// What a launch asks for (shared_bytes, block_threads):
//   shared memory   sum over rings of depth * slot + groups * scratch, rounded up to 8, + 16 * sum of depths + 40, at most 232448
//                   a tile of a slot: rows * 128 * ceil(cols / 64) bytes; scratch: store_bufs * 8192 for 16-bit outputs, else 1
//   threads         128 * groups + (groups > 1 ? 128 : 32)
#pragma once
#include <warpwave/target/tile.h>
namespace ww {
template <class Op> struct arguments {
  typename Op::Params params;
  alignas(64) sm90::tensor_map maps[Op::kMaps];
};

namespace sm90 {
struct cursor {
  int slot = 0;
  uint32_t phase = 0;
  template <int kDepth> WW_FN void advance() {
    if (++slot == kDepth) {
      slot = 0;
      phase ^= 1;
    }
  }
};

// ---- the block's memory: slots of all rings, scratch of all groups, barriers (a full and an empty one for each slot), tile queue
template <class Op, int I> constexpr int kRingOffset = kRingOffset<Op, I - 1> + int(sizeof(slot_of<Op, I - 1>)) * depth_of<Op, I - 1>;
template <class Op> constexpr int kRingOffset<Op, 0> = 0;
template <class Op, int I> constexpr int kRingBarrier = kRingBarrier<Op, I - 1> + 2 * depth_of<Op, I - 1>;
template <class Op> constexpr int kRingBarrier<Op, 0> = 0;
template <class Op> constexpr int kScratchOffset = kRingOffset<Op, Op::Rings::kCount>;
// an empty Scratch has size 1
template <class Op> constexpr int kBarrierOffset = (kScratchOffset<Op> + int(sizeof(typename Op::Scratch)) * Op::kGroups + 7) / 8 * 8;
template <class Op> constexpr int kQueueOffset = kBarrierOffset<Op> + 8 * kRingBarrier<Op, Op::Rings::kCount>;
constexpr int kQueueBytes = 4 * 8 + 2 * 4;   // two full and two empty barriers, two tile numbers
constexpr int kMaxShared = 232448, kSharedOfSm = 233472, kSharedReserved = 1024;

// ---- registers.  From two groups on a whole warpgroup loads and hands its registers to the groups that compute (setmaxnreg wants
// warpgroups); a lone group has all it can address beside a single warp.
template <class Op> constexpr bool kHandOver = Op::kGroups > 1;
template <class Op> constexpr int kLoaders = kHandOver<Op> ? 128 : 32;
template <class Op> constexpr int kThreads = 128 * Op::kGroups + kLoaders<Op>;
template <class Op> constexpr int kRegistersAtEntry = 65536 / kThreads<Op> / 8 * 8;
template <class Op> constexpr int kRegistersShared = kRegistersAtEntry<Op> * (Op::kGroups + 1);   // of a thread of each warpgroup, together
template <class Op> constexpr int kRegistersOfGroup = (kRegistersShared<Op> - 32) / Op::kGroups / 8 * 8;   // 24 are too few for a queue's loader
template <class Op> constexpr int kRegistersOfLoader = kRegistersShared<Op> - kRegistersOfGroup<Op> * Op::kGroups;

template <class Op> struct block_memory {
  char* base;
  uint32_t address;
  template <int I> WW_FN slot_of<Op, I>& slot(int s) const {
    return *reinterpret_cast<slot_of<Op, I>*>(base + kRingOffset<Op, I> + s * int(sizeof(slot_of<Op, I>)));
  }
  template <int I> WW_FN uint32_t full(int s) const { return address + kBarrierOffset<Op> + 8 * (kRingBarrier<Op, I> + s); }
  template <int I> WW_FN uint32_t empty(int s) const { return full<I>(s + depth_of<Op, I>); }
};
template <class Op, int I = 0> WW_FN void init_rings(const block_memory<Op>& mem) {
  if constexpr (I < Op::Rings::kCount) {
    static_assert(sizeof(slot_of<Op, I>) % 1024 == 0);
    for (int s = 0; s < depth_of<Op, I>; ++s) {
      mbarrier_init(mem.template full<I>(s), 1);
      mbarrier_init(mem.template empty<I>(s), 4 * Op::kGroups);   // one arrival per warp: the warps of a group need not meet
    }
    init_rings<Op, I + 1>(mem);
  }
}

// ---- the loading side
template <class Op> struct producer {
  block_memory<Op> mem;
  const tensor_map* maps;
  cursor at[Op::Rings::kCount] = {};
  uint32_t bar = 0;   // of the slot being filled
  template <int I, class F> WW_FN void fill(F f) {
    cursor& c = at[I];
    mbarrier_wait(mem.template empty<I>(c.slot), c.phase ^ 1);
    bar = mem.template full<I>(c.slot);
    f(mem.template slot<I>(c.slot));
    mbarrier_arrive(bar);
    c.template advance<depth_of<Op, I>>();
  }
  template <class T, int R, int C, major U, class V> WW_FN void copy_async(shared_tile<T, R, C, U>& dst, const V&, coord c) const {
    static_assert(V::kTensorMap >= 0 && V::kTensorMap < Op::kMaps);
    mbarrier_expect_tx(bar, int(sizeof(dst)));
#pragma unroll
    for (int u = 0; u < dst.kPanels; ++u)
      tma_load(dst.address() + u * dst.kPanelBytes, maps[V::kTensorMap], c.col + u * kPanelCols, c.row, c.plane, c.batch, bar);
  }
};

// ---- the computing side
template <class Op> struct consumer : group {
  block_memory<Op> mem;
  cursor next[Op::Rings::kCount] = {};
  cursor oldest[Op::Rings::kCount] = {};
  template <int I> WW_FN const slot_of<Op, I>& wait() {
    cursor& c = next[I];
    mbarrier_wait(mem.template full<I>(c.slot), c.phase);
    auto& s = mem.template slot<I>(c.slot);
    c.template advance<depth_of<Op, I>>();
    return s;
  }
  template <int I> WW_FN void release() {
    cursor& c = oldest[I];
    if (lane == 0) mbarrier_arrive(mem.template empty<I>(c.slot));
    c.template advance<depth_of<Op, I>>();
  }
  WW_FN typename Op::Scratch& scratch() const {
    return *reinterpret_cast<typename Op::Scratch*>(mem.base + kScratchOffset<Op> + index * int(sizeof(typename Op::Scratch)));
  }
  // named barriers 8.. : the group that takes and the group that passes meet, 256 threads.  The driver gives the first turn and takes the last
  WW_FN void turn_take() const {
    if constexpr (Op::kTurns) barrier_sync(8 + index, 256);
  }
  WW_FN void turn_pass() const {
    if constexpr (Op::kTurns) barrier_arrive(8 + (index + 1) % Op::kGroups, 256);
  }
};

// ---- which tile next, where tiles cost unevenly: the loading thread draws numbers from a counter and hands them on through a ring of two
template <class Op> struct tile_queue {
  block_memory<Op> mem;
  cursor at = {};
  WW_FN uint32_t full(int s) const { return mem.address + kQueueOffset<Op> + 8 * s; }
  WW_FN uint32_t empty(int s) const { return full(s + 2); }
  WW_FN int& number(int s) const { return *reinterpret_cast<int*>(mem.base + kQueueOffset<Op> + 32 + 4 * s); }
  WW_FN void init() const {
    for (int s = 0; s < 2; ++s) {
      mbarrier_init(full(s), 1);
      mbarrier_init(empty(s), 4 * Op::kGroups);
    }
  }
  WW_FN void publish(int i) {
    mbarrier_wait(empty(at.slot), at.phase ^ 1);
    number(at.slot) = i;
    mbarrier_arrive(full(at.slot));
    at.template advance<2>();
  }
  WW_FN int take(int lane) {
    mbarrier_wait(full(at.slot), at.phase);
    int i = __shfl_sync(~0u, number(at.slot), 0);   // a value from shared memory looks divergent; this makes it uniform
    if (lane == 0) mbarrier_arrive(empty(at.slot));
    at.template advance<2>();
    return i;
  }
};

template <class Op> WW_FN void load_tiles(const arguments<Op>& args, block_memory<Op> mem, tile_queue<Op> queue) {
  const auto& p = args.params;
  producer<Op> g{mem, args.maps};
  int n = Op::tiles(p);
  auto load_tile = [&](int i) {
    auto t = Op::tile(p, i);
    for (int k = 0, items = Op::items(p, t); k < items; ++k) Op::load(g, p, t, k);
  };
  if constexpr (Op::kUneven) {
    for (int i = blockIdx.x;;) {
      queue.publish(i);
      if (i >= n) break;
      int drawn = atomicAdd(p.queue, 1);
      if (drawn == n - 1) *p.queue = 0;   // every tile draws once: this was the launch's last draw
      load_tile(i);
      i = drawn + gridDim.x;
    }
  } else {
    for (int i = blockIdx.x; i < n; i += gridDim.x) load_tile(i);
  }
}
template <class Op> WW_FN void run_tiles(const arguments<Op>& args, block_memory<Op> mem, tile_queue<Op> queue, int warp, int lane) {
  const auto& p = args.params;
  consumer<Op> g{{warp / 4, warp % 4, lane, args.maps}, mem};
  if constexpr (Op::kTurns) {
    if (g.index == Op::kGroups - 1) g.turn_pass();
  }
  int n = Op::tiles(p);
  if constexpr (Op::kUneven) {
    for (int i; (i = queue.take(lane)) < n;) Op::run(g, p, Op::tile(p, i));
  } else {
    for (int i = blockIdx.x; i < n; i += gridDim.x) Op::run(g, p, Op::tile(p, i));
  }
  if constexpr (Op::kTurns) {
    if (g.index == 0) g.turn_take();
  }
  if (g.leader()) bulk_wait_read<0>();   // shared memory outlives the last store's reads
}

template <class Op> WW_FN void run_tile_op(const arguments<Op>& args) {
  static_assert(Op::kGroups >= 1 && Op::kGroups <= 4, "named barriers 1.. are the groups', 8.. the turns'");
  static_assert(!Op::kTurns || Op::kGroups > 1);
  extern __shared__ __align__(1024) char memory[];
  block_memory<Op> mem{memory, shared_address(memory)};
  tile_queue<Op> queue{mem};
  int warp = __shfl_sync(~0u, int(threadIdx.x) / 32, 0), lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    init_rings<Op>(mem);
    queue.init();
    mbarrier_init_fence();
  }
  __syncthreads();
  wait_for_previous_kernel();   // launched early, if the launch says so: the set-up above overlaps the tail of the kernel before
  if (warp >= 4 * Op::kGroups) {
    if constexpr (kHandOver<Op>) registers_shrink<kRegistersOfLoader<Op>>();
    if (warp == 4 * Op::kGroups && elect_one()) load_tiles<Op>(args, mem, queue);
  } else {
    if constexpr (kHandOver<Op>) registers_grow<kRegistersOfGroup<Op>>();
    run_tiles<Op>(args, mem, queue, warp, lane);
  }
}
}  // namespace sm90

// ---- what a launch needs
template <class Op> constexpr int shared_bytes = sm90::kQueueOffset<Op> + sm90::kQueueBytes;
template <class Op> constexpr int block_threads = sm90::kThreads<Op>;
// a block that hands registers over owns the SM; of the small ones two must fit where shared memory lets them
template <class Op> constexpr int min_blocks =
    !sm90::kHandOver<Op> && 2 * (shared_bytes<Op> + sm90::kSharedReserved) <= sm90::kSharedOfSm ? 2 : 1;
}  // namespace ww

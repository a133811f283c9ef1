// multistage: every thread loads and computes.  A block walks tiles with the stride of the grid.  A slot that was let go is filled again after
// the next block barrier, which is inside the next wait.  With one ring the copies are issued between the steps of the batch that follows, early
// by half of the warps and late by the others: the warps that share a scheduler then do not leave the matrix unit idle together.
#pragma once
#include <utility>
#include <warpwave/target/tile.h>
namespace ww::sm80 {

template <class Op, int I> constexpr int kRingOffset = kRingOffset<Op, I - 1> + int(sizeof(slot_of<Op, I - 1>)) * depth_of<Op, I - 1>;
template <class Op> constexpr int kRingOffset<Op, 0> = 0;
template <class Op> constexpr int kScratchOffset = kRingOffset<Op, Op::Rings::kCount>;
// a scratch without tiles has size 1 and no memory
template <class Op> constexpr int kScratchBytes = alignof(typename Op::Scratch) < 128 ? 0 : int(sizeof(typename Op::Scratch));

struct ring_state {
  int in = 0, out = 0;   // slots to fill and to wait for next
  int used = 0;          // filled and not yet known to be free
  int freed = 0;         // let go since the last barrier
  int ready = 0;         // filled and not yet waited for
  uint32_t order = 0;    // item numbers mod 256 of the ready slots, oldest lowest
};
template <int kDepth> WW_FN void advance(int& slot) {
  if constexpr (kDepth > 1) slot = slot + 1 == kDepth ? 0 : slot + 1;
}
// at most n groups may still run
template <int kMost> WW_FN void wait_group_at_most(int n) {
  if constexpr (kMost == 0) wait_group<0>();
  else if (n >= kMost) wait_group<kMost>();
  else wait_group_at_most<kMost - 1>(n);
}

template <class Op> constexpr int block_threads = threads_of(Op::kGroupM);

template <class Op> struct block : group<block<Op>, block_threads<Op>> {
  static_assert(Op::kGroups == 1, "a group is the whole block here");
  static constexpr int kRings = Op::Rings::kCount;
  const typename Op::Params& p;
  char* memory;
  typename Op::Tile t{};
  ring_state ring[kRings];
  int items = 0, next = 0;   // of the tile; the next to load
  int issued = 0;            // groups of copies, mod 256
  bool blocked = false;      // the last fill found no free slot
  bool due = false;          // a refill was put off

  WW_FN block(const typename Op::Params& params, char* m) : p(params), memory(m) {}
  WW_FN void start(const typename Op::Tile& tile) {
    t = tile;
    items = Op::items(p, t);
    next = 0;
  }
  template <int I> WW_FN slot_of<Op, I>& slot(int s) const {
    return *reinterpret_cast<slot_of<Op, I>*>(memory + kRingOffset<Op, I> + s * int(sizeof(slot_of<Op, I>)));
  }
  WW_FN typename Op::Scratch& scratch() const { return *reinterpret_cast<typename Op::Scratch*>(memory + kScratchOffset<Op>); }
  WW_FN void turn_take() const {}
  WW_FN void turn_pass() const {}

  template <int I, class F> WW_FN void fill(F f) {
    ring_state& s = ring[I];
    blocked = s.used == depth_of<Op, I>;
    if (blocked) return;
    f(slot<I>(s.in));
    advance<depth_of<Op, I>>(s.in);
    if constexpr (kRings > 1) {
      static_assert(depth_of<Op, I> <= 4, "order holds four numbers");
      s.order |= uint32_t(issued & 255) << (8 * s.ready);
    }
    ++s.used;
    ++s.ready;
  }
  // items in order, until one finds no free slot
  WW_FN void refill() {
    due = false;
#pragma unroll 1
    while (next < items) {
      Op::load(*this, p, t, next);
      if (blocked) return;
      commit_group();
      ++issued;
      ++next;
    }
  }
  WW_FN void between_steps(int k, int steps) {
    if (kRings == 1 && due && (k == steps - 1 || (k == 1 && this->warp < block_threads<Op> / 64))) refill();
  }
  WW_FN void barrier() {
    __syncthreads();
#pragma unroll
    for (ring_state& r : ring) {
      r.used -= r.freed;
      r.freed = 0;
    }
  }
  template <int I> WW_FN const slot_of<Op, I>& wait() {
    constexpr int kMost = [] {
      int n = 0;
      [&]<int... R>(std::integer_sequence<int, R...>) { ((n += depth_of<Op, R>), ...); }(std::make_integer_sequence<int, kRings>{});
      return n - 1;
    }();
    ring_state& s = ring[I];
    if (due) refill();
#pragma unroll 1
    for (;;) {
      bool ready = s.ready > 0;   // else its slot becomes free, and is filled, at the barrier
      if (ready) wait_group_at_most<kMost>(kRings == 1 ? s.ready - 1 : (issued - 1 - int(s.order & 255)) & 255);
      barrier();
      if (ready && kRings == 1) {
        due = true;
        break;
      }
      refill();
      if (ready) break;
    }
    --s.ready;
    s.order >>= 8;
    const slot_of<Op, I>& found = slot<I>(s.out);
    advance<depth_of<Op, I>>(s.out);
    return found;
  }
  template <int I> WW_FN void release() { ++ring[I].freed; }
};

template <class Op> constexpr int shared_bytes = kScratchOffset<Op> + kScratchBytes<Op>;

template <class Op> WW_FN void run_tile_op(const typename Op::Params& p) {
  extern __shared__ __align__(128) char memory[];
  block<Op> g(p, memory);
  int tiles = Op::tiles(p);
#pragma unroll 1
  for (int i = int(blockIdx.x); i < tiles; i += int(gridDim.x)) {
    g.start(Op::tile(p, i));
    Op::run(g, p, g.t);
  }
}
}  // namespace ww::sm80
namespace ww {
template <class Op> constexpr int shared_bytes = sm80::shared_bytes<Op>;
}  // namespace ww

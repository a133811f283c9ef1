// Multistage, two-phase: every thread loads and computes.  An item goes global memory -> registers (fetch) long before it goes
// registers -> slot (put), so its latency hides behind the products without an asynchronous copy.  The op's load is pure, so it is run
// once for each phase.  At most one item of a ring is held in registers.
//
// One barrier for each slot waited for: it publishes what was put since the last one, and tells that every wave has finished with
// the slots released before it.  Only behind it are those slots written, so an op releases a slot right after its batch (lag 0).
#pragma once
#include <warpwave/hip/tile.h>
namespace ww {
namespace hip {
template <class Op> constexpr int kTileThreads = waves_for(Op::kGroupM) * kWave;

// What a thread carries of a tile: chunks of 16 bytes.  Of a tile that is turned, squares of kTurn rows of k by one chunk.
template <class Tile, int kThreads> struct share {
  static constexpr int kChunks = Tile::kStoreMN * Tile::kStoreK / Tile::kPer;
  static constexpr bool busy(int turn) { return kChunks / turn >= kThreads; }
  static constexpr int kTurn = !Tile::kTurned ? 1 : Tile::kPer == 8 && busy(8) ? 8 : busy(4) ? 4 : busy(2) ? 2 : 1;
  static constexpr int kUnits = kChunks / kTurn, kMine = (kUnits + kThreads - 1) / kThreads;
  static constexpr int kAcross = Tile::kTurned ? Tile::kStoreMN / Tile::kPer : Tile::kChunks;   // units of a row
};
WW_FN int lower(int a, int b) { return a < b ? a : b; }
constexpr int kSpare = 16;   // a tile whose chunks do not divide evenly takes more; what is not used costs no register

template <class Tile, int kThreads> struct copier {
  using S = share<Tile, kThreads>;
  using T = typename Tile::element;
  static constexpr int kPer = Tile::kPer;
  WW_GLOBAL const T* base;
  int64_t stride;
  int me = opaque(thread_id()) & (kThreads - 1);   // the mask tells the compiler the range again
  static_assert((kThreads & (kThreads - 1)) == 0);
  int rows, cols;   // of the tile, that exist
  bool wide;        // every chunk lies in the view whole or not at all: only a tile cut within a chunk is not

  template <int kMap> WW_FN copier(const view<const T, kMap>& v, coord c) {
    base = (WW_GLOBAL const T*)v.at(c.batch, c.plane, c.row, c.col);
    stride = v.row_stride;
    rows = lower(v.rows - c.row, Tile::kRows);
    cols = lower(v.cols - c.col, Tile::kCols);
    wide = cols % kPer == 0;
  }
  WW_FN static int row_of(int unit, int j) { return unit / S::kAcross * S::kTurn + j; }
  WW_FN static int col_of(int unit) { return unit % S::kAcross * kPer; }
  // Outside the view the address is clamped into it: no branch, and nothing here waits for a load.
  WW_FN void fetch(uint4* held) const {
    if (rows <= 0 || cols <= 0 || !wide) return;
#pragma unroll
    for (int i = 0; i < S::kMine; ++i) {
      int unit = i * kThreads + me, col = lower(col_of(unit), cols - kPer);
#pragma unroll
      for (int j = 0; j < S::kTurn; ++j) {
        int row = lower(row_of(unit, j), rows - 1);
        held[i * S::kTurn + j] = ((WW_GLOBAL const anywhere<16>*)(base + row * stride + col))->w;
      }
    }
  }
  WW_FN void put(Tile& dst, uint4* held) const {
    if (!wide && rows > 0 && cols > 0) {
      put_elements(dst);
      return;
    }
    if (Tile::kPadded || rows < Tile::kRows || cols < Tile::kCols) {   // here, not at the load, which would then be waited for
#pragma unroll
      for (int i = 0; i < S::kMine; ++i)
#pragma unroll
        for (int j = 0; j < S::kTurn; ++j) {
          int unit = i * kThreads + me;
          uint32_t in = below(row_of(unit, j), rows) & below(col_of(unit), cols);
          uint4& x = held[i * S::kTurn + j];
#pragma unroll
          for (int w = 0; w < 4; ++w) x[w] &= in;
        }
    }
#pragma unroll
    for (int i = 0; i < S::kMine; ++i) {
      int unit = i * kThreads + me;
      if (S::kUnits % kThreads != 0 && unit >= S::kUnits) continue;
      if constexpr (!Tile::kTurned) *dst.chunk(row_of(unit, 0), unit % S::kAcross) = held[i];
      else turn(dst, held + i * S::kTurn, row_of(unit, 0), col_of(unit));
    }
  }

 private:
  // The tile at the view's right edge where that cuts a chunk: straight from global memory, a chunk a turn, so that the rare case
  // takes neither registers nor code from the others.
  WW_FN void put_elements(Tile& dst) const {
#pragma unroll 1
    for (int c = me; c < S::kChunks; c += kThreads) {
      int row = c / S::kAcross, col = c % S::kAcross * kPer;
      auto p = base + lower(row, rows - 1) * stride;
      uint4 w = {0, 0, 0, 0};
#pragma unroll
      for (int e = 0; e < kPer; ++e) {
        uint32_t in = below(row, rows) & below(col + e, cols);
        auto q = p + lower(col + e, cols - 1);
        if constexpr (sizeof(T) == 2) w[e / 2] |= (*(WW_GLOBAL const uint16_t*)q & in) << (16 * (e % 2));
        else w[e] = *(WW_GLOBAL const uint32_t*)q & in;
      }
      if constexpr (!Tile::kTurned) *dst.chunk(row, col / kPer) = w;
      else {
#pragma unroll
        for (int e = 0; e < kPer; ++e) {
          if constexpr (sizeof(T) == 2) *(WW_LDS uint16_t*)dst.at(col + e, row) = uint16_t(w[e / 2] >> (16 * (e % 2)));
          else *(WW_LDS uint32_t*)dst.at(col + e, row) = w[e];
        }
      }
    }
  }
  // kTurn rows of k x kPer neighbours -> for each neighbour kTurn elements along k
  WW_FN static void turn(Tile& dst, const uint4* x, int k, int mn) {
#pragma unroll
    for (int e = 0; e < kPer; ++e) {
      if constexpr (sizeof(T) == 4) {
        if constexpr (S::kTurn == 4) *dst.chunk(mn + e, k / 4) = uint4{x[0][e], x[1][e], x[2][e], x[3][e]};
        else {
#pragma unroll
          for (int j = 0; j < S::kTurn; ++j) *(WW_LDS uint32_t*)dst.at(mn + e, k + j) = x[j][e];
        }
      } else if constexpr (S::kTurn == 1) {
        *(WW_LDS uint16_t*)dst.at(mn + e, k) = uint16_t(x[0][e / 2] >> (16 * (e % 2)));
      } else {
        uint32_t w[S::kTurn / 2];
#pragma unroll
        for (int j = 0; j < S::kTurn / 2; ++j) w[j] = __builtin_amdgcn_perm(x[2 * j + 1][e / 2], x[2 * j][e / 2], e % 2 ? 0x07060302u : 0x05040100u);
        if constexpr (S::kTurn == 8) *dst.chunk(mn + e, k / 8) = uint4{w[0], w[1], w[2], w[3]};
        else if constexpr (S::kTurn == 4) *(WW_LDS uint2*)dst.at(mn + e, k) = uint2{w[0], w[1]};
        else *(WW_LDS uint32_t*)dst.at(mn + e, k) = w[0];
      }
    }
  }
};

// The first of several rings has one slot and is filled once a tile, by item 0: copied straight through before all else, since holding it
// would cost registers all along.
template <class Op, int I> constexpr bool kHeld = Op::Rings::kCount == 1 || I > 0;

template <class Op, int I> struct ring_state {
  using Slot = slot_of<Op, I>;
  static constexpr int kDepth = depth_of<Op, I>, kThreads = kTileThreads<Op>;
  static constexpr int kHold = int(sizeof(Slot) / 16) / kThreads + kSpare;
  WW_LDS Slot* slots;
  uint4 held[kHold];
  int item;                              // the one held, or -1
  int filled, taken, released;
  WW_FN void start() {
#pragma unroll
    for (auto& x : held) x = uint4{0, 0, 0, 0};   // ends the last tile's hold on the registers
    item = -1;
    filled = taken = released = 0;
  }
  WW_FN bool room() const { return filled - released < kDepth; }
  WW_FN Slot& slot(int i) const { return *(Slot*)&slots[kDepth == 1 ? 0 : i % kDepth]; }
};
template <class Op, int I> struct ring_chain : ring_chain<Op, I - 1> {
  ring_state<Op, I> r;
  WW_FN void place(WW_LDS char* memory) {
    ring_chain<Op, I - 1>::place(memory);
    r.slots = (WW_LDS slot_of<Op, I>*)(memory + ring_chain<Op, I - 1>::kBytes);
  }
  static constexpr int kBytes = ring_chain<Op, I - 1>::kBytes + round_up(int(sizeof(slot_of<Op, I>)), 16) * depth_of<Op, I>;
};
template <class Op> struct ring_chain<Op, -1> {
  WW_FN void place(WW_LDS char*) {}
  static constexpr int kBytes = 0;
};

// What Op::load sees.  kFetch: the next item of whatever ring goes into registers.  kDirect: item 0 goes into its slot.  Else the item held
// for that ring is put.
constexpr int kFetch = -1, kDirect = -2;
template <class Block, int kRing> struct loader {
  Block& b;
  uint4* held = nullptr;
  bool done = false;
  template <int I, class F> WW_FN void fill(F f) {
    auto& r = b.template ring<I>();
    held = r.held;
    if constexpr (kRing == I) f(r.slot(r.filled));
    if constexpr (kRing == kFetch && kHeld<typename Block::Op, I>) {
      if (r.item >= 0) return;
      f(r.slot(0));
      r.item = b.next;
      done = true;
    }
    if constexpr (kRing == kDirect && !kHeld<typename Block::Op, I>) {
      static_assert(depth_of<typename Block::Op, I> == 1, "the first of several rings is filled once a tile");
      f(r.slot(0));
      r.filled = 1;
      done = true;
    }
  }
  template <class T, int R, int C, major W, int kMap> WW_FN void copy_async(shared_tile<T, R, C, W>& dst, const view<const T, kMap>& v, coord at) {
    using S = share<shared_tile<T, R, C, W>, Block::kThreads>;
    copier<shared_tile<T, R, C, W>, Block::kThreads> c(v, at);
    if constexpr (kRing >= 0) c.put(dst, held);
    else if constexpr (kRing == kFetch) c.fetch(held);
    else {
      uint4 x[S::kMine * S::kTurn];
      c.fetch(x);
      c.put(dst, x);
    }
    held += S::kMine * S::kTurn;
  }
};

// The arguments through a pointer the compiler cannot follow: read again at every use (scalar cache) instead of held in scalar registers
// over the whole loop, with all that is computed from them.
template <class P> WW_FN const P& fresh(const P& p) {
  auto q = (__attribute__((address_space(4))) const P*)&p;
  WW_OPAQUE_SCALAR(q);
  return *(const P*)q;
}

template <class O> struct block : group {
  using Op = O;
  using Tile = decltype(Op::tile(*(const typename Op::Params*)nullptr, 0));
  static_assert(Op::kGroups == 1, "a group is the whole block here");
  static constexpr int kThreads = kTileThreads<Op>, kRings = Op::Rings::kCount;
  const typename Op::Params& p;
  typename Op::Scratch& s;
  ring_chain<Op, kRings - 1> all;
  Tile t;
  int items, next;   // next: the item to fetch

  template <int I> WW_FN ring_state<Op, I>& ring() { return static_cast<ring_chain<Op, I>&>(all).r; }
  template <int I = 0, class F> WW_FN void each_ring(F f) {
    f(ring<I>(), loader<block, I>{*this});
    if constexpr (I + 1 < kRings) each_ring<I + 1>(f);
  }
  // What is held goes where there is room, what is next into the registers this leaves.  False: nothing moved.
  WW_FN bool pump() {
    bool moved = false;
    const auto& p = kRings > 1 ? fresh(this->p) : this->p;   // one ring's arguments fit the registers
    each_ring([&](auto& r, auto l) {
      if (r.item < 0 || !r.room()) return;
      Op::load(l, p, t, r.item);
      r.item = -1;
      ++r.filled;
      moved = true;
    });
#pragma unroll
    for (int i = 0; i < (kRings > 1 ? kRings - 1 : 1); ++i)
      if (next < items) {
        loader<block, kFetch> l{*this};
        Op::load(l, p, t, next);
        if (l.done) {
          ++next;
          moved = true;
        }
      }
    return moved;
  }
  WW_FN void start(const Tile& tile) {
    t = tile;
    items = Op::items(p, t);
    next = 0;
    each_ring([](auto& r, auto) { r.start(); });
    barrier();   // the last tile's readers have gone
    if (kRings > 1 && items > 0) {
      loader<block, kDirect> l{*this};
      Op::load(l, p, t, 0);
      next = l.done;
    }
  }
  template <int I> WW_FN const slot_of<Op, I>& wait() {
    auto& r = ring<I>();
    bool there = r.filled > r.taken;
    barrier();   // slots are written only behind it, so every wave is done with those released
    bool more;
    // Once, but for the first slot of a tile, which fills the rings, and ops that keep slots longer than their rings are deep
#pragma unroll 1
    do more = pump();
    while (!there && more);
    if (!there) barrier();
    return r.slot(r.taken++);
  }
  template <int I> WW_FN void release() { ++ring<I>().released; }
  WW_FN typename Op::Scratch& scratch() { return s; }
};

template <class Op> constexpr bool kSharedScratch = sizeof(typename Op::Scratch) >= 16;   // else nothing but empty staging
template <class Op> constexpr int kScratchBytes = kSharedScratch<Op> ? round_up(int(sizeof(typename Op::Scratch)), 16) : 0;
template <class Op> constexpr int kTileBytes = ring_chain<Op, Op::Rings::kCount - 1>::kBytes + kScratchBytes<Op>;

template <class Op> WW_FN void run_tiles(const typename Op::Params& p, WW_LDS char* memory) {
  typename Op::Scratch none;
  auto* shared = (WW_LDS typename Op::Scratch*)(memory + ring_chain<Op, Op::Rings::kCount - 1>::kBytes);
  block<Op> g{{}, p, kSharedScratch<Op> ? *(typename Op::Scratch*)shared : none, {}, {}, 0, 0};
  g.all.place(memory);
  int count = Op::tiles(p), step = block_count<kTileThreads<Op>>();
#pragma unroll 1
  for (int i = block_id(); i < count; i += step) {
    g.start(Op::tile(p, i));
    Op::run(g, p, g.t);
  }
}
}  // namespace hip
}  // namespace ww

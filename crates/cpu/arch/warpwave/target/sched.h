// The sequential schedule: one group after the other, each with its own pass over the rings.
//   A copy runs when its slot is waited for (late) or when the slot is free (eager); a batch when a wait forces it or when it is issued.
//   host::schedule picks; every result must be the same.  Whatever would be a race on a GPU is then a poisoned access or a broken rule here.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>
#include <warpwave/target/tile.h>
namespace ww {
namespace host {

struct region { const void* p; size_t bytes; };
// The choice between late and early, once for each piece of asynchronous work.
struct chooser {
  int choice;
  uint64_t state;
  bool early() {
    if (choice < 2) return choice == 1;
    state += 0x9e3779b97f4a7c15u;   // splitmix64
    uint64_t z = state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) & 1;
  }
};

template <class Slot> struct slot_state {
  std::unique_ptr<Slot> slot = std::make_unique<Slot>();
  std::vector<std::function<void()>> copies;   // not yet run
  std::vector<region> tiles;                   // what the copies fill
};
template <class R> struct ring_state {
  slot_state<typename R::slot> at[R::depth];
  int filled = 0, taken = 0, freed = 0;
};
template <class L> struct ring_states;
template <class... R> struct ring_states<rings<R...>> { std::tuple<ring_state<R>...> r; };

template <class Op> class group {
  static constexpr int kGroups = Op::kGroups;
  using Params = typename Op::Params;
  using Tile = std::remove_cvref_t<decltype(Op::tile(std::declval<const Params&>(), 0))>;

 public:
  int index = 0;

  explicit group(const Params& params) : p_(params) {}
  group(const group&) = delete;
  void begin(int number, const Tile& t) {
    t_ = &t;
    item_ = takes_ = 0;
    taken_ = false;
    items_ = Op::items(p_, t);
    choose_ = {schedule, uint64_t(schedule) << 32 ^ uint64_t(number) * kGroups + uint64_t(index)};
    load_early();
  }
  int turns() const { return takes_; }

  // loading side
  template <int I, class F> void fill(F f) {
    auto& r = ring_<I>();
    if (++fills_ > 1) fail("load must fill exactly one slot");
    if (r.filled - r.freed == depth_of<Op, I>) {
      stalled_ = true;
      return;
    }
    auto& s = r.at[r.filled % depth_of<Op, I>];
    copies_ = &s.copies;
    regions_ = &s.tiles;
    f(*s.slot);
    copies_ = nullptr;
    regions_ = nullptr;
    ++r.filled;
    if (choose_.early()) run_copies(s);
  }
  template <class T, int R, int C, major U, class V, int kMap> void copy_async(shared_tile<T, R, C, U>& dst, const view<V, kMap>& v, coord c) {
    static_assert(std::is_same_v<std::remove_const_t<V>, T>, "a copy does not convert");
    if (!copies_) fail("copy_async outside of fill");
    for (const region& r : *regions_)
      if (r.p == dst.data) fail("two copies fill one tile of a slot");
    regions_->push_back({dst.data, dst.kBytes});
    copies_->push_back([&dst, v, c] {
      dst.open();
      bool inside = c.plane >= 0 && c.plane < v.planes && c.batch >= 0 && c.batch < v.batches && c.col >= 0;
      int n = inside ? v.cols - c.col : 0;
      n = n < 0 ? 0 : n < C ? n : C;
      for (int i = 0; i < R; ++i) {
        T* d = dst.data + i * C;
        int row = c.row + i, have = row >= 0 && row < v.rows ? n : 0;
        if (have > 0) std::memcpy(d, v.at(c.batch, c.plane, row, c.col), sizeof(T) * size_t(have));
        for (int j = have; j < C; ++j) d[j] = T{};
      }
      dst.close();
    });
  }

  // computing side
  template <int I> const slot_of<Op, I>& wait() {
    auto& r = ring_<I>();
    while (r.filled == r.taken)
      if (!load_next()) fail(item_ == items_ ? "wait on a ring that gets no further item" : "deadlock: the next item needs a slot that the op has not released");
    load_early();
    run_early();
    auto& s = r.at[r.taken++ % depth_of<Op, I>];
    run_copies(s);
    for (const region& t : s.tiles) open_memory(t.p, t.bytes);
    return *s.slot;
  }
  template <int I> void release() {
    auto& r = ring_<I>();
    if (r.freed == r.taken) fail("release without a wait");
    auto& s = r.at[r.freed % depth_of<Op, I>];
    for (const region& t : s.tiles) {
      for (const batch& b : batches_)
        if (b.left == t.p || b.right == t.p) fail("release of a slot that a batch still reads");
      close_memory(t.p, t.bytes);
    }
    s.tiles.clear();
    ++r.freed;
    load_early();
  }

  template <int M, class T, int R, int C> shared_band<T, M, C> band(const shared_tile<T, R, C, major::k>& t) const {
    static_assert(M * kGroups == R, "bands of the groups make up the tile");
    return {t.data + index * M * C, t.data};
  }
  template <int M, class T, int R, int C> shared_band_cols<T, R, M> band_cols(const shared_tile<T, R, C, major::mn>& t) const {
    static_assert(M * kGroups == C, "bands of the groups make up the tile");
    return {t.data + index * M, t.data, C};
  }
  template <class T, int R, int C> shared_band<T, R, C> whole(const shared_tile<T, R, C, major::k>& t) const { return {t.data, t.data}; }

  // a band of rows, a band of columns, an operand; times a tile or a transposed one
  template <int M, int N, int K, rows U, class T> void mma_async(acc<M, N, U>& d, shared_band<T, M, K> a, const shared_tile<T, K, N, major::mn>& b, bool accumulate) {
    submit(d, nullptr, a.tile, b.data, [=, this, y = b.data](float* x) { unpack<M, K>(x, a.p, K), unpack<K, N>(right_of<M, N, K>(), y, N); }, k_of<K>(), accumulate);
  }
  template <int M, int N, int K, rows U, class T>
  void mma_async(acc<M, N, U>& d, shared_band<T, M, K> a, transposed_tile<shared_tile<T, N, K, major::k>> b, bool accumulate) {
    submit(d, nullptr, a.tile, b.t.data, [=, this, y = b.t.data](float* x) { unpack<M, K>(x, a.p, K), unpack_transposed<K, N>(right_of<M, N, K>(), y, K); }, k_of<K>(), accumulate);
  }
  template <int M, int N, int K, rows U, class T> void mma_async(acc<M, N, U>& d, shared_band_cols<T, K, M> a, const shared_tile<T, K, N, major::mn>& b, bool accumulate) {
    submit(d, nullptr, a.tile, b.data, [=, this, y = b.data](float* x) { unpack_transposed<M, K>(x, a); unpack<K, N>(right_of<M, N, K>(), y, N); }, k_of<K>(), accumulate);
  }
  template <int M, int N, int K, rows U, class T>
  void mma_async(acc<M, N, U>& d, shared_band_cols<T, K, M> a, transposed_tile<shared_tile<T, N, K, major::k>> b, bool accumulate) {
    submit(d, nullptr, a.tile, b.t.data, [=, this, y = b.t.data](float* x) { unpack_transposed<M, K>(x, a); unpack_transposed<K, N>(right_of<M, N, K>(), y, K); }, k_of<K>(), accumulate);
  }
};
}  // namespace host
}  // namespace ww

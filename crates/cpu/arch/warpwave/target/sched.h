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
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) & 1;
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
    choose_ = {schedule, (uint64_t(schedule) << 32) ^ (uint64_t(number) * kGroups + uint64_t(index))};
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
      if (!load_next()) {
        if (item_ == items_) fail("wait on a ring that gets no further item");
        fail("deadlock: the next item needs a slot that the op has not released");
      }
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

  // left: a band of rows, a band of columns or an operand; right: a tile or a transposed one
  template <int M, int N, int K, rows U, class T>
  void mma_async(acc<M, N, U>& d, shared_band<T, M, K> a, const shared_tile<T, K, N, major::mn>& b, bool accumulate) {
    submit<M, N, K>(d, from(a), from(b), accumulate);
  }
  template <int M, int N, int K, rows U, class T>
  void mma_async(acc<M, N, U>& d, shared_band<T, M, K> a, transposed_tile<shared_tile<T, N, K, major::k>> b, bool accumulate) {
    submit<M, N, K>(d, from(a), from(b), accumulate);
  }
  template <int M, int N, int K, rows U, class T>
  void mma_async(acc<M, N, U>& d, shared_band_cols<T, K, M> a, const shared_tile<T, K, N, major::mn>& b, bool accumulate) {
    submit<M, N, K>(d, from(a), from(b), accumulate);
  }
  template <int M, int N, int K, rows U, class T>
  void mma_async(acc<M, N, U>& d, shared_band_cols<T, K, M> a, transposed_tile<shared_tile<T, N, K, major::k>> b, bool accumulate) {
    submit<M, N, K>(d, from(a), from(b), accumulate);
  }
  template <int M, int N, int K, rows U, class T>
  void mma_async(acc<M, N, U>& d, operand<T, M, K>& a, const shared_tile<T, K, N, major::mn>& b, bool accumulate) {
    submit<M, N, K>(d, from(a), from(b), accumulate);
  }
  template <int M, int N, int K, rows U, class T>
  void mma_async(acc<M, N, U>& d, operand<T, M, K>& a, transposed_tile<shared_tile<T, N, K, major::k>> b, bool accumulate) {
    submit<M, N, K>(d, from(a), from(b), accumulate);
  }
  template <int kInFlight, class... X> void mma_wait(X&... ready) {
    while (int(batches_.size()) > kInFlight) {
      run_batch(batches_.front());
      batches_.pop_front();
    }
    run_early();
    (hand_back(ready), ...);
  }
  template <class T, int M, int K> operand<T, M, K> load_operand(shared_band<T, M, K> a) const {
    operand<T, M, K> o;
    for (int m = 0; m < M; ++m)
      for (int k = 0; k < K; ++k) o.d[m][k] = a.p[m * K + k];
    return o;
  }
  template <class T, int M, int N, major U, rows R> void put(shared_tile<T, M, N, U>& t, const acc<M, N, R>& a) {
    for (const batch& b : batches_)
      if (b.left == t.data || b.right == t.data) fail("put overwrites a tile that a batch still reads");
    t.open();
    for (int m = 0; m < M; ++m)
      for (int n = 0; n < N; ++n) t.data[m * N + n] = from_float<T>(a.d[m][n]);
    put_.push_back({t.data, t.kBytes});
  }

  template <class T, int kMap, int M, int N, rows R, class Staging> void store(const view<T, kMap>& v, coord c, const acc<M, N, R>& a, Staging&) const {
    store_direct(v, c, a);
  }
  template <class T, int kMap, int M, int N, rows R> void store_direct(const view<T, kMap>& v, coord c, const acc<M, N, R>& a) const {
    each_row(v, c, a, [](T* out, const float* x, int n) {
      for (int j = 0; j < n; ++j) out[j] = from_float<T>(x[j]);
    });
  }
  template <class T, int kMap, int M, int N, rows R, class F> void zip_view(acc<M, N, R>& a, const view<T, kMap>& v, coord c, F f) const {
    each_row(v, c, a, [&](const T* in, float* x, int n) {
      for (int j = 0; j < n; ++j) x[j] = f(x[j], to_float(in[j]));
    });
  }
  template <class T, int M> void store_column(const column_view<T>& v, coord c, const column<M>& x) const {
    T* p = v.p + c.batch * v.batch_stride + c.plane * v.plane_stride;
    for (int m = 0; m < M; ++m) {
      int row = c.row + index * M + m;
      if (row < v.rows) p[row] = from_float<T>(x.v[m]);
    }
  }

  template <int M, int N> column<M> row_max(const acc<M, N, rows::reduced>& a, const column<M>& least) const {
    column<M> c;
    for (int m = 0; m < M; ++m) {
      float x = least.v[m];
      for (int n = 0; n < N; ++n) x = ww::max(x, a.d[m][n]);
      c.v[m] = x;
    }
    return c;
  }
  template <int M> column<M> total(const partial<M>& s) const {
    column<M> c;
    for (int m = 0; m < M; ++m) c.v[m] = s.v[m];
    return c;
  }
  template <int M, int N, rows R> void scale_rows(acc<M, N, R>& a, const column<M>& c) const {
    map_rows(a, c, [](float x, float y) { return x * y; });
  }
  template <int M, int N, rows R, class F> void map_index(acc<M, N, R>& a, F f) const {
    for (int m = 0; m < M; ++m)
      for (int n = 0; n < N; ++n) a.d[m][n] = f(a.d[m][n], m, n);
  }
  void turn_take() {
    if (taken_) fail("turn_take twice without turn_pass");
    taken_ = true;
    ++takes_;
  }
  void turn_pass() {
    if (!taken_) fail("turn_pass without turn_take");
    taken_ = false;
  }
  typename Op::Scratch& scratch() { return scratch_; }

  // the end of a tile: everything asked for was used, everything taken was given back
  void finish() {
    if (!batches_.empty()) fail("a batch is still in flight at the end of the tile");
    if (taken_) fail("turn_take without turn_pass");
    finish_rings(std::make_index_sequence<Op::Rings::kCount>());
    if (item_ != items_) fail("items were left unread");
    for (const region& t : put_) close_memory(t.p, t.bytes);
    put_.clear();
  }

 private:
  struct batch {
    const void *acc, *operand, *left, *right;   // what it writes; registers and tiles it reads
    std::function<void()> run;                  // empty once it ran
  };
  template <class T> struct source { const T *p, *tile; const void* registers; int step; bool transposed; };
  template <class T, int M, int K> static source<T> from(const shared_band<T, M, K>& a) { return {a.p, a.tile, nullptr, K, false}; }
  template <class T, int K, int M> static source<T> from(const shared_band_cols<T, K, M>& a) { return {a.p, a.tile, nullptr, a.pitch, true}; }
  template <class T, int M, int K> static source<T> from(const operand<T, M, K>& a) { return {&a.d[0][0], nullptr, &a, K, false}; }
  template <class T, int R, int C, major U> static source<T> from(const shared_tile<T, R, C, U>& b) { return {b.data, b.data, nullptr, C, false}; }
  template <class T, int R, int C, major U>
  static source<T> from(const transposed_tile<shared_tile<T, R, C, U>>& b) { return {b.t.data, b.t.data, nullptr, C, true}; }

  template <int M, int N, int K, rows U, class T> void submit(acc<M, N, U>& d, source<T> a, source<T> b, bool accumulate) {
    constexpr size_t kRegisterBytes = operand<T, M, K>::kBytes;
    d.close();
    if (a.registers) close_memory(a.p, kRegisterBytes);
    batches_.push_back({&d, a.registers, a.tile, b.tile, [this, &d, a, b, accumulate] {
      d.open();
      if (a.registers) open_memory(a.p, kRegisterBytes);
      left_.resize(size_t(M) * K);
      right_.resize(size_t(K) * N);
      if (a.transposed) unpack_transposed<M, K>(left_.data(), a.p, a.step);
      else unpack<M, K>(left_.data(), a.p, a.step);
      if (b.transposed) unpack_transposed<K, N>(right_.data(), b.p, b.step);
      else unpack<K, N>(right_.data(), b.p, b.step);
      multiply_add<M, N, K>(d.d, left_.data(), right_.data(), accumulate);
      d.close();
      if (a.registers) close_memory(a.p, kRegisterBytes);
    }});
    run_early();
  }
  static void run_batch(batch& b) {
    if (!b.run) return;
    b.run();
    b.run = nullptr;
  }
  // batches finish in order; any number of them may be done before somebody waits
  void run_early() {
    for (batch& b : batches_) {
      if (b.run && !choose_.early()) return;
      run_batch(b);
    }
  }
  template <class X> void hand_back(X& x) {
    for (const batch& b : batches_) {
      if (b.acc == &x) fail("mma_wait names an accumulator that a batch still writes");
      if (b.operand == &x) fail("mma_wait names an operand that a batch still reads");
    }
    x.open();
  }

  // f(elements of the view, elements of the accumulator, n) for each row of the group's band that lies in the view
  template <class T, int kMap, int M, int N, rows R, class F> void each_row(const view<T, kMap>& v, coord c, const acc<M, N, R>& a, F f) const {
    each_row<M, N>(v, c, a.d, f);
  }
  template <class T, int kMap, int M, int N, rows R, class F> void each_row(const view<T, kMap>& v, coord c, acc<M, N, R>& a, F f) const {
    each_row<M, N>(v, c, a.d, f);
  }
  template <int M, int N, class T, int kMap, class D, class F> void each_row(const view<T, kMap>& v, coord c, D& d, F f) const {
    if (c.plane >= v.planes || c.batch >= v.batches) return;
    int n = v.cols - c.col;
    n = n < N ? n : N;
    for (int m = 0; m < M; ++m) {
      int row = c.row + index * M + m;
      if (row < v.rows && n > 0) f(v.at(c.batch, c.plane, row, c.col), d[m], n);
    }
  }

  template <int I> auto& ring_() { return std::get<I>(rings_.r); }
  template <class S> void run_copies(S& s) {
    for (auto& f : s.copies) f();
    s.copies.clear();
  }
  bool load_next() {
    if (item_ == items_) return false;
    stalled_ = false;
    fills_ = 0;
    Op::load(*this, p_, *t_, item_);
    if (fills_ != 1) fail("load must fill exactly one slot");
    if (stalled_) return false;
    ++item_;
    return true;
  }
  void load_early() {
    while (choose_.early() && load_next()) {}
  }
  template <size_t... I> void finish_rings(std::index_sequence<I...>) { (finish_ring(std::get<I>(rings_.r)), ...); }
  template <class R> void finish_ring(R& r) {
    if (r.taken != r.filled) fail("items were left unread");
    if (r.freed != r.taken) fail("a slot was not released");
    r.filled = r.taken = r.freed = 0;
  }

  const Params& p_;
  const Tile* t_ = nullptr;
  chooser choose_{};
  ring_states<typename Op::Rings> rings_;
  typename Op::Scratch scratch_;
  std::deque<batch> batches_;
  std::vector<region> put_;
  std::vector<std::function<void()>>* copies_ = nullptr;   // of the slot being filled
  std::vector<region>* regions_ = nullptr;
  std::vector<float> left_, right_;
  int item_ = 0, items_ = 0, fills_ = 0, takes_ = 0;
  bool stalled_ = false, taken_ = false;
};

template <class Op> void run_tiles(const typename Op::Params& p, int64_t first, int64_t last) {
  group<Op> g(p);
  for (int64_t i = first; i < last; ++i) {
    const auto t = Op::tile(p, int(i));
    int turns = 0;
    for (g.index = 0; g.index < Op::kGroups; ++g.index) {
      g.begin(int(i), t);
      Op::run(g, p, t);
      g.finish();
      if (g.index == 0) turns = g.turns();
      else if (g.turns() != turns) fail("groups take unequal numbers of turns");
    }
  }
}
}  // namespace host
}  // namespace ww

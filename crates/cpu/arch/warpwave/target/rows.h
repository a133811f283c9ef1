// Row ops on the host: the values of all threads of a row group lie in one array in the order of the row.
// A reduction adds in the order that warpwave/tile/rows.h fixes, for warps of kWarp lanes.
#pragma once
#include <warpwave/tile/rows.h>
namespace ww {
namespace host {
// Threads taken together where a loop runs over them; their runs are transposed so that it vectorises.
constexpr int lane_block(int threads) { return threads % 16 == 0 ? 16 : threads % 8 == 0 ? 8 : threads % 4 == 0 ? 4 : 1; }
}  // namespace host

template <RowShape S> struct alignas(64) row_values { real<S> v[S.tile()]; };   // (chunk, thread, element of a run)
template <RowShape S> struct alignas(64) row_lanes { real<S> v[S.threads]; };

template <RowShape S, class F> WW_FN void map(row_values<S>& v, F f) {
  for (int i = 0; i < S.tile(); ++i) v.v[i] = f(v.v[i]);
}
template <RowShape S, class F> WW_FN void zip(row_values<S>& v, const row_values<S>& w, F f) {
  for (int i = 0; i < S.tile(); ++i) v.v[i] = f(v.v[i], w.v[i]);
}
template <RowShape S, class F> WW_FN void map(row_values<S>& v, const row_lanes<S>& l, F f) {
  for (int c = 0; c < S.chunks; ++c)
    for (int t = 0; t < S.threads; ++t) {
      real<S>* x = v.v + (c * S.threads + t) * S.vec;
      for (int j = 0; j < S.vec; ++j) x[j] = f(x[j], l.v[t]);
    }
}
template <RowShape S, class F> WW_FN void map(row_lanes<S>& l, F f) {
  for (int t = 0; t < S.threads; ++t) l.v[t] = f(l.v[t]);
}
template <RowShape S, class F> WW_FN void zip(row_lanes<S>& l, const row_lanes<S>& k, F f) {
  for (int t = 0; t < S.threads; ++t) l.v[t] = f(l.v[t], k.v[t]);
}
namespace host {
// each(thread, element) over a thread's own elements in order, a block of threads side by side
template <RowShape S, class F> WW_FN void each_lane(const row_values<S>& v, F each) {
  constexpr int kBlock = lane_block(S.threads);
  for (int c = 0; c < S.chunks; ++c)
    for (int t = 0; t < S.threads; t += kBlock) {
      alignas(64) real<S> x[S.vec][kBlock];
      const real<S>* p = v.v + (c * S.threads + t) * S.vec;
      for (int b = 0; b < kBlock; ++b)
        for (int j = 0; j < S.vec; ++j) x[j][b] = p[b * S.vec + j];
      for (int j = 0; j < S.vec; ++j)
        for (int b = 0; b < kBlock; ++b) each(t + b, x[j][b]);
    }
}
}  // namespace host
template <RowShape S, class F> WW_FN void fold(row_lanes<S>& l, const row_values<S>& v, F f) {
  host::each_lane(v, [&](int t, real<S> x) { l.v[t] = f(l.v[t], x); });
}
template <RowShape S, class F> WW_FN void fold(row_lanes<S>& l, const row_values<S>& v, const row_lanes<S>& k, F f) {
  host::each_lane(v, [&](int t, real<S> x) { l.v[t] = f(l.v[t], x, k.v[t]); });
}

template <RowShape S, int kWarp> struct row_group {
  static_assert(kWarp == 32 || kWarp == 64);
  static_assert(S.threads % kWarp == 0 || kWarp % S.threads == 0, "whole warps, or an even share of one");
  static constexpr int kLanes = S.threads < kWarp ? S.threads : kWarp;
  using values = row_values<S>;
  static constexpr int kRun = S.vec;   // elements of a run
  using lane_values = row_lanes<S>;

  static constexpr int64_t rank() { return 0; }
  static constexpr int64_t span() { return 1; }
  using R = real<S>;
  lane_values lanes(R x) const {
    lane_values l;
    for (R& y : l.v) y = x;
    return l;
  }
  template <class T> row_tiling tiling(const ww::span<T>& s) const {
    int lead = s.stride == 1 ? int(reinterpret_cast<uintptr_t>(s.p) % 16 / sizeof(T)) : 0;
    return {s.n, lead, S.tile()};
  }
  template <class T> values load(const row_tiling& t, int64_t i, const ww::span<T>& s, R other) const {
    values v;
    const inside in(t.first(i), s.n);
    for (int j = 0; j < in.begin; ++j) v.v[j] = other;
    if (in.whole() && s.stride == 1) {
      const T* p = s.p + in.first;
      for (int j = 0; j < S.tile(); ++j) v.v[j] = to_real<R>(p[j]);   // a constant count: no loop for what vectors leave over
    } else if (s.stride == 1) {
      const T* p = in.begin < in.end ? s.p + (in.first + in.begin) : s.p;
      for (int j = 0, n = in.end - in.begin; j < n; ++j) v.v[in.begin + j] = to_real<R>(p[j]);
    } else {
      for (int j = in.begin; j < in.end; ++j) v.v[j] = to_real<R>(s.p[(in.first + j) * s.stride]);
    }
    for (int j = in.end; j < S.tile(); ++j) v.v[j] = other;
    return v;
  }
  template <class T> void store(const row_tiling& t, int64_t i, const ww::span<T>& s, const values& v) const {
    const inside in(t.first(i), s.n);
    if (in.whole() && s.stride == 1) {
      T* p = s.p + in.first;
      for (int j = 0; j < S.tile(); ++j) p[j] = from_real<T>(v.v[j]);
    } else if (s.stride == 1) {
      T* p = in.begin < in.end ? s.p + (in.first + in.begin) : s.p;
      for (int j = 0, n = in.end - in.begin; j < n; ++j) p[j] = from_real<T>(v.v[in.begin + j]);
    } else {
      for (int j = in.begin; j < in.end; ++j) s.p[(in.first + j) * s.stride] = from_real<T>(v.v[j]);
    }
  }
  template <class T> values load(const row_tiling& t, int64_t i, const ww::dense_span<T>& s, R other) const {
    return load(t, i, ww::span<T>{s.p, s.n, 1}, other);
  }
  template <class T> void store(const row_tiling& t, int64_t i, const ww::dense_span<T>& s, const values& v) const {
    store(t, i, ww::span<T>{s.p, s.n, 1}, v);
  }
  template <class F> void runs(const row_tiling& t, int64_t i, values& v, F f) const {
    for (int j = 0; j < S.tile(); j += S.vec) f(v.v + j, t.first(i) + j);
  }
  template <class F> void runs(const row_tiling& t, int64_t i, values& v, values& w, F f) const {
    for (int j = 0; j < S.tile(); j += S.vec) f(v.v + j, w.v + j, t.first(i) + j);
  }
  template <class T> void put(T* p, R x) const { *p = from_real<T>(x); }
  R max(const lane_values& l) const { return reduce(l, [](R a, R b) { return ww::max(a, b); }); }
  R sum(const lane_values& l) const { return reduce(l, [](R a, R b) { return a + b; }); }
  R max(const values& v) const {
    lane_values l = lanes(-INFINITY);
    fold(l, v, [](R a, R b) { return ww::max(a, b); });
    return max(l);
  }
  R sum(const values& v) const {
    lane_values l = lanes(-0.f);   // adds nothing, not even a sign
    fold(l, v, [](R a, R b) { return a + b; });
    return sum(l);
  }

 private:
  // Elements [begin, end) of a tile lie in the span; the tile's own first one may lie before it.
  struct inside {
    int64_t first;
    int begin, end;
    inside(int64_t at, int64_t n) : first(at) {
      int64_t lo = at < 0 ? -at : 0, hi = n - at;
      begin = lo < S.tile() ? int(lo) : S.tile();
      end = hi < begin ? begin : hi < S.tile() ? int(hi) : S.tile();
    }
    bool whole() const { return begin == 0 && end == S.tile(); }
  };
  // Lane 0's view of the butterfly; the operations commute, so every lane holds the same bits.
  template <class F> static R reduce(const lane_values& l, F f) {
    R all = 0;
    for (int w = 0; w < S.threads; w += kLanes) {
      R x[kLanes];
      for (int t = 0; t < kLanes; ++t) x[t] = l.v[w + t];
      for (int step = kLanes / 2; step > 0; step /= 2)
        for (int t = 0; t < step; ++t) x[t] = f(x[t], x[t + step]);
      all = w == 0 ? x[0] : f(all, x[0]);
    }
    return all;
  }
};

namespace host {
template <class Op, int kWarp> void run_rows(const typename Op::Params& p, int64_t first, int64_t last) {
  row_group<Op::kShape, kWarp> g;
  for (int64_t i = first; i < last; ++i) Op::run(g, p, i);
}
}  // namespace host
}  // namespace ww

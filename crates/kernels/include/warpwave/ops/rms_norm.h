// out = x / sqrt(mean(x^2) + eps) * (w + shift) along rows; with a residual, x + residual takes the place of x and is written, too.
// Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
#pragma once
#include <warpwave/tile/norm.h>
namespace ww {
struct RmsNormConfig {
  dtype type;
  int threads, groups = 1, chunks, vec;
  bool hold;   // the row (or each program's share of it) fits one tile and stays in registers; otherwise it is read again
  bool span;   // several programs may share a row
  bool add;    // x + residual
};
template <RmsNormConfig C> struct RmsNorm {
  static constexpr RowShape kShape{.threads = C.threads, .groups = C.groups, .chunks = C.chunks, .vec = C.vec, .wide = C.type == dtype::f64};
  static constexpr int kThreadsPerUnit = C.hold ? 1024 : 256;   // enough rows under way to fill the memory bus; a row that is read again needs more registers
  static constexpr bool kSpans = C.span;
  using T = elem<C.type>;
  using R = real<kShape>;
  struct Params {
    rows_view<const T> x, residual, w;
    rows_view<T> out, residual_out;
    row_space space;
    int64_t programs;      // rows
    double eps, inverse;   // 1 / width
    float shift;
    int w_kind;            // 0: no weight, 1: of type T, 2: float32
  };
  // A tile of x, or of the float32 sum that takes its place
  template <class G> WW_FN static auto take(G& g, const Params& p, const row_tiling& t, int64_t i, int64_t r) {
    auto x = g.raw(t, i, row_of(p.x, p.space, r), 0);
    if constexpr (C.add) {
      auto y = g.raw(t, i, row_of(p.residual, p.space, r), 0);
      auto v = g.unpack(x);
      zip(v, g.unpack(y), [](R a, R b) { return a + b; });
      return v;
    } else {
      return x;
    }
  }
  template <class G, class V> WW_FN static auto values(G& g, const V& v) {
    if constexpr (C.add) return v;
    else return g.unpack(v);
  }
  template <class G, class V> WW_FN static void finish(G& g, const Params& p, const row_tiling& t, int64_t i, int64_t r, V& v, R first, R second) {
    map(v, [&](R x) { return x * first * second; });
    R shift = p.shift;
    if (p.w_kind) zip_mixed(g, t, i, v, p.w, p.space, r, p.w_kind == 2, [&](R x, R w) { return x * (w + shift); });
    g.store(t, i, row_of(p.out, p.space, r), v);
  }
  template <class G> WW_FN static void run(G& g, const Params& p, int64_t r) {
    auto t = g.tiling(row_of(p.x, p.space, r));
    const R eps = p.eps, inverse = p.inverse, eps_n = p.eps * p.space.n;
    auto l = g.lanes(0);
    if constexpr (C.hold) {
      auto x = take(g, p, t, g.rank(), r);
      auto v = values(g, x);
      fold(l, v, [](R s, R a) { return s + a * a; });
      R squares = g.sum(l), s = 1;
      if constexpr (C.add) g.store(t, g.rank(), row_of(p.residual_out, p.space, r), v);
      if (!squares_hold(squares, eps_n)) {
        v = values(g, x);
        auto m = g.lanes(0);
        fold(m, v, [](R a, R b) { return ww::max(a, ww::abs(b)); });
        s = near_one(g.max(m));
        l = g.lanes(0);
        fold(l, v, [&](R sum, R a) { return sum + a * s * (a * s); });
        squares = g.sum(l);
      }
      v = values(g, x);
      finish(g, p, t, g.rank(), r, v, s, inverse_root(squares, inverse, eps, s));
    } else {
      for (int64_t i = 0; i < t.count(); ++i) {
        auto v = values(g, take(g, p, t, i, r));
        fold(l, v, [](R s, R a) { return s + a * a; });
      }
      R squares = g.sum(l), s = 1;
      if (!squares_hold(squares, eps_n)) {
        auto m = g.lanes(0);
        for (int64_t i = 0; i < t.count(); ++i) {
          auto v = values(g, take(g, p, t, i, r));
          fold(m, v, [](R a, R b) { return ww::max(a, ww::abs(b)); });
        }
        s = near_one(g.max(m));
        l = g.lanes(0);
        for (int64_t i = 0; i < t.count(); ++i) {
          auto v = values(g, take(g, p, t, i, r));
          fold(l, v, [&](R sum, R a) { return sum + a * s * (a * s); });
        }
        squares = g.sum(l);
      }
      R root = inverse_root(squares, inverse, eps, s);
      for (int64_t i = 0; i < t.count(); ++i) {
        auto v = values(g, take(g, p, t, i, r));
        if constexpr (C.add) g.store(t, i, row_of(p.residual_out, p.space, r), v);
        finish(g, p, t, i, r, v, s, root);
      }
    }
  }
};
}  // namespace ww

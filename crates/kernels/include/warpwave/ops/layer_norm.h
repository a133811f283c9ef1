// out = (x - mean) / sqrt(var + eps) * gamma + beta along rows; the variance from centred values, never from a difference of sums.
// Ba, Kiros and Hinton, "Layer Normalization", 2016.
#pragma once
#include <warpwave/tile/norm.h>
namespace ww {
struct LayerNormConfig {
  dtype type;
  int threads, groups = 1, chunks, vec;
  bool hold;   // the row (or each program's share of it) fits one tile and stays in registers; otherwise it is read again
  bool span;   // several programs may share a row
};
template <LayerNormConfig C> struct LayerNorm {
  static constexpr RowShape kShape{.threads = C.threads, .groups = C.groups, .chunks = C.chunks, .vec = C.vec, .wide = C.type == dtype::f64};
  static constexpr int kThreadsPerUnit = C.hold ? 1024 : 256;   // enough rows under way to fill the memory bus; a row that is read again needs more registers
  static constexpr bool kSpans = C.span;
  using T = elem<C.type>;
  using R = real<kShape>;
  struct Params {
    rows_view<const T> x, gamma, beta;
    rows_view<T> out;
    row_space space;
    int64_t programs;      // rows
    double eps, inverse;   // 1 / width
    int gamma_kind, beta_kind;   // 0: none, 1: of type T, 2: float32
  };
  template <class G, class V> WW_FN static void finish(G& g, const Params& p, const row_tiling& t, int64_t i, int64_t r, V& v, R root) {
    map(v, [&](R x) { return x * root; });
    if (p.gamma_kind) zip_mixed(g, t, i, v, p.gamma, p.space, r, p.gamma_kind == 2, [](R x, R y) { return x * y; });
    if (p.beta_kind) zip_mixed(g, t, i, v, p.beta, p.space, r, p.beta_kind == 2, [](R x, R y) { return x + y; });
    g.store(t, i, row_of(p.out, p.space, r), v);
  }
  template <class V> WW_FN static void scale(V& v, R s) {
    map(v, [&](R x) { return x * s; });
  }
  template <class G> WW_FN static void run(G& g, const Params& p, int64_t r) {
    auto x = row_of(p.x, p.space, r);
    auto t = g.tiling(x);
    const R eps = p.eps, inverse = p.inverse, n = R(p.space.n);
    auto l = g.lanes(0);
    R s = 1;
    if constexpr (C.hold) {
      auto v = g.load(t, g.rank(), x, 0);
      R sum = g.sum(v);
      if (!(ww::abs(sum) < R(1e30f))) {   // a larger mean, taken from the largest value, would overflow
        auto m = g.lanes(0);
        fold(m, v, [](R a, R b) { return ww::max(a, ww::abs(b)); });
        s = near_one(g.max(m));
        scale(v, s);
        sum = g.sum(v);
      }
      R mean = ww::product(sum, inverse);
      map(v, [&](R a) { return a - mean; });
      clear_outside(g, t, g.rank(), v);
      // what rounding left in the mean: beside a large mean it would show in every value (256, ..., 256, -1)
      R rest = g.sum(v) * inverse;
      map(v, [&](R a) { return a - rest; });
      clear_outside(g, t, g.rank(), v);
      fold(l, v, [](R a, R b) { return a + b * b; });
      R squares = g.sum(l);
      if (!squares_hold(squares, eps * s * s * n)) {
        auto m = g.lanes(0);
        fold(m, v, [](R a, R b) { return ww::max(a, ww::abs(b)); });
        R more = near_one(g.max(m));
        scale(v, more);
        s *= more;
        l = g.lanes(0);
        fold(l, v, [](R a, R b) { return a + b * b; });
        squares = g.sum(l);
      }
      finish(g, p, t, g.rank(), r, v, inverse_root(squares, inverse, eps, s));
    } else {
      R mean = 0, rest = 0, squares = 0;
      auto centred = [&](int64_t i) {
        auto v = g.load(t, i, x, 0);
        map(v, [&](R a) { return (a * s - mean) - rest; });
        clear_outside(g, t, i, v);
        return v;
      };
      auto total = [&](auto f) {
        l = g.lanes(0);
        for (int64_t i = 0; i < t.count(); ++i) fold(l, centred(i), f);
      };
      for (int attempt = 0; attempt < 2; ++attempt) {
        mean = rest = 0;
        total([](R a, R b) { return a + b; });
        mean = ww::product(g.sum(l), inverse);
        total([](R a, R b) { return a + b; });
        rest = g.sum(l) * inverse;
        total([](R a, R b) { return a + b * b; });
        squares = g.sum(l);
        if (attempt || (ww::abs(mean) < R(1e30f) && squares_hold(squares, eps * n))) break;
        // Neighbours of a float differ by 2^-24 of it or more: a row that is scaled as a whole has squares that hold
        mean = rest = 0;
        total([](R a, R b) { return ww::max(a, ww::abs(b)); });
        s = near_one(g.max(l));
      }
      R root = inverse_root(squares, inverse, eps, s);
      for (int64_t i = 0; i < t.count(); ++i) {
        auto v = centred(i);
        finish(g, p, t, i, r, v, root);
      }
    }
  }
};
}  // namespace ww

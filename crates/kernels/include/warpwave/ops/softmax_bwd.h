// Gradient of softmax along a row from its output y: dx = y * (dy - sum(y * dy)); of log_softmax: dx = dy - exp(y) * sum(dy).
#pragma once
#include <warpwave/tile/rows.h>
namespace ww {
struct SoftmaxBwdConfig {
  dtype type;
  int threads, groups = 1, chunks, vec;
  bool hold;   // the row (or each program's share of it) fits one tile: y and dy stay in registers; otherwise they are read twice
};
template <SoftmaxBwdConfig C> struct SoftmaxBwd {
  static constexpr RowShape kShape{.threads = C.threads, .groups = C.groups, .chunks = C.chunks, .vec = C.vec, .wide = C.type == dtype::f64};
  static constexpr bool kSpans = true;
  using T = elem<C.type>;
  using R = real<kShape>;
  struct Params {
    rows_view<const T> y, dy;
    rows_view<T> dx;
    row_space space;
    int64_t programs;   // rows
    int log;            // 1: of log_softmax
    int reserved;
  };
  static constexpr R kLog2e = R(1.4426950408889634074);

  template <bool kLog, class V> WW_FN static void gradient(V& y, const V& dy, R c) {
    if constexpr (kLog) zip(y, dy, [&](R a, R d) { return d - ww::exp2(a * kLog2e) * c; });
    else zip(y, dy, [&](R a, R d) { return a * (d - c); });
  }
  template <bool kLog, class G> WW_FN static void online(G& g, const row_tiling& t, const span<const T>& y, const span<const T>& dy, const span<T>& dx) {
    auto l = g.lanes(0);
    for (int64_t i = g.rank(); i < t.count(); i += g.span()) {
      auto d = g.load(t, i, dy, 0);
      if constexpr (!kLog) zip(d, g.load(t, i, y, 0), [](R a, R b) { return a * b; });
      fold(l, d, [](R s, R a) { return s + a; });
    }
    const R c = g.sum(l);
    for (int64_t i = g.rank(); i < t.count(); i += g.span()) {
      auto v = g.load(t, i, y, 0);
      auto d = g.load(t, i, dy, 0);
      gradient<kLog>(v, d, c);
      g.store(t, i, dx, v);
    }
  }
  template <class G> WW_FN static void run(G& g, const Params& p, int64_t r) {
    auto y = row_of(p.y, p.space, r), dy = row_of(p.dy, p.space, r);
    auto dx = row_of(p.dx, p.space, r);
    auto t = g.tiling(dx);
    if constexpr (C.hold) {
      auto l = g.lanes(0);
      auto v = g.load(t, g.rank(), y, 0);
      auto d = g.load(t, g.rank(), dy, 0);
      if (p.log) {
        fold(l, d, [](R s, R a) { return s + a; });
      } else {
        auto product = v;
        zip(product, d, [](R a, R b) { return a * b; });
        fold(l, product, [](R s, R a) { return s + a; });
      }
      const R c = g.sum(l);
      if (p.log) gradient<true>(v, d, c);
      else gradient<false>(v, d, c);
      g.store(t, g.rank(), dx, v);
    } else if (p.log) {
      online<true>(g, t, y, dy, dx);
    } else {
      online<false>(g, t, y, dy, dx);
    }
  }
};
}  // namespace ww

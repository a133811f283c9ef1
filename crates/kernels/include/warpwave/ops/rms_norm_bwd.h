// Gradients of out = x / sqrt(mean(x^2) + eps) * (w + shift).  With h = x * root, g = dy * (w + shift), c = mean(g * h):
// dx = root * (g - h * c), dw = sum over rows of dy * h.  A program takes `per` rows in order and writes their part of dw to a row of its own;
// ops/column_sum.h adds those.
#pragma once
#include <warpwave/tile/norm.h>
namespace ww {
struct RmsNormBwdConfig {
  dtype type;
  int threads, groups = 1, chunks, vec;
  bool hold;   // the row fits one tile: x, dy, w and the part of dw stay in registers
};
template <RmsNormBwdConfig C> struct RmsNormBwd {
  static constexpr RowShape kShape{.threads = C.threads, .groups = C.groups, .chunks = C.chunks, .vec = C.vec, .wide = C.type == dtype::f64};
  static constexpr int kThreadsPerUnit = C.hold ? 512 : 256;
  using T = elem<C.type>;
  using R = real<kShape>;
  struct Params {
    rows_view<const T> x, dy, w;
    rows_view<T> dx;
    rows_view<R> part;      // row i: what program i's rows give to dw
    row_space space;
    int64_t rows, per, programs;
    double eps, inverse;    // 1 / width
    float shift;
    int w_kind;             // 1: of type T, 2: float32
  };
  template <class G> WW_FN static auto load(G& g, const row_tiling& t, int64_t i, const Params& p, const rows_view<const T>& v, const row_walk& r) {
    return g.load(t, i, r.of(v, p.space), 0);
  }
  template <class G> WW_FN static auto weight(G& g, const row_tiling& t, int64_t i, const Params& p) {
    auto w = load_mixed(g, t, i, p.w, p.space, 0, p.w_kind == 2, 0);
    R shift = p.shift;
    map(w, [&](R a) { return a + shift; });
    return w;
  }
  // The same tiling, in terms of the row where masks of lanes are scalars: those of its edges, kept over all rows, spilled on gfx90a (clang 19).
  template <class G> WW_FN static row_tiling fresh(const row_tiling& t, int64_t r) {
    if constexpr (requires { G::kScalarMasks; }) return {t.n, t.lead + (r < 0 ? 1 : 0), t.size};
    else return t;
  }
  template <class G> WW_FN static void run(G& g, const Params& p, int64_t program) {
    // Tiles lie as those of the program's own row do, whatever the rows of x: a thread meets the same columns in every row.
    const span<R> part{p.part.p + program * p.part.outer[2], p.space.n, 1};
    const row_tiling all = g.tiling(part);
    const R eps = p.eps, inverse = p.inverse, eps_n = p.eps * p.space.n;
    const int64_t first = program * p.per, end = first + p.per < p.rows ? first + p.per : p.rows;
    row_walk at(p.space, first);
    if constexpr (C.hold) {
      auto w = weight(g, all, 0, p);
      auto dw = w;
      map(dw, [](R) { return R(0); });
      for (int64_t r = first; r < end; ++r, at.next(p.space)) {
        const row_tiling t = fresh<G>(all, r);
        auto x = load(g, t, 0, p, p.x, at);
        auto dy = load(g, t, 0, p, p.dy, at);
        auto l = g.lanes(0);
        fold(l, x, [](R s, R a) { return s + a * a; });
        R squares = g.sum(l), s = 1;
        if (!squares_hold(squares, eps_n)) {
          auto m = g.lanes(0);
          fold(m, x, [](R a, R b) { return ww::max(a, ww::abs(b)); });
          s = near_one(g.max(m));
          l = g.lanes(0);
          fold(l, x, [&](R sum, R a) { return sum + a * s * (a * s); });
          squares = g.sum(l);
        }
        const R root = inverse_root(squares, inverse, eps, s);
        map(x, [&](R a) { return a * s * root; });
        auto product = dy;
        zip(product, x, [](R a, R b) { return a * b; });
        zip(dw, product, [](R a, R b) { return a + b; });
        zip(product, w, [](R a, R b) { return a * b; });
        l = g.lanes(0);
        fold(l, product, [](R sum, R a) { return sum + a; });
        const R c = g.sum(l) * inverse;
        zip(dy, w, [](R a, R b) { return a * b; });
        zip(dy, x, [&](R a, R b) { return (a - b * c) * root * s; });
        g.store(t, 0, at.of(p.dx, p.space), dy);
      }
      g.store(all, 0, part, dw);
    } else {
      for (int64_t r = first; r < end; ++r, at.next(p.space)) {
        const row_tiling t = fresh<G>(all, r);
        auto l = g.lanes(0), m = g.lanes(0);
        for (int64_t i = 0; i < t.count(); ++i) {
          auto x = load(g, t, i, p, p.x, at);
          fold(l, x, [](R s, R a) { return s + a * a; });
          fold(m, x, [](R a, R b) { return ww::max(a, ww::abs(b)); });
        }
        R squares = g.sum(l), s = 1;
        if (!squares_hold(squares, eps_n)) {
          s = near_one(g.max(m));
          l = g.lanes(0);
          for (int64_t i = 0; i < t.count(); ++i) {
            auto x = load(g, t, i, p, p.x, at);
            fold(l, x, [&](R sum, R a) { return sum + a * s * (a * s); });
          }
          squares = g.sum(l);
        }
        const R root = inverse_root(squares, inverse, eps, s);
        l = g.lanes(0);
        for (int64_t i = 0; i < t.count(); ++i) {
          auto x = load(g, t, i, p, p.x, at);
          auto dy = load(g, t, i, p, p.dy, at);
          map(x, [&](R a) { return a * s * root; });
          zip(dy, x, [](R a, R b) { return a * b; });
          // a thread's own earlier sums: no other thread touches them
          auto dw = g.load(t, i, span<const R>{part.p, r > first ? part.n : 0, 1}, 0);
          zip(dw, dy, [](R a, R b) { return a + b; });
          g.store(t, i, part, dw);
          zip(dy, weight(g, t, i, p), [](R a, R b) { return a * b; });
          fold(l, dy, [](R sum, R a) { return sum + a; });
        }
        const R c = g.sum(l) * inverse;
        for (int64_t i = 0; i < t.count(); ++i) {
          auto x = load(g, t, i, p, p.x, at);
          auto dy = load(g, t, i, p, p.dy, at);
          zip(dy, weight(g, t, i, p), [](R a, R b) { return a * b; });
          zip(dy, x, [&](R a, R b) { return (a - b * s * root * c) * root * s; });
          g.store(t, i, at.of(p.dx, p.space), dy);
        }
      }
    }
  }
};
}  // namespace ww

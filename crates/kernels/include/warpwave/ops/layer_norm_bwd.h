// Gradients of out = (x - mean) / sqrt(var + eps) * gamma + beta.  With h = (x - mean) * root, g = dy * gamma:
// dx = root * (g - mean(g) - h * mean(g * h)), dgamma = sum over rows of dy * h, dbeta = sum over rows of dy.
// A program takes `per` rows in order and writes their parts of dgamma and dbeta to rows of its own; ops/column_sum.h adds those.
#pragma once
#include <warpwave/tile/norm.h>
namespace ww {
struct LayerNormBwdConfig {
  dtype type;
  int threads, groups = 1, chunks, vec;
  bool hold;   // the row (or each program's share of it) fits one tile: the parts of dgamma and dbeta stay in registers
  bool span;   // several programs may share a row
  rows_lie lie;
};
template <LayerNormBwdConfig C> struct LayerNormBwd {
  static constexpr RowShape kShape{.threads = C.threads, .groups = C.groups, .chunks = C.chunks, .vec = C.vec, .wide = C.type == dtype::f64};
  static constexpr int kThreadsPerUnit = C.hold ? 512 : 256;   // fewer registers than that leaves spill
  static constexpr bool kSpans = C.span;
  static constexpr rows_lie kLie = C.lie;
  static constexpr bool kAhead = C.hold && C.lie == rows_lie::whole;   // the next row is under way while one is worked on; elsewhere that spills
  using T = elem<C.type>;
  using R = real<kShape>;
  struct Params {
    rows_view<const T> x, dy, gamma;
    rows_view<T> dx;
    rows_view<R> dgamma, dbeta;   // row i: what program i's rows give
    row_space space;
    int64_t rows, per, programs;
    double eps, inverse;    // 1 / width
    int gamma_kind;         // 1: of type T, 2: float32
    int reserved;
  };
  template <class V> WW_FN static auto row(const V& v, const Params& p, const row_walk& at, bool in) {
    auto s = at.of(v, p.space);
    if (!in) s.n = 0;
    return s;
  }
  // The same tiling, in terms of the row where masks of lanes are scalars: those of its edges, kept over all rows, spilled on gfx90a (clang 19).
  template <class G> WW_FN static row_tiling fresh(const row_tiling& t, int64_t r) {
    if constexpr (requires { G::kScalarMasks; }) return {t.n, t.lead + (r < 0 ? 1 : 0), t.size};
    else return t;
  }
  // A row's mean (and what rounding left in it), 1 / deviation, means of g and of g * h; of x * s
  struct measures { R s, mean, rest, root, g, gh; };
  // From sums of d, d^2, g, g * d, where d = x * s - mean
  WW_FN static void finish(measures& m, const row_sums<R, 4>& a, const Params& p) {
    const R inverse = p.inverse;
    m.rest = a.x[0] * inverse;
    m.root = inverse_root(a.x[1] - m.rest * a.x[0], inverse, R(p.eps), m.s);
    m.g = a.x[2] * inverse;
    m.gh = (a.x[3] - m.rest * a.x[2]) * inverse * m.root;
  }
  WW_FN static bool hold(const measures& m, const row_sums<R, 4>& a, const Params& p) {
    return ww::abs(m.mean) < R(1e30f) && squares_hold(a.x[1], R(p.eps * p.space.n)) && ww::abs(a.x[3]) < R(1e37f);
  }
  template <class G, class V> WW_FN static void times_gamma(G& g, const row_tiling& t, int64_t i, const Params& p, V& v) {
    zip_mixed(g, t, i, v, p.gamma, p.space, 0, p.gamma_kind == 2, [](R a, R b) { return a * b; });
  }
  template <class G> WW_FN static void run(G& g, const Params& p, int64_t program) {
    // Tiles lie as those of the program's own rows do, whatever the rows of x: a thread meets the same columns in every row.
    const span<R> dgamma{p.dgamma.p + program * p.dgamma.outer[2], p.space.n, 1}, dbeta{p.dbeta.p + program * p.dbeta.outer[2], p.space.n, 1};
    const row_tiling all = g.tiling(dgamma);
    const int64_t first = program * p.per, end = first + p.per < p.rows ? first + p.per : p.rows;
    row_walk at(p.space, first);
    auto larger = [](R a, R b) { return ww::max(a, ww::abs(b)); };
    auto square = [](R s, R a) { return s + a * a; };
    auto add = [](R s, R a) { return s + a; };
    auto times = [](R a, R b) { return a * b; };
    measures m;
    if constexpr (C.hold) {
      const int64_t i = g.rank();
      auto next_x = g.raw(all, i, row(p.x, p, at, kAhead), 0);
      auto next_dy = g.raw(all, i, row(p.dy, p, at, kAhead), 0);
      auto sum_dy = g.unpack(next_dy);
      map(sum_dy, [](R) { return R(0); });
      auto sum_dyh = sum_dy;
      for (int64_t r = first; r < end; ++r) {
        const row_tiling t = fresh<G>(all, r);
        if constexpr (!kAhead) {
          next_x = g.raw(t, i, row(p.x, p, at, true), 0);
          next_dy = g.raw(t, i, row(p.dy, p, at, true), 0);
        }
        const span<T> out = at.of(p.dx, p.space);
        at.next(p.space);
        auto x = next_x;
        auto dy = next_dy;
        if constexpr (kAhead) {
          next_x = g.raw(t, i, row(p.x, p, at, r + 1 < end), 0);
          next_dy = g.raw(t, i, row(p.dy, p, at, r + 1 < end), 0);
        }
        m.s = 1;
        row_sums<R, 4> sums;
        for (int attempt = 0; attempt < 2; ++attempt) {
          auto v = g.unpack(x);
          map(v, [&](R a) { return a * m.s; });
          m.mean = g.sum(v) * R(p.inverse);
          map(v, [&](R a) { return a - m.mean; });
          clear_outside(g, t, i, v);
          auto l = g.lanes(0), k = g.lanes(0), q = g.lanes(0), o = g.lanes(0);
          fold(l, v, add);
          fold(k, v, square);
          auto d = g.unpack(dy);
          times_gamma(g, t, i, p, d);
          fold(q, d, add);
          zip(d, v, times);
          fold(o, d, add);
          sums = g.sums(l, k, q, o);
          if (attempt || hold(m, sums, p)) break;
          l = g.lanes(0);
          fold(l, g.unpack(x), larger);
          m.s = near_one(g.max(l));
        }
        finish(m, sums, p);
        auto v = g.unpack(x);
        map(v, [&](R a) { return ((a * m.s - m.mean) - m.rest) * m.root; });
        auto d = g.unpack(dy);
        zip(sum_dy, d, add);
        auto product = d;
        zip(product, v, times);
        zip(sum_dyh, product, add);
        times_gamma(g, t, i, p, d);
        zip(d, v, [&](R a, R h) { return ((a - m.g) - h * m.gh) * m.root * m.s; });
        g.store(t, i, out, d);
      }
      g.store(all, i, dgamma, sum_dyh);
      g.store(all, i, dbeta, sum_dy);
    } else {
      for (int64_t r = first; r < end; ++r, at.next(p.space)) {
        const row_tiling t = fresh<G>(all, r);
        auto load = [&](int64_t i, const rows_view<const T>& v) { return g.load(t, i, at.of(v, p.space), 0); };
        m.s = 1;
        row_sums<R, 4> sums;
        for (int attempt = 0; attempt < 2; ++attempt) {
          auto l = g.lanes(0), k = l, q = l, o = l;
          for (int64_t i = 0; i < t.count(); ++i) {
            auto v = load(i, p.x);
            map(v, [&](R a) { return a * m.s; });
            fold(l, v, add);
          }
          m.mean = g.sum(l) * R(p.inverse);
          l = g.lanes(0);
          for (int64_t i = 0; i < t.count(); ++i) {
            auto v = load(i, p.x);
            map(v, [&](R a) { return a * m.s - m.mean; });
            clear_outside(g, t, i, v);
            fold(l, v, add);
            fold(k, v, square);
            auto d = load(i, p.dy);
            times_gamma(g, t, i, p, d);
            fold(q, d, add);
            zip(d, v, times);
            fold(o, d, add);
          }
          sums = g.sums(l, k, q, o);
          if (attempt || hold(m, sums, p)) break;
          l = g.lanes(0);
          for (int64_t i = 0; i < t.count(); ++i) fold(l, load(i, p.x), larger);
          m.s = near_one(g.max(l));
        }
        finish(m, sums, p);
        for (int64_t i = 0; i < t.count(); ++i) {
          auto v = load(i, p.x);
          map(v, [&](R a) { return ((a * m.s - m.mean) - m.rest) * m.root; });
          auto d = load(i, p.dy);
          // a thread's own earlier sums: no other thread touches them
          auto sum = g.load(t, i, span<const R>{dbeta.p, r > first ? dbeta.n : 0, 1}, 0);
          zip(sum, d, add);
          g.store(t, i, dbeta, sum);
          auto product = d;
          zip(product, v, times);
          sum = g.load(t, i, span<const R>{dgamma.p, r > first ? dgamma.n : 0, 1}, 0);
          zip(sum, product, add);
          g.store(t, i, dgamma, sum);
          times_gamma(g, t, i, p, d);
          zip(d, v, [&](R a, R h) { return ((a - m.g) - h * m.gh) * m.root * m.s; });
          g.store(t, i, at.of(p.dx, p.space), d);
        }
      }
    }
  }
};
}  // namespace ww

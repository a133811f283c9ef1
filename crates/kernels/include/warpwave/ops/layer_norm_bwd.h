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
  // Row r of a view, of no elements from row `end` on
  template <class V> WW_FN static auto row(const V& v, const Params& p, int64_t r, int64_t end) {
    auto s = row_of(v, p.space, r < end ? r : 0);
    if (r >= end) s.n = 0;
    return s;
  }
  WW_FN static span<R> part_of(const rows_view<R>& v, const Params& p, int64_t program) { return {v.p + program * v.outer[2], p.space.n, 1}; }
  // A row's mean (and what rounding left in it), 1 / deviation, means of g and of g * h; of x * s
  // The mean is used in two places: rounded once, or what one place subtracts is not what the other does
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
  template <class G> WW_FN static void run(G& g, const Params& given, int64_t program) {
    // Tiles lie as those of the program's own rows do, whatever the rows of x: a thread meets the same columns in every row.
    const row_tiling all = g.tiling(part_of(given.dgamma, given, program));
    const int64_t first = program * given.per, end = first + given.per < given.rows ? first + given.per : given.rows;
    auto larger = [](R a, R b) { return ww::max(a, ww::abs(b)); };
    auto square = [](R s, R a) { return s + a * a; };
    auto add = [](R s, R a) { return s + a; };
    auto times = [](R a, R b) { return a * b; };
    measures m;
    if constexpr (C.hold) {
      const int64_t i = g.rank();
      auto next_x = g.raw(all, i, row(given.x, given, first, kAhead ? end : first), 0);
      auto next_dy = g.raw(all, i, row(given.dy, given, first, kAhead ? end : first), 0);
      auto sum_dy = g.unpack(next_dy);
      map(sum_dy, [](R) { return R(0); });
      auto sum_dyh = sum_dy;
      for (int64_t r = first; r < end; ++r) {
        const row_tiling t = g.afresh(all);
        const Params& p = g.afresh(given);
        if constexpr (!kAhead) {
          next_x = g.raw(t, i, row(p.x, p, r, end), 0);
          next_dy = g.raw(t, i, row(p.dy, p, r, end), 0);
        }
        auto x = next_x;
        auto dy = next_dy;
        if constexpr (kAhead) {
          next_x = g.raw(t, i, row(p.x, p, r + 1, end), 0);
          const Params& a = g.afresh(given);
          next_dy = g.raw(t, i, row(a.dy, a, r + 1, end), 0);
        }
        m.s = 1;
        row_sums<R, 4> sums;
        for (int attempt = 0; attempt < 2; ++attempt) {
          auto v = g.unpack(x);
          map(v, [&](R a) { return a * m.s; });
          m.mean = ww::product(g.sum(v), R(p.inverse));
          map(v, [&](R a) { return a - m.mean; });
          clear_outside(g, t, i, v);
          auto l = g.lanes(0), k = g.lanes(0), q = g.lanes(0), o = g.lanes(0);
          fold(l, v, add);
          fold(k, v, square);
          auto d = g.unpack(dy);
          times_gamma(g, t, i, g.afresh(given), d);
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
        const Params& last = g.afresh(given);
        times_gamma(g, t, i, last, d);
        zip(d, v, [&](R a, R h) { return ((a - m.g) - h * m.gh) * m.root * m.s; });
        g.store(t, i, row_of(last.dx, last.space, r), d);
      }
      const Params& p = g.afresh(given);
      g.store(all, i, part_of(p.dgamma, p, program), sum_dyh);
      g.store(all, i, part_of(p.dbeta, p, program), sum_dy);
    } else {
      const span<R> dgamma = part_of(given.dgamma, given, program), dbeta = part_of(given.dbeta, given, program);
      for (int64_t r = first; r < end; ++r) {
        const row_tiling t = g.afresh(all);
        const Params& p = g.afresh(given);
        auto load = [&](int64_t i, auto view) {
          const Params& a = g.afresh(given);
          return g.load(t, i, row_of(a.*view, a.space, r), 0);
        };
        m.s = 1;
        row_sums<R, 4> sums;
        for (int attempt = 0; attempt < 2; ++attempt) {
          auto l = g.lanes(0), k = l, q = l, o = l;
          for (int64_t i = 0; i < t.count(); ++i) {
            auto v = load(i, &Params::x);
            map(v, [&](R a) { return a * m.s; });
            fold(l, v, add);
          }
          m.mean = ww::product(g.sum(l), R(p.inverse));
          l = g.lanes(0);
          for (int64_t i = 0; i < t.count(); ++i) {
            auto v = load(i, &Params::x);
            map(v, [&](R a) { return a * m.s - m.mean; });
            clear_outside(g, t, i, v);
            fold(l, v, add);
            fold(k, v, square);
            auto d = load(i, &Params::dy);
            times_gamma(g, t, i, g.afresh(given), d);
            fold(q, d, add);
            zip(d, v, times);
            fold(o, d, add);
          }
          sums = g.sums(l, k, q, o);
          if (attempt || hold(m, sums, p)) break;
          l = g.lanes(0);
          for (int64_t i = 0; i < t.count(); ++i) fold(l, load(i, &Params::x), larger);
          m.s = near_one(g.max(l));
        }
        finish(m, sums, p);
        for (int64_t i = 0; i < t.count(); ++i) {
          auto v = load(i, &Params::x);
          map(v, [&](R a) { return ((a * m.s - m.mean) - m.rest) * m.root; });
          auto d = load(i, &Params::dy);
          // a thread's own earlier sums: no other thread touches them
          auto sum = g.load(t, i, span<const R>{dbeta.p, r > first ? dbeta.n : 0, 1}, 0);
          zip(sum, d, add);
          g.store(t, i, dbeta, sum);
          auto product = d;
          zip(product, v, times);
          sum = g.load(t, i, span<const R>{dgamma.p, r > first ? dgamma.n : 0, 1}, 0);
          zip(sum, product, add);
          g.store(t, i, dgamma, sum);
          times_gamma(g, t, i, g.afresh(given), d);
          zip(d, v, [&](R a, R h) { return ((a - m.g) - h * m.gh) * m.root * m.s; });
          g.store(t, i, row_of(g.afresh(given).dx, g.afresh(given).space, r), d);
        }
      }
    }
  }
};
}  // namespace ww

// Gradients of out = x / sqrt(mean(x^2) + eps) * (w + shift).  With h = x * root, g = dy * (w + shift), c = mean(g * h):
// dx = root * (g - h * c), dw = sum over rows of dy * h; where x + residual took the place of x and was an output, too, its gradient joins dx.
// A program takes `per` rows in order and writes their part of dw to a row of its own; ops/column_sum.h adds those.
#pragma once
#include <warpwave/tile/norm.h>
namespace ww {
struct RmsNormBwdConfig {
  dtype type;
  int threads, groups = 1, chunks, vec;
  bool hold;   // the row (or each program's share of it) fits one tile: w and the part of dw stay in registers, the next row is under way
  bool span;   // several programs may share a row
  rows_lie lie;
};
template <RmsNormBwdConfig C> struct RmsNormBwd {
  static constexpr RowShape kShape{.threads = C.threads, .groups = C.groups, .chunks = C.chunks, .vec = C.vec, .wide = C.type == dtype::f64};
  static constexpr int kThreadsPerUnit = C.hold ? 512 : 256;   // fewer registers than that leaves spill
  static constexpr bool kSpans = C.span;
  static constexpr rows_lie kLie = C.lie;
  static constexpr bool kAhead = C.hold && C.lie == rows_lie::whole;   // the next row is under way while one is worked on; elsewhere that spills
  using T = elem<C.type>;
  using R = real<kShape>;
  struct Params {
    rows_view<const T> x, dy, dsum, w;   // dsum: null, or a gradient that joins dx
    rows_view<T> dx;
    rows_view<R> part;      // row i: what program i's rows give to dw
    row_space space;
    int64_t rows, per, programs;
    double eps, inverse;    // 1 / width
    float shift;
    int w_kind;             // 1: of type T, 2: float32
  };
  // Row r of a view, of no elements from row `end` on
  template <class V> WW_FN static auto row(const V& v, const Params& p, int64_t r, int64_t end) {
    auto s = row_of(v, p.space, r < end ? r : 0);
    if (r >= end) s.n = 0;
    return s;
  }
  WW_FN static span<R> part_of(const Params& p, int64_t program) { return {p.part.p + program * p.part.outer[2], p.space.n, 1}; }
  template <class G> WW_FN static auto weight(G& g, const row_tiling& t, int64_t i, const Params& p) {
    auto w = load_mixed(g, t, i, p.w, p.space, 0, p.w_kind == 2, 0);
    R shift = p.shift;
    map(w, [&](R a) { return a + shift; });
    return w;
  }
  // Whether the sums of x^2 and g * x hold what the row asks for
  WW_FN static bool hold(R squares, R product, R eps_n) { return squares_hold(squares, eps_n) && ww::abs(product) < R(1e37f); }
  template <class G> WW_FN static void run(G& g, const Params& given, int64_t program) {
    // Tiles lie as those of the program's own row do, whatever the rows of x: a thread meets the same columns in every row.
    const row_tiling all = g.tiling(part_of(given, program));
    const int64_t first = program * given.per, end = first + given.per < given.rows ? first + given.per : given.rows;
    auto square = [](R s, R a) { return s + a * a; };
    auto add = [](R s, R a) { return s + a; };
    auto times = [](R a, R b) { return a * b; };
    if constexpr (C.hold) {
      const int64_t i = g.rank();
      auto w = weight(g, all, i, given);
      auto dw = w;
      map(dw, [](R) { return R(0); });
      auto next_x = g.raw(all, i, row(given.x, given, first, kAhead ? end : first), 0);
      auto next_dy = g.raw(all, i, row(given.dy, given, first, kAhead ? end : first), 0);
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
          next_dy = g.raw(t, i, row(p.dy, p, r + 1, end), 0);
        }
        R s = 1;
        row_sums<R, 2> sums;
        for (int attempt = 0; attempt < 2; ++attempt) {
          auto v = g.unpack(x), q = g.unpack(dy);
          auto l = g.lanes(0), k = g.lanes(0);
          map(v, [&](R a) { return a * s; });
          fold(l, v, square);
          zip(q, w, times);
          zip(q, v, times);
          fold(k, q, add);
          sums = g.sums(l, k);
          if (attempt || hold(sums.x[0], sums.x[1], R(p.eps * p.space.n))) break;
          l = g.lanes(0);
          fold(l, g.unpack(x), [](R a, R b) { return ww::max(a, ww::abs(b)); });
          s = near_one(g.max(l));
        }
        const R inverse = p.inverse;
        const R root = inverse_root(sums.x[0], inverse, R(p.eps), s), c = sums.x[1] * root * inverse;
        auto v = g.unpack(x), q = g.unpack(dy);
        map(v, [&](R a) { return a * s * root; });
        auto product = q;
        zip(product, v, times);
        zip(dw, product, add);
        zip(q, w, times);
        zip(q, v, [&](R a, R b) { return (a - b * c) * root * s; });
        const Params& last = g.afresh(given);
        if (last.dsum.p != nullptr) zip(q, g.load(t, i, row_of(last.dsum, last.space, r), 0), add);
        g.store(t, i, row_of(last.dx, last.space, r), q);
      }
      g.store(all, i, part_of(g.afresh(given), program), dw);
    } else {
      const span<R> part = part_of(given, program);
      for (int64_t r = first; r < end; ++r) {
        const row_tiling t = g.afresh(all);
        const Params& p = g.afresh(given);
        auto load = [&](int64_t i, auto view) {
          const Params& a = g.afresh(given);
          return g.load(t, i, row_of(a.*view, a.space, r), 0);
        };
        const R eps = p.eps, inverse = p.inverse, eps_n = p.eps * p.space.n;
        auto l = g.lanes(0), k = g.lanes(0), m = g.lanes(0);
        R s = 1;
        auto measure = [&] {
          l = k = g.lanes(0);
          for (int64_t i = 0; i < t.count(); ++i) {
            auto x = load(i, &Params::x);
            fold(m, x, [](R a, R b) { return ww::max(a, ww::abs(b)); });
            map(x, [&](R a) { return a * s; });
            fold(l, x, square);
            auto dy = load(i, &Params::dy);
            zip(dy, weight(g, t, i, g.afresh(given)), times);
            zip(dy, x, times);
            fold(k, dy, add);
          }
          return g.sums(l, k);
        };
        auto sums = measure();
        if (!hold(sums.x[0], sums.x[1], eps_n)) {
          s = near_one(g.max(m));
          sums = measure();
        }
        const R root = inverse_root(sums.x[0], inverse, eps, s), c = sums.x[1] * root * inverse;
        for (int64_t i = 0; i < t.count(); ++i) {
          auto x = load(i, &Params::x);
          auto dy = load(i, &Params::dy);
          map(x, [&](R a) { return a * s * root; });
          // a thread's own earlier sums: no other thread touches them
          auto dw = g.load(t, i, span<const R>{part.p, r > first ? part.n : 0, 1}, 0);
          auto product = dy;
          zip(product, x, times);
          zip(dw, product, add);
          g.store(t, i, part, dw);
          zip(dy, weight(g, t, i, g.afresh(given)), times);
          zip(dy, x, [&](R a, R b) { return (a - b * c) * root * s; });
          if (p.dsum.p != nullptr) zip(dy, load(i, &Params::dsum), add);
          g.store(t, i, row_of(g.afresh(given).dx, g.afresh(given).space, r), dy);
        }
      }
    }
  }
};
}  // namespace ww

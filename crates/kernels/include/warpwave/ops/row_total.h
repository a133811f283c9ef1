// Sums of a few rows of any length, each by programs that take `per` elements of every row in order.
#pragma once
#include <warpwave/tile/rows.h>
namespace ww {
struct RowTotalConfig { dtype type; int threads, groups = 1, chunks, vec; };
template <RowTotalConfig C> struct RowTotal {
  static constexpr RowShape kShape{.threads = C.threads, .groups = C.groups, .chunks = C.chunks, .vec = C.vec, .wide = C.type == dtype::f64};
  static constexpr int kTile = kShape.tile();
  using R = real<kShape>;
  struct Params {
    rows_view<const R> x;   // `count` rows, outer[2] apart
    R* out;                 // element k * out_stride + i: program i's sum of row k; or one quotient
    int64_t n, per, out_stride;
    int64_t programs;       // ceil(n / per), 1 at least
    int count;              // of rows: 1, 2, 4
    int quotient;           // 1: out[0] = row 0 / row 1, and row 2 / row 3 added to it where there are four; 0 for a denominator of 0
  };
  WW_FN static R over(R a, R b) { return b == 0 ? R(0) : a / b; }
  template <class G> WW_FN static R total(G& g, const Params& p, int64_t i, int k) {
    const int64_t first = i * p.per, left = p.n - first, n = left < p.per ? left : p.per;
    const span<const R> s{p.x.p + k * p.x.outer[2] + first * p.x.stride, n < 0 ? 0 : n, p.x.stride};
    const row_tiling t{s.n, 0, kTile};
    auto l = g.lanes(0);
    for (int64_t j = 0; j < t.count(); ++j) {
      auto v = g.load(t, j, s, 0);
      fold(l, v, [](R sum, R a) { return sum + a; });
    }
    return g.sum(l);
  }
  template <class G> WW_FN static void run(G& g, const Params& p, int64_t i) {
    if (p.quotient) {
      R q = over(total(g, p, i, 0), total(g, p, i, 1));
      if (p.count == 4) q += over(total(g, p, i, 2), total(g, p, i, 3));
      g.put(p.out, q);
    } else {
      for (int k = 0; k < p.count; ++k) g.put(p.out + k * p.out_stride + i, total(g, p, i, k));
    }
  }
};
}  // namespace ww

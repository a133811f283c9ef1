// Sums of columns, in the order of the rows: row s of out is the sum of rows [s * per, (s + 1) * per) of x.
#pragma once
#include <warpwave/tile/rows.h>
namespace ww {
struct ColumnSumConfig { dtype out; int threads, groups = 1, chunks, vec; };
template <ColumnSumConfig C> struct ColumnSum {
  static constexpr RowShape kShape{.threads = C.threads, .groups = C.groups, .chunks = C.chunks, .vec = C.vec, .wide = C.out == dtype::f64};
  static constexpr int kTile = kShape.tile();
  using R = real<kShape>;
  using Out = elem<C.out>;
  struct Params {
    rows_view<const R> x;
    rows_view<Out> out;
    row_space space;        // of out
    int64_t rows, per;      // of x
    int64_t stretches, programs;
  };
  template <class G> WW_FN static void run(G& g, const Params& p, int64_t program) {
    auto [s, i] = part_of(program, p.stretches);
    const int64_t first = s * p.per, end = first + p.per < p.rows ? first + p.per : p.rows, step = p.x.outer[2];
    span<const R> in{p.x.p + first * step, p.space.n, 1};
    const row_tiling t{p.space.n, 0, kTile};
    auto v = g.load(t, i, span<const R>{in.p, 0, 1}, 0);   // zeros
    auto add = [](R a, R b) { return a + b; };
    int64_t r = first;
    for (; r + 4 <= end; r += 4) {   // four rows under way at once
      auto a = g.load(t, i, in, 0);
      auto b = g.load(t, i, span<const R>{in.p + step, in.n, 1}, 0);
      auto c = g.load(t, i, span<const R>{in.p + 2 * step, in.n, 1}, 0);
      auto d = g.load(t, i, span<const R>{in.p + 3 * step, in.n, 1}, 0);
      zip(v, a, add);
      zip(v, b, add);
      zip(v, c, add);
      zip(v, d, add);
      in.p += 4 * step;
    }
    for (; r < end; ++r) {
      zip(v, g.load(t, i, in, 0), add);
      in.p += step;
    }
    g.store(t, i, row_of(p.out, p.space, s), v);
  }
};
}  // namespace ww

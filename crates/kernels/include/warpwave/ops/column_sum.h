// Sums of columns, in the order of the rows: row s of out is the sum of rows [s * per, (s + 1) * per) of x.
#pragma once
#include <warpwave/tile/rows.h>
namespace ww {
struct ColumnSumConfig { dtype out; int threads, groups = 1, chunks, vec; };
template <ColumnSumConfig C> struct ColumnSum {
  static constexpr RowShape kShape{.threads = C.threads, .groups = C.groups, .chunks = C.chunks, .vec = C.vec, .wide = C.out == dtype::f64};
  static constexpr int kTile = kShape.tile(), kAhead = 16;   // rows under way at once
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
    for (; r + kAhead <= end; r += kAhead) {
      decltype(g.raw(t, i, in, 0)) a[kAhead];
      for (auto& row : a) {
        row = g.raw(t, i, in, 0);
        in.p += step;
      }
      for (auto& row : a) zip(v, g.unpack(row), add);
    }
    for (; r < end; ++r) {
      zip(v, g.load(t, i, in, 0), add);
      in.p += step;
    }
    g.store(t, i, row_of(p.out, p.space, s), v);
  }
};
}  // namespace ww

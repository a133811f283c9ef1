// out = a value, elementwise.
#pragma once
#include <warpwave/tile/rows.h>
namespace ww {
struct FillConfig {
  dtype type;
  int threads, groups = 1, chunks, vec;
};
template <FillConfig C> struct Fill {
  static constexpr RowShape kShape{.threads = C.threads, .groups = C.groups, .chunks = C.chunks, .vec = C.vec, .wide = C.type == dtype::f64};
  using T = elem<C.type>;
  using R = real<kShape>;
  struct Params {
    rows_view<T> out;
    row_space space;
    int64_t stretches, programs;
    double value;   // rounded to T already
  };
  template <class G> WW_FN static void run(G& g, const Params& p, int64_t program) {
    auto [r, i] = part_of(program, p.stretches);
    auto out = row_of(p.out, p.space, r);
    auto t = g.tiling(out);
    if (i >= t.count()) return;
    // a span of no elements: all of the tile is what lies outside
    const span<const T> nothing{out.p, 0, 1};
    g.store(t, i, out, g.load(t, i, nothing, R(p.value)));
  }
};
}  // namespace ww

// out = x + y, elementwise, one rounding to the element type.
#pragma once
#include <warpwave/tile/rows.h>
namespace ww {
struct VectorAddConfig { dtype type; int threads, chunks, vec; };
template <VectorAddConfig C> struct VectorAdd {
  static constexpr RowShape kShape{.threads = C.threads, .chunks = C.chunks, .vec = C.vec, .wide = C.type == dtype::f64};
  using T = elem<C.type>;
  using R = real<kShape>;
  struct Params {
    rows_view<const T> x, y;
    rows_view<T> out;
    row_space space;
    int64_t stretches;   // programs that share a row
    int64_t programs;
  };
  template <class G> WW_FN static void run(G& g, const Params& p, int64_t program) {
    auto [r, i] = part_of(program, p.stretches);
    auto x = row_of(p.x, p.space, r), y = row_of(p.y, p.space, r);
    auto out = row_of(p.out, p.space, r);
    auto t = g.tiling(out);
    if (i >= t.count()) return;   // stretches allows for the worst lead
    auto v = g.load(t, i, x, 0), w = g.load(t, i, y, 0);
    zip(v, w, [](R a, R b) { return a + b; });
    g.store(t, i, out, v);
  }
};
}  // namespace ww

// out = x, elementwise, between any two layouts.  A plan puts it before an op whose loads need a pitch of 16 bytes, and behind one whose
// stores do.
#pragma once
#include <warpwave/tile/rows.h>
namespace ww {
struct CopyConfig { dtype type; int threads, groups = 1, chunks, vec; };
template <CopyConfig C> struct Copy {
  static constexpr RowShape kShape{.threads = C.threads, .groups = C.groups, .chunks = C.chunks, .vec = C.vec, .wide = C.type == dtype::f64};
  using T = elem<C.type>;
  struct Params {
    rows_view<const T> x;
    rows_view<T> out;
    row_space space;
    int64_t stretches, programs;
  };
  template <class G> WW_FN static void run(G& g, const Params& p, int64_t program) {
    auto [r, i] = part_of(program, p.stretches);
    auto out = row_of(p.out, p.space, r);
    auto t = g.tiling(out);
    if (i >= t.count()) return;
    g.store(t, i, out, g.load(t, i, row_of(p.x, p.space, r), 0));
  }
};
}  // namespace ww

// out = x in another element type, one rounding to the nearest, ties to even.  The type of out is chosen at run time: a branch that all
// threads take costs less than three times the kernels.
#pragma once
#include <warpwave/tile/rows.h>
namespace ww {
struct CastConfig {
  dtype type;
  int threads, groups = 1, chunks, vec;
  bool to_f64;   // there where the target has it
};
template <CastConfig C> struct Cast {
  static constexpr RowShape kShape{.threads = C.threads, .groups = C.groups, .chunks = C.chunks, .vec = C.vec, .wide = C.type == dtype::f64};
  using T = elem<C.type>;
  struct Params {
    rows_view<const T> x;
    rows_view<char> out;
    row_space space;
    int64_t stretches, programs;
    int to;   // a value of dtype
    int reserved;
  };
  template <class U, class G> WW_FN static void convert(G& g, const Params& p, int64_t program) {
    auto [r, i] = part_of(program, p.stretches);
    const rows_view<U> view{reinterpret_cast<U*>(p.out.p), p.out.stride, {p.out.outer[0], p.out.outer[1], p.out.outer[2]}};
    auto out = row_of(view, p.space, r);
    auto t = g.tiling(out);
    if (i >= t.count()) return;   // stretches allows for the worst lead
    g.store(t, i, out, g.load(t, i, row_of(p.x, p.space, r), 0));
  }
  template <class G> WW_FN static void run(G& g, const Params& p, int64_t program) {
    if constexpr (C.to_f64) {
      if (p.to == int(dtype::f64)) return convert<double>(g, p, program);
    }
    if (p.to == int(dtype::f32)) convert<float>(g, p, program);
    else if (p.to == int(dtype::f16)) convert<f16>(g, p, program);
    else convert<bf16>(g, p, program);
  }
};
}  // namespace ww

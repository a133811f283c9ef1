// out = x + y, elementwise, each repeated where a stride is 0.  Mixed: each operand is of the config's type or of float32,
// by a flag.
#pragma once
#include <warpwave/tile/rows.h>
namespace ww {
struct AddConfig {
  dtype type;
  int threads, groups = 1, chunks, vec;
  bool mixed;   // operands may be float32
};
template <AddConfig C> struct Add {
  static constexpr RowShape kShape{.threads = C.threads, .groups = C.groups, .chunks = C.chunks, .vec = C.vec, .wide = C.type == dtype::f64};
  using T = elem<C.type>;
  using R = real<kShape>;
  struct Params {
    rows_view<const T> x, y;
    rows_view<T> out;
    row_space space;
    int64_t stretches, programs;
    int x_f32, y_f32, out_f32, reserved;
  };
  template <class G> WW_FN static void run(G& g, const Params& p, int64_t program) {
    auto [r, i] = part_of(program, p.stretches);
    auto out = row_of(p.out, p.space, r);
    auto sum = [](R a, R b) { return a + b; };
    if constexpr (C.mixed) {
      const rows_view<float> view{reinterpret_cast<float*>(p.out.p), p.out.stride, {p.out.outer[0], p.out.outer[1], p.out.outer[2]}};
      auto wide = row_of(view, p.space, r);
      auto t = p.out_f32 ? g.tiling(wide) : g.tiling(out);
      if (i >= t.count()) return;
      auto v = load_mixed(g, t, i, p.x, p.space, r, p.x_f32, 0), w = load_mixed(g, t, i, p.y, p.space, r, p.y_f32, 0);
      zip(v, w, sum);
      if (p.out_f32) g.store(t, i, wide, v);
      else g.store(t, i, out, v);
    } else {
      auto t = g.tiling(out);
      if (i >= t.count()) return;
      auto v = g.load(t, i, row_of(p.x, p.space, r), 0), w = g.load(t, i, row_of(p.y, p.space, r), 0);
      zip(v, w, sum);
      g.store(t, i, out, v);
    }
  }
};
}  // namespace ww

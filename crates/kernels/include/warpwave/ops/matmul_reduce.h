// out = alpha * sum over slices of partial + beta * c: the second step of a matmul whose k was split.  Slices are added in order, so the
// result does not depend on which block finished first.
#pragma once
#include <warpwave/tile/rows.h>
namespace ww {
struct MatmulReduceConfig { dtype out; int threads, chunks, vec; };
template <MatmulReduceConfig C> struct MatmulReduce {
  static constexpr RowShape kShape{.threads = C.threads, .chunks = C.chunks, .vec = C.vec};
  using Out = elem<C.out>;
  struct Params {
    rows_view<const float> partial;
    rows_view<Out> out;
    rows_view<const Out> c;   // read only where beta != 0
    row_space space;
    int64_t slice;            // elements from one slice to the next
    int64_t stretches, programs;
    float alpha, beta;
    int splits, reserved;
  };
  template <class G> WW_FN static void run(G& g, const Params& p, int64_t program) {
    auto [r, i] = part_of(program, p.stretches);
    auto out = row_of(p.out, p.space, r);
    auto in = row_of(p.partial, p.space, r);
    auto t = g.tiling(out);
    if (i >= t.count()) return;
    auto v = g.load(t, i, in, 0.f);
    for (int s = 1; s < p.splits; ++s) {
      in.p += p.slice;
      auto w = g.load(t, i, in, 0.f);
      zip(v, w, [](float a, float b) { return a + b; });
    }
    map(v, [&](float x) { return p.alpha * x; });
    if (p.beta != 0.f) {
      auto w = g.load(t, i, row_of(p.c, p.space, r), 0.f);
      zip(v, w, [&](float x, float c) { return x + p.beta * c; });
    }
    g.store(t, i, out, v);
  }
};
}  // namespace ww

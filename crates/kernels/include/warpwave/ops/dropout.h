// out = x / (1 - p) where the element is kept, exactly 0 (by a select) where it is dropped; relu before it, or its gradient behind it, by a
// flag.  Element number `index` of the tensor is kept where its random word (tile/philox.h) is at least `threshold` = round(p 2^32).
#pragma once
#include <warpwave/tile/philox.h>
#include <warpwave/tile/rows.h>
namespace ww {
struct DropoutConfig {
  dtype type;
  int threads, groups = 1, chunks, vec;
  bool gated;   // a second operand, by whose sign relu lets the first through
};
template <DropoutConfig C> struct Dropout {
  static constexpr RowShape kShape{.threads = C.threads, .groups = C.groups, .chunks = C.chunks, .vec = C.vec, .wide = C.type == dtype::f64};
  using T = elem<C.type>;
  using R = real<kShape>;
  struct Params {
    rows_view<const T> x, gate;   // gate: what relu read, where C.gated
    rows_view<T> out;
    row_space space;
    int64_t stretches, programs;
    int64_t seed, offset, first, threshold;   // first: number of the tensor's first element; threshold: 0 to 2^32
    double scale;                             // 1 / (1 - p)
    int relu, reserved;
  };
  // kAligned: every run begins with a block of four words.  keep(e, w): element e of a run, which drew w
  template <bool kAligned, class F> WW_FN static void draw(const Params& p, int64_t index, F keep) {
    uint32_t w[kShape.vec];
    random_words<kAligned>(w, uint64_t(p.seed), uint64_t(p.offset), index);
    for (int e = 0; e < kShape.vec; ++e) keep(e, w[e]);
  }
  template <bool kAligned, class G, class V> WW_FN static void drop(G& g, const Params& p, const row_tiling& t, int64_t i, int64_t row, V& v, V& gate) {
    const uint32_t least = uint32_t(p.threshold);
    const R scale = R(p.scale), low = lowest(p);
    if constexpr (C.gated) {
      g.runs(t, i, v, gate, [&](R* dy, const R* x, int64_t at) {
        draw<kAligned>(p, row + at, [&](int e, uint32_t w) { dy[e] = w >= least && !(x[e] <= low) ? dy[e] * scale : R(0); });
      });
    } else {
      g.runs(t, i, v, [&](R* x, int64_t at) {
        draw<kAligned>(p, row + at, [&](int e, uint32_t w) { x[e] = w >= least && !(x[e] <= low) ? x[e] * scale : R(0); });
      });
    }
  }
  // What relu takes away is not above this; NaN, which nothing is, without relu.  A comparison that NaN fails: it goes through relu
  WW_FN static R lowest(const Params& p) { return p.relu ? R(0) : R(NAN); }

  template <class G> WW_FN static void run(G& g, const Params& p, int64_t program) {
    auto [r, i] = part_of(program, p.stretches);
    auto out = row_of(p.out, p.space, r);
    auto t = g.tiling(out);
    if (i >= t.count()) return;
    auto v = g.load(t, i, row_of(p.x, p.space, r), 0);
    auto gate = v;
    if constexpr (C.gated) gate = g.load(t, i, row_of(p.gate, p.space, r), 0);
    const int64_t row = p.first + r * p.space.n;
    if (p.threshold > 0xffffffff) {
      map(v, [](R) { return R(0); });
    } else if (p.threshold == 0) {
      const R scale = R(p.scale), low = lowest(p);
      zip(v, gate, [=](R x, R y) { return y <= low ? R(0) : x * scale; });
    } else if (kShape.vec % 4 == 0 && ((row + t.first(i)) & 3) == 0) {
      drop<true>(g, p, t, i, row, v, gate);
    } else {
      drop<false>(g, p, t, i, row, v, gate);
    }
    g.store(t, i, out, v);
  }
};
}  // namespace ww

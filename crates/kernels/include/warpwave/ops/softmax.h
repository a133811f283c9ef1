// out = exp(x - max) / sum exp(x - max) along a row, or its logarithm.  A row that holds NaN or +inf, or -inf alone, gives NaN.
// Online normaliser: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.
#pragma once
#include <warpwave/tile/rows.h>
namespace ww {
struct SoftmaxConfig {
  dtype type;
  int threads, groups = 1, chunks, vec;
  bool hold;       // the row (or each program's share of it) fits one tile and stays in registers; otherwise it is read twice
  int ring = 0;    // held tiles under way or in work
};
template <SoftmaxConfig C> struct Softmax {
  static constexpr RowShape kShape{.threads = C.threads, .groups = C.groups, .chunks = C.chunks, .vec = C.vec, .wide = C.type == dtype::f64};
  static constexpr int kRing = C.ring;
  static constexpr bool kSpans = true;
  using T = elem<C.type>;
  using R = real<kShape>;
  struct Params {
    rows_view<const T> x;
    rows_view<T> out;
    row_space space;
    int64_t programs;   // rows
    int log;            // 1: log_softmax
    int reserved;
  };
  // log2(e) folded into the exponent: one multiply-add and one exp2
  static constexpr R kLog2e = R(1.4426950408889634074);

  WW_FN static R scale(R a, R b) { return a == b ? R(1) : ww::exp2((a - b) * kLog2e); }   // of e^a to e^b; also where both are -inf
  template <class G> WW_FN static void fetch(G& g, const Params& p, int64_t r) {
    auto x = row_of(p.x, p.space, r);
    g.fetch(g.tiling(x), x);
  }
  template <class G> WW_FN static void run(G& g, const Params& p, int64_t r) {
    auto x = row_of(p.x, p.space, r);
    auto out = row_of(p.out, p.space, r);
    auto t = g.tiling(x);
    if constexpr (C.hold) {
      auto v = g.load(t, g.rank(), x, -INFINITY);
      // Exponentials measured from a lane's own maximum wait for nobody.  They replace the values unless the logarithm wants those: both kept
      // took 104 registers in place of 64 (256x4x8, sm_90a).
      auto m = g.lanes(-INFINITY), l = g.lanes(0);
      fold(m, v, [](R a, R b) { return ww::max(a, b); });
      auto base = m;
      zip(base, m, [](R, R b) { return b == -INFINITY ? R(0) : b; });
      if (p.log) {
        fold(l, v, base, [](R s, R a, R b) { return s + ww::exp2((a - b) * kLog2e); });
      } else {
        map(v, base, [](R x, R b) { return ww::exp2((x - b) * kLog2e); });
        fold(l, v, [](R s, R a) { return s + a; });
      }
      auto all = max_sum(g, m, l, [](R a, R b) { return scale(a, b); });
      if (p.log) {
        R k = ww::log(all.sum);
        map(v, [&](R x) { return (x - all.max) - k; });   // in this order: max + k would round away what x - max still holds
      } else {
        auto k = m;
        zip(k, m, [&](R, R a) { return scale(a, all.max) / all.sum; });
        map(v, k, [](R x, R f) { return x * f; });
      }
      g.store(t, g.rank(), out, v);
    } else {
      auto m = g.lanes(-INFINITY), l = g.lanes(0);
      for (int64_t i = g.rank(); i < t.count(); i += g.span()) {
        auto v = g.load(t, i, x, -INFINITY);
        auto old = m;
        fold(m, v, [](R a, R b) { return ww::max(a, b); });
        // a lane that has met only -inf keeps the sum 0: its own exp(-inf - -inf) would be NaN
        zip(old, m, [](R a, R b) { return scale(a, b); });
        zip(l, old, [](R a, R s) { return a * s; });
        auto base = m;
        zip(base, m, [](R, R b) { return b == -INFINITY ? R(0) : b; });
        fold(l, v, base, [](R s, R a, R b) { return s + ww::exp2((a - b) * kLog2e); });
      }
      auto all = max_sum(g, m, l, [](R a, R b) { return scale(a, b); });
      R k = p.log ? ww::log(all.sum) : R(1) / all.sum;
      if (all.max == -INFINITY) k = NAN;
      for (int64_t i = g.rank(); i < t.count(); i += g.span()) {
        auto v = g.load(t, i, x, -INFINITY);
        if (p.log) map(v, [&](R x) { return (x - all.max) - k; });
        else map(v, [&](R x) { return ww::exp2((x - all.max) * kLog2e) * k; });
        g.store(t, i, out, v);
      }
    }
  }
};
}  // namespace ww

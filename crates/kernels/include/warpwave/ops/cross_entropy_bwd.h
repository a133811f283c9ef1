// Gradient of ops/cross_entropy.h by x, from the saved lse, elementwise; with s = dloss / sum of weights, c = dloss / rows (1 in place of either sum
// unless the loss is a mean):
//   dx = exp(x - lse) (s ((1 - e) w_y + e/n W) + 2 c z lse) - s e/n w - [at the label] s (1 - e) w_y
#pragma once
#include <warpwave/ops/cross_entropy.h>
namespace ww {
struct CrossEntropyBwdConfig {
  dtype type;
  int threads, groups = 1, chunks, vec;
  bool smooth;   // label smoothing
};
template <CrossEntropyBwdConfig C> struct CrossEntropyBwd {
  static constexpr RowShape kShape{.threads = C.threads, .groups = C.groups, .chunks = C.chunks, .vec = C.vec, .wide = C.type == dtype::f64};
  using T = elem<C.type>;
  using R = real<kShape>;
  struct Params {
    rows_view<const T> x;
    index_view labels;
    rows_view<const R> lse, dloss, w;   // one element a row (dloss: or one in all); w one row of weights, or null
    rows_view<T> dx;
    const R* total;                     // mean: sum of weights, rows that count; otherwise null
    const R* weights;                   // W, where it is needed and not n
    int32_t* error;
    row_space space;
    int64_t stretches, programs;
    int64_t ignore;
    double smoothing, z;
    int operand;                        // of the labels, for reports
    int reserved;
  };
  static constexpr R kLog2e = R(1.4426950408889634074);
  WW_FN static R over(R a, R b) { return b == 0 ? R(0) : a / b; }
  template <class G> WW_FN static void run(G& g, const Params& p, int64_t program) {
    auto [r, i] = part_of(program, p.stretches);
    auto dx = row_of(p.dx, p.space, r);
    auto t = g.tiling(dx);
    if (i >= t.count()) return;
    auto v = g.load(t, i, row_of(p.x, p.space, r), 0);
    const label_of label(p.labels, r, p.ignore, p.space.n, p.error, p.operand);
    if (!label.counts) {
      map(v, [](R) { return R(0); });
      g.store(t, i, dx, v);
      return;
    }
    const R lse = p.lse.p[r * p.lse.outer[2]], dloss = p.dloss.p[r * p.dloss.outer[2]];
    const R own = p.w.p != nullptr ? p.w.p[label.at * p.w.stride] : R(1);
    R s = dloss, c = dloss;
    if (p.total != nullptr) {
      s = over(dloss, p.total[0]);
      c = over(dloss, p.total[1]);
    }
    R hit = s * own, factor = hit, spread = 0;
    if constexpr (C.smooth) {
      const R e = p.smoothing;
      spread = s * (e / R(p.space.n));
      hit *= 1 - e;
      factor = hit + spread * (p.weights != nullptr ? *p.weights : R(p.space.n));
    }
    if (p.z != 0) factor += 2 * R(p.z) * lse * c;
    map(v, [&](R a) { return ww::exp2((a - lse) * kLog2e) * factor; });
    if constexpr (C.smooth) {
      if (p.w.p != nullptr) {
        zip(v, g.load(t, i, span<const R>{p.w.p, p.space.n, p.w.stride}, 0), [&](R a, R w) { return a - w * spread; });
      } else {
        map(v, [&](R a) { return a - spread; });
      }
    }
    g.runs(t, i, v, [&](R* y, int64_t at) {
      const int64_t e = label.at - at;
      if (uint64_t(e) >= uint64_t(G::kRun)) return;
      for (int k = 0; k < G::kRun; ++k) y[k] = k == int(e) ? y[k] - hit : y[k];
    });
    g.store(t, i, dx, v);
  }
};
}  // namespace ww

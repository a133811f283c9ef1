// Loss of a row x with label y, w the weights of the classes (1 where there are none), W their sum, e the smoothing:
//   lse = log sum exp x,  loss = (1 - e) w_y (lse - x_y) + e/n (W lse - sum w x) + z lse^2
// A row without a label gives 0 and is not read.  Online normaliser: Milakov and Gimelshein, 2018; z-loss: de Brebisson and Vincent, 2016.
#pragma once
#include <warpwave/tile/rows.h>
namespace ww {

// What a label says: whether it counts.  One out of range counts as the ignored one does, and is reported.
struct label_of {
  int64_t at;
  bool counts;
  WW_FN label_of(const index_view& labels, int64_t row, int64_t ignore, int64_t n, int32_t* error, int operand) : at(labels.at(row)) {
    const bool in = uint64_t(at) < uint64_t(n);
    counts = in && at != ignore;
    if (!in && at != ignore) report(error, operand);
  }
};
template <class R, class T> WW_FN R value_at(const span<const T>& s, int64_t i) {
  if constexpr (sizeof(T) == 8) return s.p[i * s.stride];
  else return to_float(s.p[i * s.stride]);
}

struct CrossEntropyConfig {
  dtype type;
  int threads, groups = 1, chunks, vec;
  bool smooth;   // label smoothing
  int unit;      // threads of a multiprocessor, at least
};
template <CrossEntropyConfig C> struct CrossEntropy {
  static constexpr RowShape kShape{.threads = C.threads, .groups = C.groups, .chunks = C.chunks, .vec = C.vec, .wide = C.type == dtype::f64};
  static constexpr int kThreadsPerUnit = C.unit;
  using T = elem<C.type>;
  using R = real<kShape>;
  struct Params {
    rows_view<const T> x;
    index_view labels;
    rows_view<const R> w;       // one row of weights, or null
    rows_view<R> loss, lse;     // one element a row
    R* part;                    // columns of summands: loss; weight; z-loss; whether the row counts
    int32_t* error;
    row_space space;
    int64_t programs;           // rows
    int64_t pitch;              // of columns
    int64_t ignore;
    double smoothing, z;
    int operand;                // of the labels, for reports
    int summands;               // columns: 0 where each row's loss is the result; with fewer than 4 the z-loss is part of the loss
  };
  static constexpr R kLog2e = R(1.4426950408889634074);

  WW_FN static R scale(R a, R b) { return a == b ? R(1) : ww::exp2((a - b) * kLog2e); }   // of e^a to e^b; also where both are -inf
  template <class G> WW_FN static void write(G& g, const Params& p, int64_t r, R lse, R loss, R weight, R z_loss, R counts) {
    g.put(p.lse.p + r * p.lse.outer[2], lse);
    if (p.summands == 0) g.put(p.loss.p + r * p.loss.outer[2], loss + z_loss);
    if (p.summands > 0) g.put(p.part + r, p.summands == 4 ? loss : loss + z_loss);
    if (p.summands > 1) g.put(p.part + p.pitch + r, weight);
    if (p.summands == 4) {
      g.put(p.part + 2 * p.pitch + r, z_loss);
      g.put(p.part + 3 * p.pitch + r, counts);
    }
  }
  template <class G> WW_FN static void run(G& g, const Params& p, int64_t r) {
    const label_of label(p.labels, r, p.ignore, p.space.n, p.error, p.operand);
    if (!label.counts) {
      write(g, p, r, 0, 0, 0, 0, 0);
      return;
    }
    auto x = row_of(p.x, p.space, r);
    const span<const R> w{p.w.p, p.space.n, p.w.stride};
    auto t = g.tiling(x);
    const R own = value_at<R>(x, label.at);
    auto m = g.lanes(-INFINITY), l = g.lanes(0);
    auto xs = g.lanes(0), ws = g.lanes(0);   // smoothing: of w x, of w
    const int count = int(t.count());
    for (int i = 0; i < count; ++i) {
      auto v = g.load(t, i, x, -INFINITY);
      auto old = m;
      fold(m, v, [](R a, R b) { return ww::max(a, b); });
      // a lane that has met only -inf keeps the sum 0: its own exp(-inf - -inf) would be NaN
      zip(old, m, [](R a, R b) { return scale(a, b); });
      zip(l, old, [](R a, R s) { return a * s; });
      auto base = m;
      zip(base, m, [](R, R b) { return b == -INFINITY ? R(0) : b; });
      fold(l, v, base, [](R s, R a, R b) { return s + ww::exp2((a - b) * kLog2e); });
      if constexpr (C.smooth) {
        clear_outside(g, t, i, v);
        if (w.p != nullptr) {
          auto c = g.load(t, i, w, 0);
          zip(v, c, [](R a, R b) { return a * b; });
          fold(ws, c, [](R s, R a) { return s + a; });
        }
        fold(xs, v, [](R s, R a) { return s + a; });
      }
    }
    auto all = max_sum(g, m, l, [](R a, R b) { return scale(a, b); });
    // read here: one register less in the loop (512x4x8 of bf16 spilled on sm_90a, nvcc 13.5)
    const R weight = w.p != nullptr ? w.p[p.labels.at(r) * w.stride] : R(1);
    const R k = ww::log(all.sum), lse = all.max + k;
    R loss = weight * ((all.max - own) + k);   // in this order: max + k would round away what max - x still holds
    if constexpr (C.smooth) {
      const R e = p.smoothing, sum = g.sum(xs);
      const R total = w.p != nullptr ? g.sum(ws) : R(p.space.n);
      loss = (e == 1 ? R(0) : (1 - e) * loss) + e / R(p.space.n) * (total * lse - sum);
    }
    write(g, p, r, lse, loss, weight, p.z == 0 ? R(0) : R(p.z) * lse * lse, 1);
  }
};

// For a mean: weights of the labels of `per` rows, and how many rows count.
struct LabelTotalConfig { dtype type; int threads, groups = 1, chunks, vec; };
template <LabelTotalConfig C> struct LabelTotal {
  static constexpr RowShape kShape{.threads = C.threads, .groups = C.groups, .chunks = C.chunks, .vec = C.vec, .wide = C.type == dtype::f64};
  static constexpr int kTile = kShape.tile();
  using R = real<kShape>;
  struct Params {
    index_view labels;
    rows_view<const R> w;   // one row, or null
    R* out;                 // program i: element i the weights, element out_stride + i the rows
    int64_t rows, per, n, ignore;
    int64_t out_stride, programs;
  };
  template <class G> WW_FN static void run(G& g, const Params& p, int64_t i) {
    const int64_t first = i * p.per, left = p.rows - first, n = left < p.per ? left : p.per;
    const row_tiling t{n, 0, kTile};
    const span<const R> nothing{nullptr, 0, 1};
    auto ws = g.lanes(0), counts = g.lanes(0);
    for (int64_t j = 0; j < t.count(); ++j) {
      auto v = g.load(t, j, nothing, 0);
      auto c = v;
      g.runs(t, j, v, c, [&](R* x, R* y, int64_t at) {
        for (int e = 0; e < G::kRun; ++e) {
          if (at + e >= n) continue;
          const label_of label(p.labels, first + at + e, p.ignore, p.n, nullptr, 0);
          x[e] = label.counts ? p.w.p != nullptr ? p.w.p[label.at * p.w.stride] : R(1) : R(0);
          y[e] = label.counts ? R(1) : R(0);
        }
      });
      fold(ws, v, [](R s, R a) { return s + a; });
      fold(counts, c, [](R s, R a) { return s + a; });
    }
    g.put(p.out + i, g.sum(ws));
    g.put(p.out + p.out_stride + i, g.sum(counts));
  }
};
}  // namespace ww

// Cosines and sines of rope, one row for each position: two rows of n values, or one of n pairs (cosine, sine).  From frequencies, or gathered
// from a table by index.
//
// All in float64, by arithmetic that every target has: a position times its frequency in turns, of which the whole ones are dropped.  Frequency i
// is 2^(i * step), divided by `factor` where b = 0, kept where b = 1, between them in proportion; b = per_turn * (turns in a context) + per_index
// * i + shift, cut to [0, 1].  So are none, linear (b = 0), llama3 (by turns) and yarn (by index).
#pragma once
#include <warpwave/tile/rows.h>
namespace ww {
struct RopeTableConfig {
  dtype type;   // of the table
  int threads, groups = 1, chunks, vec;
  bool pairs;
};
template <RopeTableConfig C> struct RopeTable {
  static constexpr RowShape kShape{.threads = C.threads, .groups = C.groups, .chunks = C.chunks, .vec = C.vec, .wide = C.type == dtype::f64};
  static_assert(!C.pairs || C.vec % 2 == 0);
  using R = real<kShape>;
  struct Params {
    rows_view<const R> cos, sin;   // given tables, or null; of type `kind`
    rows_view<R> out, sines;       // row r: position r
    index_view pos;                // or null: r + first
    int32_t* error;
    int64_t first, limit, n, programs;   // limit: rows of a given table; n: frequencies
    double step, inverse_factor, per_turn, per_index, shift, scale;   // scale: of every cosine and sine
    int kind;      // of given tables. 0: R, 1: float32, 2: f16, 3: bf16
    int operand;   // number of pos
  };

  static constexpr double kHuge = 6755399441055744.;   // 1.5 * 2^52: adding it rounds to an integer
  WW_FN static double nearest(double x) { return x + kHuge - kHuge; }
  // 2^x, |x| < 1024
  WW_FN static double power(double x) {
    double whole = nearest(x), f = (x - whole) * 0.69314718055994530942, r = 1. / 6227020800.;   // to f^13 / 13!
    r = r * f + 1. / 479001600.;
    r = r * f + 1. / 39916800.;
    r = r * f + 1. / 3628800.;
    r = r * f + 1. / 362880.;
    r = r * f + 1. / 40320.;
    r = r * f + 1. / 5040.;
    r = r * f + 1. / 720.;
    r = r * f + 1. / 120.;
    r = r * f + 1. / 24.;
    r = r * f + 1. / 6.;
    r = r * f + 0.5;
    r = r * f + 1.;
    r = r * f + 1.;
    double s = whole < 0. ? 0.5 : 2.;
    for (int m = int(whole < 0. ? -whole : whole); m != 0; m >>= 1, s *= s) r = m & 1 ? r * s : r;
    return r;
  }
  // The angle of `turns`, by polynomials on an eighth of a turn to either side (fdlibm's coefficients).  Where a float64 holds no part of a turn: 0
  WW_FN static void angle(double turns, double& c, double& s) {
    double t = turns < 0x1p51 && turns > -0x1p51 ? turns - nearest(turns) : 0.;
    double quarter = nearest(4. * t), r = (t - 0.25 * quarter) * 6.28318530717958647693, z = r * r;
    double x = 1.58969099521155010221e-10;
    x = x * z - 2.50507602534068634195e-08;
    x = x * z + 2.75573137070700676789e-06;
    x = x * z - 1.98412698298579493134e-04;
    x = x * z + 8.33333333332248946124e-03;
    x = x * z - 1.66666666666666324348e-01;
    x = x * z * r + r;
    double y = -1.13596475577881948265e-11;
    y = y * z + 2.08757232129817482790e-09;
    y = y * z - 2.75573143513906633035e-07;
    y = y * z + 2.48015872894767294178e-05;
    y = y * z - 1.38888888888741095749e-03;
    y = y * z + 4.16666666666666019037e-02;
    y = y * z * z - 0.5 * z + 1.;
    int q = int(quarter) & 3;
    c = q & 1 ? x : y;
    s = q & 1 ? y : x;
    c = q == 1 || q == 2 ? -c : c;
    s = q >= 2 ? -s : s;
  }
  WW_FN static R given(const Params& p, const rows_view<const R>& v, int64_t row, int64_t i) {
    const int64_t at = row * v.outer[2] + i * v.stride;
    const void* q = v.p;
    if (p.kind == 1) return R(static_cast<const float*>(q)[at]);
    if (p.kind == 2) return R(to_float(static_cast<const f16*>(q)[at]));
    if (p.kind == 3) return R(to_float(static_cast<const bf16*>(q)[at]));
    return v.p[at];
  }
  WW_FN static void one(const Params& p, int64_t pos, int64_t i, R& c, R& s) {
    c = 1;
    s = 0;
    if (i < 0 || i >= p.n) return;
    if (p.limit > 0) {
      if (pos < 0 || pos >= p.limit) return;
      c = given(p, p.cos, pos, i);
      s = given(p, p.sin, pos, i);
    } else {
      double w = power(double(i) * p.step) * 0.15915494309189533577, b = p.per_turn * w + p.per_index * double(i) + p.shift, x, y;
      b = b < 0. ? 0. : b > 1. ? 1. : b;
      angle(double(pos) * (w * (b + (1. - b) * p.inverse_factor)), x, y);
      c = R(x * p.scale);
      s = R(y * p.scale);
    }
  }
  template <class G> WW_FN static void run(G& g, const Params& p, int64_t r) {
    const int64_t pos = p.pos.p ? p.pos.at(r) : r + p.first;
    if (p.limit > 0 && (pos < 0 || pos >= p.limit)) report(p.error, p.operand);
    const int64_t n = C.pairs ? 2 * p.n : p.n;
    const span<R> out{p.out.p + r * p.out.outer[2], n, 1};
    const auto t = g.tiling(out);   // the plan lays rows on 16 bytes: no pair is parted
    for (int64_t i = 0; i < t.count(); ++i) {
      auto c = g.load(t, i, span<const R>{p.out.p, 0, 1}, 0);
      auto s = c;
      g.runs(t, i, c, s, [&](R* a, R* b, int64_t at) {
        for (int e = 0; e < G::kRun; e += C.pairs ? 2 : 1) {
          if constexpr (C.pairs) one(p, pos, (at + e) >> 1, a[e], a[e + 1]);
          else one(p, pos, at + e, a[e], b[e]);
        }
      });
      g.store(t, i, out, c);
      if constexpr (!C.pairs) g.store(t, i, span<R>{p.sines.p + r * p.sines.outer[2], n, 1}, s);
    }
  }
};
}  // namespace ww

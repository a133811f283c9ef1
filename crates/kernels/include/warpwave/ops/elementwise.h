// out = x through up to four steps, each a function of the value so far, or of it and the next operand.  Steps are chosen at run time: branches
// that all threads take, over values that stay in registers.
#pragma once
#include <warpwave/tile/math.h>
#include <warpwave/tile/rows.h>
namespace ww {
struct ElementwiseConfig {
  dtype type;
  int threads, groups = 1, chunks, vec;
  int operands;   // 1 or 4: the most that are given beside x
};
template <ElementwiseConfig C> struct Elementwise {
  static constexpr RowShape kShape{.threads = C.threads, .groups = C.groups, .chunks = C.chunks, .vec = C.vec, .wide = C.type == dtype::f64};
  using T = elem<C.type>;
  using R = real<kShape>;
  using F = smooth<T>;
  struct Params {
    rows_view<const T> x, y1, y2, y3, y4;
    rows_view<T> out;
    row_space space;
    int64_t stretches, programs;
    int64_t steps;           // a byte for each step, the first lowest; 0: the end
    double c1, c2, c3, c4;   // factor of a step `scale`
    int count, reserved;     // operands given beside x
  };
  template <class V> WW_FN static void apply(int step, V& v, const V& y, R c) {
    switch (step) {
      case 1: return map(v, [](R x) { return -x; });
      case 2: return map(v, [](R x) { return ww::abs(x); });
      case 3: return map(v, [](R x) { return x <= 0 ? R(0) : x; });   // NaN fails the comparison: it goes through
      case 4: return map(v, [](R x) { return F::silu(x); });
      case 5: return map(v, [](R x) { return F::gelu(x); });
      case 6: return map(v, [](R x) { return F::gelu_tanh(x); });
      case 7: return map(v, [](R x) { return F::template logistic_of<true>(x).value(); });
      case 8: return map(v, [](R x) { return F::tanh(x); });
      case 9: return map(v, [](R x) { return F::exp(x); });
      case 10: return map(v, [](R x) { return ww::log(x); });
      case 11: return map(v, [](R x) { return ww::sqrt(x); });
      case 12: return map(v, [](R x) { return x * x; });
      case 13: return map(v, [](R x) { return R(1) / x; });
      case 14: return map(v, [c](R x) { return x * c; });
      case 15: return zip(v, y, [](R a, R b) { return a + b; });
      case 16: return zip(v, y, [](R a, R b) { return a - b; });
      case 17: return zip(v, y, [](R a, R b) { return a * b; });
      case 18: return zip(v, y, [](R a, R b) { return a / b; });
      case 19: return zip(v, y, [](R a, R b) { return a > b || a != a ? a : b; });   // NaN, where one is NaN
      default: return zip(v, y, [](R a, R b) { return a < b || a != a ? a : b; });
    }
  }
  template <class G> WW_FN static void run(G& g, const Params& p, int64_t program) {
    auto [r, i] = part_of(program, p.stretches);
    auto out = row_of(p.out, p.space, r);
    auto t = g.tiling(out);
    if (i >= t.count()) return;
    auto v = g.load(t, i, row_of(p.x, p.space, r), 0);
    auto a = v, b = v, c = v, d = v;
    if (p.count > 0) a = g.load(t, i, row_of(p.y1, p.space, r), 0);
    if constexpr (C.operands > 1) {
      if (p.count > 1) b = g.load(t, i, row_of(p.y2, p.space, r), 0);
      if (p.count > 2) c = g.load(t, i, row_of(p.y3, p.space, r), 0);
      if (p.count > 3) d = g.load(t, i, row_of(p.y4, p.space, r), 0);
    }
    int n = 0;
    for (int64_t steps = p.steps; steps != 0; steps >>= 8, ++n) {
      const int step = int(steps & 255);
      apply(step, v, a, R(n == 0 ? p.c1 : n == 1 ? p.c2 : n == 2 ? p.c3 : p.c4));
      if (C.operands > 1 && step > 14) {   // the next operand
        a = b;
        b = c;
        c = d;
      }
    }
    g.store(t, i, out, v);
  }
};
}  // namespace ww

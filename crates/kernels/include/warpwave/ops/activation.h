// out = f(x), or the gradient dx = dy f'(x), elementwise: relu, relu^2, silu, gelu by erf and by tanh.  f is chosen at run time: a branch
// that all threads take costs less than twice the kernels.
#pragma once
#include <warpwave/tile/math.h>
#include <warpwave/tile/rows.h>
namespace ww {
struct ActivationConfig {
  dtype type;
  int threads, groups = 1, chunks, vec;
  bool backward;
};
template <ActivationConfig C> struct Activation {
  static constexpr RowShape kShape{.threads = C.threads, .groups = C.groups, .chunks = C.chunks, .vec = C.vec, .wide = C.type == dtype::f64};
  using T = elem<C.type>;
  using R = real<kShape>;
  using F = smooth<T>;
  struct Params {
    rows_view<const T> x, dy;   // dy: backward
    rows_view<T> out;
    row_space space;
    int64_t stretches, programs;
    int function;   // 0: relu, 1: relu^2, 2: silu, 3: gelu, 4: gelu by tanh
    int reserved;
  };
  template <class G> WW_FN static void run(G& g, const Params& p, int64_t program) {
    auto [r, i] = part_of(program, p.stretches);
    auto out = row_of(p.out, p.space, r);
    auto t = g.tiling(out);
    if (i >= t.count()) return;
    auto v = g.load(t, i, row_of(p.x, p.space, r), 0);
    // comparisons that NaN fails: it goes through relu
    if constexpr (C.backward) {
      auto d = g.load(t, i, row_of(p.dy, p.space, r), 0);
      if (p.function == 0) zip(v, d, [](R x, R dy) { return x <= 0 ? 0 : dy; });
      else if (p.function == 1) zip(v, d, [](R x, R dy) { return x <= 0 ? 0 : x * dy * 2; });
      else if (p.function == 2) zip(v, d, [](R x, R dy) { return dy * F::silu_grad(x); });
      else if (p.function == 3) zip(v, d, [](R x, R dy) { return dy * F::gelu_grad(x); });
      else zip(v, d, [](R x, R dy) { return dy * F::gelu_tanh_grad(x); });
    } else {
      if (p.function == 0) map(v, [](R x) { return x <= 0 ? 0 : x; });
      else if (p.function == 1) map(v, [](R x) { return x <= 0 ? 0 : x * x; });
      else if (p.function == 2) map(v, [](R x) { return F::silu(x); });
      else if (p.function == 3) map(v, [](R x) { return F::gelu(x); });
      else map(v, [](R x) { return F::gelu_tanh(x); });
    }
    g.store(t, i, out, v);
  }
};
}  // namespace ww

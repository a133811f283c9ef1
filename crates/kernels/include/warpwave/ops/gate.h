// out = f(gate) * up, elementwise, or its gradients dgate = dy * up * f'(gate) and dup = dy * f(gate): f is silu, gelu by erf or by tanh, chosen
// at run time.
#pragma once
#include <warpwave/tile/math.h>
#include <warpwave/tile/rows.h>
namespace ww {
struct GateConfig {
  dtype type;
  int threads, groups = 1, chunks, vec;
  bool backward;
};
template <GateConfig C> struct Gate {
  static constexpr RowShape kShape{.threads = C.threads, .groups = C.groups, .chunks = C.chunks, .vec = C.vec, .wide = C.type == dtype::f64};
  using T = elem<C.type>;
  using R = real<kShape>;
  using F = smooth<T>;
  struct Params {
    rows_view<const T> gate, up, dy;   // dy: backward
    rows_view<T> out, dup;             // out: dgate in the backward, which alone has dup
    row_space space;
    int64_t stretches, programs;
    int function;   // 0: silu, 1: gelu, 2: gelu by tanh
    int reserved;
  };
  // f' goes up to 1.13: halved, so that no product overflows before the gradient does
  template <class V, class D> WW_FN static void slope(V& d, const V& x, D f) {
    zip(d, x, [&](R a, R b) { return a * (R(0.5) * f(b)); });
  }
  template <class G> WW_FN static void run(G& g, const Params& p, int64_t program) {
    auto [r, i] = part_of(program, p.stretches);
    auto out = row_of(p.out, p.space, r);
    auto t = g.tiling(out);
    if (i >= t.count()) return;
    auto x = g.load(t, i, row_of(p.gate, p.space, r), 0);
    auto up = g.load(t, i, row_of(p.up, p.space, r), 0);
    if constexpr (C.backward) {
      auto dy = g.load(t, i, row_of(p.dy, p.space, r), 0);
      if (p.function == 0) slope(up, x, [](R a) { return F::silu_grad(a); });
      else if (p.function == 1) slope(up, x, [](R a) { return F::gelu_grad(a); });
      else slope(up, x, [](R a) { return F::gelu_tanh_grad(a); });
      zip(up, dy, [](R a, R b) { return a * b * R(2); });
      g.store(t, i, out, up);
      if (p.function == 0) zip(dy, x, [](R a, R b) { return a * F::silu(b); });
      else if (p.function == 1) zip(dy, x, [](R a, R b) { return a * F::gelu(b); });
      else zip(dy, x, [](R a, R b) { return a * F::gelu_tanh(b); });
      g.store(t, i, row_of(p.dup, p.space, r), dy);
    } else {
      if (p.function == 0) zip(up, x, [](R a, R b) { return a * F::silu(b); });
      else if (p.function == 1) zip(up, x, [](R a, R b) { return a * F::gelu(b); });
      else zip(up, x, [](R a, R b) { return a * F::gelu_tanh(b); });
      g.store(t, i, out, up);
    }
  }
};
}  // namespace ww

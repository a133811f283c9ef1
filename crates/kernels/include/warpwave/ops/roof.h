// What memory allows: ops that only move bytes.  A benchmark sets a row op's time beside the roof of the same bytes, best of several shapes.
#pragma once
#include <warpwave/tile/rows.h>
namespace ww {
enum class traffic { copy, read, two_in_one_out };
struct RoofConfig { traffic kind; int threads, groups = 1, chunks, vec; };
template <RoofConfig C> struct Roof {
  static constexpr RowShape kShape{.threads = C.threads, .groups = C.groups, .chunks = C.chunks, .vec = C.vec};
  struct Params {
    const float* x;
    const float* y;     // two_in_one_out
    float* out;
    int64_t n;          // floats: of x, of y, and of out; read writes out only where a value is `never`
    int64_t programs;   // ceil(n / tile): the operands begin on 16 bytes
    float never;
    int reserved;
  };
  template <class G> WW_FN static void run(G& g, const Params& p, int64_t i) {
    span<const float> x{p.x, p.n, 1}, y{p.y, p.n, 1};
    span<float> out{p.out, p.n, 1};
    auto t = g.tiling(out);
    auto v = g.load(t, i, x, 0.f);
    if constexpr (C.kind == traffic::read) {
      auto l = g.lanes(0.f);
      fold(l, v, [&](float s, float a) { return a == p.never ? 1.f : s; });
      if (g.max(l) == 0.f) return;   // what is read must be looked at, or it is not read
    }
    if constexpr (C.kind == traffic::two_in_one_out) {
      auto w = g.load(t, i, y, 0.f);
      zip(v, w, [](float a, float b) { return a < b ? b : a; });
    }
    g.store(t, i, out, v);
  }
};
}  // namespace ww

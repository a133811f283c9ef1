// out = x with its last two dimensions swapped, by square tiles.
#pragma once
#include <warpwave/tile/rows.h>
#include <warpwave/tile/transpose.h>
namespace ww {
struct TransposeConfig { int bytes, threads, side; };
template <TransposeConfig C> struct Transpose {
  static constexpr TransposeShape kTranspose{.threads = C.threads, .side = C.side, .bytes = C.bytes};
  using W = transposed_word<kTranspose>;
  struct Params {
    rows_view<const W> x;   // outer: two dims of the batch, then rows
    rows_view<W> out;
    row_space space;   // of x
    int64_t tiles_m, tiles_n, programs;   // tiles of x, by rows and by columns
  };
  template <class G> WW_FN static void run(G& g, const Params& p, int64_t program) {
    constexpr int kBand = 8;   // tiles side by side in out that run at once write neighbouring lines
    const int64_t each = p.tiles_m * p.tiles_n, rows = p.space.outer[2], cols = p.space.n;
    const int tiles_m = int(p.tiles_m), tiles_n = int(p.tiles_n);
    plane<const W> x{p.x.p, rows, cols, p.x.outer[2], p.x.stride};
    plane<W> out{p.out.p, cols, rows, p.out.outer[2], p.out.stride};
    int i = int(program);
    if (program >= each) {   // not the first plane: divisions, for those who need them
      const int64_t number = program / each, a = number / p.space.outer[1], b = number % p.space.outer[1];
      i = int(program % each);
      x.p += a * p.x.outer[0] + b * p.x.outer[1];
      out.p += a * p.out.outer[0] + b * p.out.outer[1];
    }
    const int first = i / (kBand * tiles_n) * kBand, j = i - first * tiles_n, height = tiles_m - first;
    int m = first + j % kBand, n = j / kBand;
    if (height < kBand) {   // the last band
      m = first + j % height;
      n = j / height;
    }
    g.transpose(out, x, int64_t(m) * C.side, int64_t(n) * C.side);
  }
};
}  // namespace ww

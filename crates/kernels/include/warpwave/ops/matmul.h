// out = alpha * a b + beta * c for each of planes x batches matrices, float32 accumulation, one rounding at the end.
// One block owns block_m x block_n of the output, each group a band of its rows.  With splits > 1 a tile covers a slice of k and leaves
// its float32 sum in `partial` (plane by plane within a slice); matmul_reduce adds the slices in order.
#pragma once
#include <warpwave/tile/tile.h>
namespace ww {
struct MatmulConfig {
  dtype in, out;
  int block_m, block_n, block_k, stages;
  int groups = 1;
  int lag = 1;        // batches left running when a slot is let go
  bool a_t = false;   // a is stored k x m
  bool b_t = false;   // b is stored n x k
  int store_bufs = 2;
};
template <MatmulConfig C> struct Matmul {
  static constexpr MatmulConfig kConfig = C;
  static constexpr int kGroups = C.groups, kGroupM = C.block_m / C.groups;
  static constexpr int kMaps = 3;   // tensor maps of a launch, where the target uses them
  static constexpr bool kTurns = false, kUneven = false;
  using T = elem<C.in>;
  using Out = elem<C.out>;
  static_assert(C.block_m % C.groups == 0, "each group owns a band of whole rows");
  struct Params {
    view<const T, 0> a;
    view<const T, 1> b;
    view<Out, 2> out;
    view<const Out> c;      // read only where beta != 0
    view<float> partial;    // planes = planes of out x splits
    float alpha, beta;
    int m, n, k, planes, batches;
    int tiles_m, tiles_n, band;
    int splits, split_k;    // elements of k in a slice, a multiple of block_k; splits == 1: all of k
  };
  static constexpr major kMajorA = C.a_t ? major::mn : major::k, kMajorB = C.b_t ? major::k : major::mn;
  using TileA = pick_t<C.a_t, shared_tile<T, C.block_k, C.block_m, kMajorA>, shared_tile<T, C.block_m, C.block_k, kMajorA>>;
  using TileB = pick_t<C.b_t, shared_tile<T, C.block_n, C.block_k, kMajorB>, shared_tile<T, C.block_k, C.block_n, kMajorB>>;
  struct Slot { TileA a; TileB b; };
  struct Scratch { store_staging<Out, C.store_bufs> out; };
  using Rings = rings<ring<Slot, C.stages>>;
  using Acc = acc<kGroupM, C.block_n, rows::free>;
  struct Tile { coord at; int split, k0, items; };

  WW_FN static int tiles(const Params& p) { return p.tiles_m * p.tiles_n * p.planes * p.batches * p.splits; }
  WW_FN static Tile tile(const Params& p, int i) {
    int grid = p.tiles_m * p.tiles_n, j = i / grid;
    tile_index t = banded(i - j * grid, p.tiles_m, p.tiles_n, p.band);
    int split = j % p.splits, plane = j / p.splits % p.planes, batch = j / p.splits / p.planes;
    int k0 = split * p.split_k, left = p.k - k0;
    if (p.splits > 1 && left > p.split_k) left = p.split_k;
    return {{t.m * C.block_m, t.n * C.block_n, plane, batch}, split, k0, left > 0 ? ceil_div(left, C.block_k) : 0};
  }
  WW_FN static int items(const Params&, const Tile& t) { return t.items; }

  template <class G> WW_FN static void load(G& g, const Params& p, const Tile& t, int i) {
    g.template fill<0>([&](Slot& s) {
      int k = t.k0 + i * C.block_k;
      g.copy_async(s.a, p.a, C.a_t ? coord{k, t.at.row, t.at.plane, t.at.batch} : coord{t.at.row, k, t.at.plane, t.at.batch});
      g.copy_async(s.b, p.b, C.b_t ? coord{t.at.col, k, t.at.plane, t.at.batch} : coord{k, t.at.col, t.at.plane, t.at.batch});
    });
  }
  template <class G> WW_FN static void multiply(G& g, Acc& d, const Slot& s, bool accumulate) {
    if constexpr (C.a_t && C.b_t) g.mma_async(d, g.template band_cols<kGroupM>(s.a), transposed(s.b), accumulate);
    else if constexpr (C.a_t) g.mma_async(d, g.template band_cols<kGroupM>(s.a), s.b, accumulate);
    else if constexpr (C.b_t) g.mma_async(d, g.template band<kGroupM>(s.a), transposed(s.b), accumulate);
    else g.mma_async(d, g.template band<kGroupM>(s.a), s.b, accumulate);
  }
  template <class G> WW_FN static void run(G& g, const Params& p, const Tile& t) {
    Acc d;
    if (t.items == 0) zero(d);
    for (int i = 0; i < t.items; ++i) {
      multiply(g, d, g.template wait<0>(), i > 0);
      g.template mma_wait<C.lag>();
      if (i >= C.lag) g.template release<0>();
    }
    g.template mma_wait<0>(d);
    for (int i = 0; i < C.lag && i < t.items; ++i) g.template release<0>();
    if (p.splits > 1) {
      // slices of one matrix lie one after the other: a plane of `partial` is (plane, split)
      g.store_direct(p.partial, {t.at.row, t.at.col, t.at.plane * p.splits + t.split, t.at.batch}, d);
      return;
    }
    map(d, [&](float x) { return p.alpha * x; });
    if (p.beta != 0.f) g.zip_view(d, p.c, t.at, [&](float x, float c) { return x + p.beta * c; });
    g.store(p.out, t.at, d, g.scratch().out);
  }
};
}  // namespace ww

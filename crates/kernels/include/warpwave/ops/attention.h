// out = softmax(scale * q k^T) v and the natural logsumexp of each row.  One block owns groups x 64 query rows of one head.
// Online softmax in base 2: Dao, "FlashAttention-2", 2023; scores of the next block of keys beside the sum over values of this one:
// Shah et al., "FlashAttention-3", 2024.  A row that sees no key gives 0 and -inf.
#pragma once
#include <warpwave/tile/tile.h>
namespace ww {
struct AttentionConfig {
  dtype type;
  int dim, block_kv;
  int groups = 2, group_rows = 64;
  int stages = 2;
  bool causal = false;    // aligned bottom-right: query i sees keys j <= i + keys - queries
  bool overlap = true;    // the next scores run while the last values are summed
  int store_bufs = 1;
};
template <AttentionConfig C> struct Attention {
  static constexpr AttentionConfig kConfig = C;
  static constexpr int kGroups = C.groups, kGroupM = C.group_rows, kBlockQ = kGroupM * C.groups;
  static constexpr int kMaps = 4;
  static constexpr bool kTurns = C.groups > 1, kUneven = C.causal;
  static_assert(C.block_kv % 16 == 0 && C.dim % 8 == 0);
  using T = elem<C.type>;
  enum { kQ, kK, kV };
  struct Params {
    view<const T, 0> q;
    view<const T, 1> k;
    view<const T, 2> v;
    view<T, 3> out;
    column_view<float> lse;
    float scale_log2;               // scale * log2(e)
    int queries, keys, planes, batches;
    int heads_per_kv;               // query heads that share a head of k and v
    int tiles_q, band;              // heads whose tiles are taken together
    int reserved;
    int* queue;                     // one zeroed counter, where kUneven
  };
  struct QSlot { shared_tile<T, kBlockQ, C.dim, major::k> t; };
  struct KSlot { shared_tile<T, C.block_kv, C.dim, major::k> t; };
  struct VSlot { shared_tile<T, C.block_kv, C.dim, major::mn> t; };
  struct Scratch { store_staging<T, C.store_bufs> out; };
  using Rings = rings<ring<QSlot, 1>, ring<KSlot, C.stages>, ring<VSlot, C.stages>>;
  using Scores = acc<kGroupM, C.block_kv, rows::reduced>;
  using Out = acc<kGroupM, C.dim, rows::reduced>;
  using Weights = operand<T, kGroupM, C.block_kv>;
  struct Tile { coord q; int kv_plane, blocks; };

  WW_FN static int tiles(const Params& p) { return p.tiles_q * p.planes * p.batches; }
  // causal: the longest tiles first; a band of heads keeps its keys in the L2
  WW_FN static Tile tile(const Params& p, int i) {
    tile_index t = banded(i, p.planes * p.batches, p.tiles_q, p.band);
    int row = (C.causal ? p.tiles_q - 1 - t.n : t.n) * kBlockQ;
    int keys = C.causal ? row + kBlockQ + p.keys - p.queries : p.keys;
    keys = keys < 0 ? 0 : keys > p.keys ? p.keys : keys;
    int plane = t.m % p.planes;
    return {{row, 0, plane, t.m / p.planes}, plane / p.heads_per_kv, ceil_div(keys, C.block_kv)};
  }
  // q, k0, (k1, v0), (k2, v1), ..., v_last; blocks of keys from the last to the first
  WW_FN static int items(const Params&, const Tile& t) { return t.blocks ? 1 + 2 * t.blocks : 0; }
  template <class G> WW_FN static void load(G& g, const Params& p, const Tile& t, int i) {
    if (i == 0) {
      g.template fill<kQ>([&](QSlot& s) { g.copy_async(s.t, p.q, t.q); });
      return;
    }
    bool last = i == 2 * t.blocks, is_v = last || (i > 1 && i % 2 == 1);
    int block = is_v ? (last ? i / 2 - 1 : (i - 3) / 2) : i / 2;
    coord at{(t.blocks - 1 - block) * C.block_kv, 0, t.kv_plane, t.q.batch};
    if (is_v) g.template fill<kV>([&](VSlot& s) { g.copy_async(s.t, p.v, at); });
    else g.template fill<kK>([&](KSlot& s) { g.copy_async(s.t, p.k, at); });
  }

  // s -> weights relative to the running maximum; returns what the earlier sums must be scaled by
  template <class G>
  WW_FN static column<kGroupM> softmax_step(G& g, const Params& p, const Tile& t, int block, Scores& s, column<kGroupM>& m, partial<kGroupM>& l) {
    int col0 = block * C.block_kv, last = t.q.row + g.index * kGroupM + p.keys - p.queries;
    if (col0 + C.block_kv > p.keys || (C.causal && col0 + C.block_kv - 1 > last))
      g.map_index(s, [&](float x, int r, int c) { return col0 + c < p.keys && (!C.causal || col0 + c <= last + r) ? x : -INFINITY; });
    column<kGroupM> m_new = g.row_max(s, m);
    float k = p.scale_log2;
    column<kGroupM> base = m_new;
    map(base, [&](float x) { return x == -INFINITY ? 0.f : x * k; });
    column<kGroupM> alpha = zip(m, base, [&](float a, float b) { return ww::exp2(a * k - b); });
    map_rows(s, base, [&](float x, float b) { return ww::exp2(x * k - b); });
    m = m_new;
    scale(l, alpha);
    add_rows(l, s);
    return alpha;
  }
  template <class G> WW_FN static void run(G& g, const Params& p, const Tile& t) {
    Out o;
    zero(o);
    auto m = fill_column<kGroupM>(-INFINITY);
    auto l = zero_partial<kGroupM>();
    if (t.blocks > 0) {
      Scores s;
      auto q = g.template band<kGroupM>(g.template wait<kQ>().t);
      if constexpr (C.overlap) {
        g.mma_async(s, q, transposed(g.template wait<kK>().t), false);
        g.template mma_wait<0>(s);
        g.template release<kK>();
        softmax_step(g, p, t, t.blocks - 1, s, m, l);
        Weights w = as_operand<T>(s);
        const KSlot* k = t.blocks > 1 ? &g.template wait<kK>() : nullptr;
        for (int b = t.blocks - 2; b >= 0; --b) {
          g.turn_take();
          g.mma_async(s, q, transposed(k->t), false);
          g.mma_async(o, w, g.template wait<kV>().t, true);
          g.turn_pass();
          g.template mma_wait<1>(s);
          g.template release<kK>();
          auto alpha = softmax_step(g, p, t, b, s, m, l);
          if (b > 0) k = &g.template wait<kK>();   // asked for before the older batch is waited for: keeps that wait behind the softmax
          g.template mma_wait<0>(o, w);
          g.template release<kV>();
          g.scale_rows(o, alpha);
          w = as_operand<T>(s);
        }
        g.template release<kQ>();
        g.mma_async(o, w, g.template wait<kV>().t, true);
        g.template mma_wait<0>(o, w);
        g.template release<kV>();
      } else {
        for (int b = t.blocks - 1; b >= 0; --b) {
          g.turn_take();
          g.mma_async(s, q, transposed(g.template wait<kK>().t), false);
          g.template mma_wait<0>(s);
          g.turn_pass();
          g.template release<kK>();
          auto alpha = softmax_step(g, p, t, b, s, m, l);
          g.scale_rows(o, alpha);
          Weights w = as_operand<T>(s);
          g.mma_async(o, w, g.template wait<kV>().t, true);
          g.template mma_wait<0>(o, w);
          g.template release<kV>();
        }
        g.template release<kQ>();
      }
    }
    auto sum = g.total(l);
    auto inv = sum;
    map(inv, [](float x) { return x > 0.f ? ww::reciprocal(x) : x; });   // 0 stays 0; NaN stays NaN
    g.scale_rows(o, inv);
    constexpr float kLn2 = 0.6931471805599453f;
    auto lse = zip(m, sum, [&](float a, float b) { return b == 0.f ? -INFINITY : (a * p.scale_log2 + ww::log2(b)) * kLn2; });
    g.store_column(p.lse, t.q, lse);
    g.store(p.out, t.q, o, g.scratch().out);
  }
};
}  // namespace ww

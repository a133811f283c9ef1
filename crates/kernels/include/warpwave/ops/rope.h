// Rotary position embedding: pairs of channels turned by angles of which a table holds cosines and sines.  Halves: (i, i + apart), the tables one
// row of cosines and one of sines for each position.  Neighbours: (2i, 2i + 1), the table one row of pairs.  The backward turns the other way.
//
// A program has one tile of some heads of one position, of channels that turn or, after all tiles of those, that stay as they are.
#pragma once
#include <warpwave/tile/rows.h>
namespace ww {
struct RopeConfig {
  dtype type;
  int threads, groups = 1, chunks, vec;
  bool pairs;   // neighbours
  bool dense;   // channels lie side by side, and every span of them begins on 16 bytes
};
template <RopeConfig C> struct Rope {
  static constexpr RowShape kShape{.threads = C.threads, .groups = C.groups, .chunks = C.chunks, .vec = C.vec, .wide = C.type == dtype::f64};
  static_assert(C.vec % 2 == 0);
  static constexpr rows_lie kLie = C.dense ? rows_lie::whole : rows_lie::anyhow;
  using T = elem<C.type>;
  using R = real<kShape>;
  struct Params {
    rows_view<const T> x;
    rows_view<T> out;
    rows_view<const R> cos, sin;   // row: a position; of stride 1.  Neighbours: cos has all
    row_space space;               // outer: batch, position, head
    index_view pos;                // row of the table, or null: batch * batch_rows + position + first
    int32_t* error;
    int64_t first, limit, batch_rows;   // limit: rows of the table
    int64_t half, apart;                // pairs; distance of their channels, 0 for neighbours
    int64_t slices, tiles, parts, programs;   // a position has `slices` sets of heads, each `parts` programs, the first `tiles` of which turn
    int backward;
    int gathered;      // the tables lie by position, whatever pos says
    int by_position;   // positions run faster over programs than slices
    int operand;       // number of pos
  };
  struct part { int64_t whole, rest; };
  WW_FN static part divide(int64_t a, int64_t n) {
    if (((a | n) >> 31) == 0) {
      uint32_t q = uint32_t(a) / uint32_t(n);
      return {int64_t(q), int64_t(uint32_t(a) - q * uint32_t(n))};
    }
    return {a / n, a % n};
  }
  // Channels [from, from + n) of a head.  Strides in terms of the head: what depends on them alone is computed ahead of the loop over heads, for
  // elements that go one by one too, and took 128 registers (nvcc 13.5)
  template <class P> WW_FN static span<P> channels(const rows_view<P>& v, P* base, int64_t head, int64_t from, int64_t n) {
    const int64_t stride = C.dense ? 1 : v.stride + (head < 0 ? 1 : 0);
    return {base + head * v.outer[2] + from * stride, n, stride};
  }
  WW_FN static span<const R> entry(const rows_view<const R>& v, int64_t row, int64_t n) { return {v.p + row * v.outer[2], n, 1}; }
  template <class G> WW_FN static void run(G& g, const Params& p, int64_t program) {
    const int64_t positions = p.space.outer[1], heads = p.space.outer[2];
    part o{program, 0};
    if (p.parts > 1) o = divide(program, p.parts);
    const int64_t fast = p.by_position ? positions : p.slices, slow = p.by_position ? p.slices : positions;
    part a = divide(o.whole, fast), b{0, a.whole};
    if (a.whole >= slow) b = divide(a.whole, slow);
    const int64_t batch = b.whole, l = p.by_position ? a.rest : b.rest, slice = p.by_position ? b.rest : a.rest;
    const bool turns = o.rest < p.tiles;
    const int64_t i = turns ? o.rest : o.rest - p.tiles, at = batch * p.batch_rows + l;
    const T* x = p.x.p + batch * p.x.outer[0] + l * p.x.outer[1];
    T* out = p.out.p + batch * p.out.outer[0] + l * p.out.outer[1];
    int64_t row = at + p.first;
    if (turns && p.pos.p) row = p.pos.at(at);
    const bool known = row >= 0 && row < p.limit;
    if (turns && !known) report(p.error, p.operand);
    if (p.gathered) row = at;
    if constexpr (C.pairs) {
      const int64_t rest = 2 * p.half, from = turns ? 0 : rest, n = turns ? rest : p.space.n - rest;
      auto t = g.tiling(channels(p.out, out, slice, from, n));
      t.lead &= ~1;   // so that no pair is parted
      if (i >= t.count()) return;
      if (turns && known) {
        auto c = g.load(t, i, entry(p.cos, row, n), 0);
        for (int64_t h = slice; h < heads; h += p.slices) {
          auto v = g.load(t, i, channels(p.x, x, h, from, n), 0);
          g.runs(t, i, v, c, [&](R* v, R* w, int64_t) {
            for (int e = 0; e < G::kRun; e += 2) {
              R sine = p.backward ? -w[e + 1] : w[e + 1], u = v[e] * w[e] - v[e + 1] * sine;
              v[e + 1] = v[e + 1] * w[e] + v[e] * sine;
              v[e] = u;
            }
          });
          g.store(t, i, channels(p.out, out, h, from, n), v);
        }
      } else {
        for (int64_t h = slice; h < heads; h += p.slices) {
          auto v = g.load(t, i, channels(p.x, x, h, from, n), 0);
          g.store(t, i, channels(p.out, out, h, from, n), v);
        }
      }
    } else {
      // two spans of a head
      const int64_t from = turns ? 0 : p.half, to = p.apart + from;
      const int64_t n = turns ? p.half : p.apart - p.half, m = turns ? p.half : p.space.n - to;
      auto t = g.tiling(n > 0 ? channels(p.out, out, slice, from, n) : channels(p.out, out, slice, to, m));
      t.n = n > m ? n : m;
      if (i >= t.count()) return;
      if (turns && known) {
        auto c = g.load(t, i, entry(p.cos, row, n), 0);
        auto s = g.load(t, i, entry(p.sin, row, n), 0);
        if (p.backward) map(s, [](R a) { return -a; });
        for (int64_t h = slice; h < heads; h += p.slices) {
          auto v = g.load(t, i, channels(p.x, x, h, from, n), 0);
          auto w = g.load(t, i, channels(p.x, x, h, to, n), 0);
          turn(v, w, c, s);
          g.store(t, i, channels(p.out, out, h, from, n), v);
          g.store(t, i, channels(p.out, out, h, to, n), w);
        }
      } else {
        for (int64_t h = slice; h < heads; h += p.slices) {
          auto v = g.load(t, i, channels(p.x, x, h, from, n), 0);
          auto w = g.load(t, i, channels(p.x, x, h, to, m), 0);
          g.store(t, i, channels(p.out, out, h, from, n), v);
          g.store(t, i, channels(p.out, out, h, to, m), w);
        }
      }
    }
  }
  template <class V> WW_FN static void turn(V& a, V& b, const V& c, const V& s) {
    V u = a, v = b;
    zip(u, c, [](R q, R w) { return q * w; });
    zip(v, s, [](R q, R w) { return q * w; });
    zip(u, v, [](R q, R w) { return q - w; });
    zip(b, c, [](R q, R w) { return q * w; });
    zip(a, s, [](R q, R w) { return q * w; });
    zip(b, a, [](R q, R w) { return q + w; });
    a = u;
  }
};
}  // namespace ww

// Row and elementwise ops: what they see of device memory, shared by every target.
//
// A row op is a policy struct:
//   static constexpr RowShape kShape        threads and rows of a block, elements a thread holds
//   struct Params { ...; int64_t programs; }    programs: how many times run is called, once for each row or stretch
//   template <class G> static void run(G& g, const Params& p, int64_t program)
// run is called by a *row group*: the threads that own one row (a warp, a block, or a cluster of blocks: the target decides from kShape
// and the launch). Groups never meet; an op names no thread.
// It may add
//   static constexpr bool kSpans        several programs may share a row: rank() of span(); false where it is left out
//   static constexpr int kThreadsPerUnit    how many threads a multiprocessor should hold at least; left out: as many as the compiler sees fit
//   static constexpr int kRing          how many tiles of coming programs a group may have under way or in work; 0: none
//   template <class G> static void fetch(G& g, const Params& p, int64_t program)
// fetch names, by g.fetch(t, s), the span of which run(g, p, program) will load tile g.rank(), tiled by itself, once, and nothing else. A target
// that can runs it early, on one thread; others ignore it. No run writes what another fetches. A plan gives such an op rows of stride 1 that
// lie alike (one distance from 16 bytes) where it reads and where it writes.
//
// real<kShape> is float, or double where kShape.wide.
//
// The group offers (bodies in <warpwave/target/rows.h>):
//   g.rank(), g.span()                  which part of a row that several programs share, of how many (0 of 1 elsewhere)
//   g.tiling(s)  -> row_tiling          cuts span s into tiles of kShape's size so that each begins on a 16-byte address of s
//   g.load(t, i, s, other) -> values    tile i of span s; `other` (a value of s's type) where the tile sticks out. s need not be the span that was tiled
//   load and store also take a dense_span, tiled from its first element on (row_tiling{n, 0, the size of a tile}): one way to it, few registers
//   g.fetch(t, s)                       asks for tile g.rank() of span s ahead of run (in fetch alone)
//   g.store(t, i, s, values)            writes what lies inside s; converts to s's type, nearest even
//   g.max(values), g.sum(values)        over the whole group (and the cluster), the same bits in every thread; max passes NaN over
//   g.max(lanes), g.sum(lanes)
//   max_sum(g, m, l, scale) -> {max, sum}   maximum of lanes m, and sum of lanes l that are each measured from their own m: of
//     l * scale(m, max), in the order of a sum. Blocks of a cluster each sum by their own maximum first, so that one exchange will do.
//     Order of a sum, the same everywhere: a thread's own elements from the first on (run c of thread t begins at (c*threads + t)*vec of the
//     tile); lanes of a warp (of a smaller group) by x += x of lane^o, o = half the width down to 1; warps, then blocks of a cluster, in
//     index order from the first on.
//   g.runs(t, i, v, f)                  f(x, at) for each run of kShape.vec neighbours of v = tile i: x[0 .. vec) may be read and written, x[0] is
//                                       element number `at` of the span (negative, or beyond its end, where the tile sticks out)
//   g.runs(t, i, v, w, f)               f(x, y, at) over two values
//   G::kScalarMasks                     there only where masks of lanes live in scalar registers, of which a loop over rows can run out
//   g.put(p, x)                         *p = x by one thread of the group, converted to p's type; of a cluster's blocks, rank 0 alone
//   values: map(v, f), zip(v, w, f)     elementwise, in place / into v. map(v, l, f): f(x, lane value)
//   lanes: one float per thread         g.lanes(x) makes one; fold(l, v, f): l = f(l, x) over a thread's own elements in order;
//                                       zip(l, k, f). fold(l, v, k, f): f(l, x, k)
#pragma once
#include <warpwave/tile/types.h>
namespace ww {

struct RowShape {
  int threads;      // threads of a row group; a multiple of the warp width, or a divisor of it
  int groups = 1;   // row groups of a block: several short rows share one
  int chunks = 1;   // runs of `vec` neighbours that a thread holds of a tile
  int vec = 4;      // elements of such a run; 16 bytes of the narrowest operand
  bool wide = false;   // values and sums are float64, not float32; the host alone has such
  constexpr int tile() const { return threads * chunks * vec; }
};

// What values, lanes and reductions hold.
template <RowShape S> using real = pick_t<S.wide, double, float>;

// A row: n elements, `stride` apart.
template <class T> struct span { T* p; int64_t n, stride; };
// A row of which a plan promises that its elements are neighbours from 16 bytes on, whole runs of them.
template <class T> struct dense_span { T* p; int64_t n; };
// Tile i covers elements [i*size - lead, (i+1)*size - lead) of a span of n.
struct row_tiling {
  int64_t n;
  int lead, size;
  WW_FN int64_t count() const { return (n + lead + size - 1) / size; }
  WW_FN int64_t first(int64_t i) const { return i * size - lead; }
};

// Rows of an operand, in the argument block: up to three outer dims (slowest first), element strides.
template <class T> struct rows_view { T* p; int64_t stride, outer[3]; };
struct row_space { int64_t n, outer[3]; };   // width, extents of the outer dims; their product is the number of rows
template <class T> WW_FN span<T> row_of(const rows_view<T>& v, const row_space& s, int64_t r) {
  int64_t a = 0, b = 0, c = r;
  if (r >= s.outer[2]) {   // 64-bit divisions, for those who need them
    c = r % s.outer[2];
    b = r / s.outer[2] % s.outer[1];
    a = r / s.outer[2] / s.outer[1];
  }
  return {v.p + a * v.outer[0] + b * v.outer[1] + c * v.outer[2], s.n, v.stride};
}

// Rows one after the other: row_of without a division for each
struct row_walk {
  int64_t a, b, c;
  WW_FN row_walk(const row_space& s, int64_t r) : a(0), b(0), c(r) {
    if (r >= s.outer[2]) {
      c = r % s.outer[2];
      b = r / s.outer[2] % s.outer[1];
      a = r / s.outer[2] / s.outer[1];
    }
  }
  WW_FN void next(const row_space& s) {
    if (++c < s.outer[2]) return;
    c = 0;
    if (++b < s.outer[1]) return;
    b = 0;
    ++a;
  }
  template <class T> WW_FN span<T> of(const rows_view<T>& v, const row_space& s) const {
    return {v.p + a * v.outer[0] + b * v.outer[1] + c * v.outer[2], s.n, v.stride};
  }
};

template <class R> struct row_max_sum { R max, sum; };
template <class G, class L, class F> WW_FN auto max_sum(G& g, const L& m, const L& l, F scale) {
  if constexpr (requires { g.max_sum(m, l, scale); }) {
    return g.max_sum(m, l, scale);
  } else {
    auto top = g.max(m);
    using R = decltype(top);
    L own = l;
    zip(own, m, [&](R s, R a) { return s * scale(a, top); });
    return row_max_sum<R>{top, g.sum(own)};
  }
}

// Tile i of row r of an operand that is of type T, or of float32 where `is_f32` says so
template <class G, class T> WW_FN auto load_mixed(G& g, const row_tiling& t, int64_t i, const rows_view<const T>& v, const row_space& s, int64_t r,
                                                 int is_f32, float other) {
  if constexpr (sizeof(T) < 4) {
    if (is_f32) {
      rows_view<const float> w{reinterpret_cast<const float*>(v.p), v.stride, {v.outer[0], v.outer[1], v.outer[2]}};
      return g.load(t, i, row_of(w, s, r), other);
    }
  }
  return g.load(t, i, row_of(v, s, r), other);
}
// Sets to 0 what of tile i lies outside its span
template <class G, class V> WW_FN void clear_outside(G& g, const row_tiling& t, int64_t i, V& v) {
  if (t.first(i) >= 0 && t.first(i) + t.size <= t.n) return;
  g.runs(t, i, v, [&](auto* x, int64_t at) {
    for (int e = 0; e < G::kRun; ++e) x[e] = at + e >= 0 && at + e < t.n ? x[e] : 0;
  });
}

// Reports an index that lay out of range in operand `operand` (its number in the op's signature).
WW_FN void report(int32_t* error, int operand) {
  if (error != nullptr) ww::store_relaxed(error, operand + 1);
}

// Program i of rows that `stretches` programs share
struct row_part { int64_t row, stretch; };
WW_FN row_part part_of(int64_t i, int64_t stretches) {
  if (i < stretches) return {0, i};
  if (stretches == 1) return {i, 0};
  return {i / stretches, i % stretches};
}

}  // namespace ww

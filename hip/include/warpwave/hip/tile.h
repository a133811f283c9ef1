// Tile types and primitives on AMD; the matrix instructions are the target's (<warpwave/target/matrix.h>):
//   cell                                 a lane's eight values of 16 x kCellCols: get(i), set(i, x)
//   kStepK                               k that one step covers
//   fragment<T>                          a lane's part of 16 rows x kStepK of the left operand
//   opaque(i)                            a thread's number, so that addresses are computed from it anew, or not
//   load_fragment<T>(tile, row, step, lane)   the rows from `row` on
//   multiply<T>(cells, fragments, tile, row, step, lane)   cells[m][n] += fragment m times the tile's rows from row + n*kCellCols on
//   as_fragment<T>(cells)                kStepK columns of an accumulator as left operand
//   waves_for(rows)                      waves of a block whose group owns so many rows
// A batch is complete when mma_async returns: mma_wait costs nothing, and an op's `lag` is best 0.
#pragma once
#include <warpwave/hip/layout.h>
#include <warpwave/tile/tile.h>
namespace ww {
namespace hip {
constexpr int kParts = kWave / 16, kCellCols = 8 * kParts;
constexpr int round_up(int a, int b) { return (a + b - 1) / b * b; }
WW_FN int lane_id() { return thread_id() % kWave; }
WW_FN int wave_id() { return __builtin_amdgcn_readfirstlane(thread_id() / kWave) & 15; }   // the mask tells the compiler that signs and high bits are 0
}  // namespace hip
}  // namespace ww
#include <warpwave/target/matrix.h>
namespace ww {

// R x C elements; kept with k contiguous: an mn-major tile is turned while it is written.  What pads k to whole steps and rows to whole
// cells holds zeros.
template <class T, int R, int C, major W> struct shared_tile {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4);
  using element = T;
  static constexpr int kRows = R, kCols = C, kMN = W == major::k ? R : C, kK = W == major::k ? C : R;
  static constexpr bool kTurned = W == major::mn;
  static constexpr int kPer = 16 / sizeof(T);
  static constexpr int kStoreMN = hip::round_up(kMN, 32), kStoreK = hip::round_up(kK, 32);
  static constexpr int kChunks = kStoreK / kPer;
  static constexpr bool kPadded = kStoreMN != kMN || kStoreK != kK;
  alignas(16) T data[kStoreMN * kStoreK];
  WW_FN auto chunk(int row, int c) const { return (WW_LDS hip::uint4*)data + hip::chunk_index(row, c, kChunks); }
  // element (row, k) and what follows it in its chunk
  WW_FN auto at(int row, int k) const { return (WW_LDS T*)chunk(row, k / kPer) + k % kPer; }
};
template <class Tile> struct shared_band { const Tile& t; };
template <class T, int kBufs> struct store_staging {};   // stores go straight from registers: a lane holds 8 neighbours of a row

// reduced: waves one above the other, each with whole rows; free: a grid of waves two high
template <int M, int N, rows U> struct acc {
  static constexpr int kWaves = hip::waves_for(M), kDown = U == rows::reduced ? kWaves : 2, kAcross = kWaves / kDown;
  static constexpr int kWaveM = M / kDown, kWaveN = hip::round_up(N, hip::kCellCols * kAcross) / kAcross;
  static constexpr int kM = kWaveM / 16, kN = kWaveN / hip::kCellCols;
  static_assert(M % (16 * kDown) == 0, "whole cells of rows for every wave");
  static_assert(U == rows::reduced || N % (hip::kCellCols * kAcross) == 0, "whole cells of columns for every wave");
  hip::cell d[kM][kN];
  // A start value that costs nothing keeps the compiler from carrying the last tile's sums, in registers of their own, to this one.
  WW_FN acc() {
#pragma unroll
    for (auto& r : d)
#pragma unroll
      for (auto& c : r) c = {};
  }
  // row and column of this lane's first element of cell (0, 0)
  WW_FN static int row() { return hip::wave_id() / kAcross * kWaveM + hip::lane_id() % 16; }
  WW_FN static int wave_col() { return kAcross == 1 ? 0 : hip::wave_id() % kAcross * kWaveN; }
  WW_FN static int col() { return wave_col() + hip::lane_id() / 16 * 8; }
};
template <int M> constexpr int kColumn = M / hip::waves_for(M) / 16;
template <int M> struct column { float x[kColumn<M>]; };    // a row's value in each of the lanes that share the row
template <int M> struct partial { float x[kColumn<M>]; };   // what this lane's columns add up to
template <class T, int M, int K> struct operand {
  static constexpr int kSteps = (K + hip::kStepK - 1) / hip::kStepK;
  hip::fragment<T> f[kColumn<M>][kSteps];
};

template <int M, int N, rows U, class F> WW_FN void map(acc<M, N, U>& a, F f) {
#pragma unroll
  for (auto& r : a.d)
#pragma unroll
    for (auto& c : r)
#pragma unroll
      for (int i = 0; i < 8; ++i) c.set(i, f(c.get(i)));
}
template <int M, int N, rows U> WW_FN void zero(acc<M, N, U>& a) { map(a, [](float) { return 0.f; }); }
template <int M, int N, class F> WW_FN void map_rows(acc<M, N, rows::reduced>& a, const column<M>& v, F f) {
#pragma unroll
  for (int m = 0; m < kColumn<M>; ++m)
#pragma unroll
    for (auto& c : a.d[m])
#pragma unroll
      for (int i = 0; i < 8; ++i) c.set(i, f(c.get(i), v.x[m]));
}
template <int M, class F> WW_FN void map(column<M>& v, F f) {
#pragma unroll
  for (float& x : v.x) x = f(x);
}
template <int M, class F> WW_FN column<M> zip(const column<M>& a, const column<M>& b, F f) {
  column<M> r;
#pragma unroll
  for (int m = 0; m < kColumn<M>; ++m) r.x[m] = f(a.x[m], b.x[m]);
  return r;
}
template <int M> WW_FN column<M> fill_column(float x) {
  column<M> r;
#pragma unroll
  for (float& y : r.x) y = x;
  return r;
}
template <int M> WW_FN partial<M> zero_partial() {
  partial<M> r;
#pragma unroll
  for (float& y : r.x) y = 0.f;
  return r;
}
template <int M, int N> WW_FN void add_rows(partial<M>& p, const acc<M, N, rows::reduced>& a) {
  static_assert(N % hip::kCellCols == 0, "no columns beyond the tile");
#pragma unroll
  for (int m = 0; m < kColumn<M>; ++m)
#pragma unroll
    for (auto& c : a.d[m])
#pragma unroll
      for (int i = 0; i < 8; ++i) p.x[m] += c.get(i);
}
template <int M> WW_FN void scale(partial<M>& p, const column<M>& c) {
#pragma unroll
  for (int m = 0; m < kColumn<M>; ++m) p.x[m] *= c.x[m];
}
template <class T, int M, int N> WW_FN operand<T, M, N> as_operand(const acc<M, N, rows::reduced>& a) {
  static_assert(N % hip::kStepK == 0 && hip::kStepK == hip::kCellCols, "a cell is a step");
  operand<T, M, N> r;
#pragma unroll
  for (int m = 0; m < kColumn<M>; ++m)
#pragma unroll
    for (int k = 0; k < N / hip::kStepK; ++k) r.f[m][k] = hip::as_fragment<T>(a.d[m][k]);
  return r;
}

namespace hip {
// Eight neighbours of a row, n of them inside; at any address (base.h: anywhere).
template <class T> WW_FN void store8(WW_GLOBAL T* p, const cell& c, int n) {
  if (n >= 8) {
    if constexpr (sizeof(T) == 2) {
      uint4 w;
#pragma unroll
      for (int i = 0; i < 4; ++i) w[i] = pack<T>(c.get(2 * i), c.get(2 * i + 1));
      ((WW_GLOBAL anywhere<16>*)p)->w = w;
    } else {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        uint4 w;
#pragma unroll
        for (int i = 0; i < 4; ++i) w[i] = __builtin_bit_cast(uint32_t, c.get(h * 4 + i));
        ((WW_GLOBAL anywhere<16>*)p)[h].w = w;
      }
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i)
    if (i < n) {
      if constexpr (sizeof(T) == 2) ((WW_GLOBAL uint16_t*)p)[i] = from_float<T>(c.get(i)).bits;
      else p[i] = c.get(i);
    }
}
// f(x, element) for the elements inside
template <class T, class F> WW_FN void zip8(cell& c, WW_GLOBAL const T* p, int n, F f) {
  if (n >= 8) {
    if constexpr (sizeof(T) == 2) {
      uint4 w = ((WW_GLOBAL const anywhere<16>*)p)->w;
#pragma unroll
      for (int i = 0; i < 8; ++i) c.set(i, f(c.get(i), to_float(T{uint16_t(w[i / 2] >> (16 * (i % 2)))})));
    } else {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        uint4 w = ((WW_GLOBAL const anywhere<16>*)p)[h].w;
#pragma unroll
        for (int i = 0; i < 4; ++i) c.set(h * 4 + i, f(c.get(h * 4 + i), __builtin_bit_cast(float, uint32_t(w[i]))));
      }
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i)
    if (i < n) {
      if constexpr (sizeof(T) == 2) c.set(i, f(c.get(i), to_float(T{((WW_GLOBAL const uint16_t*)p)[i]})));
      else c.set(i, f(c.get(i), p[i]));
    }
}
template <class T> struct plain { using type = T; };
template <class T> struct plain<const T> { using type = T; };

template <class A, class F> WW_FN void each_cell(A& a, F f) {   // f(cell, row, col): where this lane's part of the cell begins
  int row = A::row(), col = A::col();
#pragma unroll
  for (int m = 0; m < A::kM; ++m)
#pragma unroll
    for (int n = 0; n < A::kN; ++n) f(a.d[m][n], row + m * 16, col + n * kCellCols);
}

struct group {
  static constexpr int index = 0;
  template <int M, class Tile> WW_FN shared_band<Tile> band(const Tile& t) const {
    static_assert(M == Tile::kMN && !Tile::kTurned, "one group owns the whole tile");
    return {t};
  }
  template <int M, class Tile> WW_FN shared_band<Tile> band_cols(const Tile& t) const {
    static_assert(M == Tile::kMN && Tile::kTurned, "one group owns the whole tile");
    return {t};
  }
  template <class Tile> WW_FN shared_band<Tile> whole(const Tile& t) const { return {t}; }

  template <int M, int N, rows U, class Tile, class B> WW_FN void mma_async(acc<M, N, U>& d, shared_band<Tile> a, const B& b, bool accumulate) const {
    using A = acc<M, N, U>;
    using T = typename Tile::element;
    const auto& tile = right(b);
    using Right = plain_tile<decltype(tile)>;
    static_assert(Tile::kMN == M && Right::kMN == N && Tile::kK == Right::kK);
    if (!accumulate) zero(d);
    int m0 = wave_id() / A::kAcross * A::kWaveM, n0 = A::wave_col(), lane = opaque(lane_id()) & (kWave - 1);
#pragma unroll
    for (int k = 0; k < (Tile::kK + kStepK - 1) / kStepK; ++k) {
      fragment<T> f[A::kM];
#pragma unroll
      for (int m = 0; m < A::kM; ++m) f[m] = load_fragment<T>(a.t, m0 + m * 16, k, lane);
      multiply<T>(d.d, f, tile, n0, k, lane);
    }
  }
  template <int M, int N, class T, int K, class B>
  WW_FN void mma_async(acc<M, N, rows::reduced>& d, const operand<T, M, K>& a, const B& b, bool accumulate) const {
    constexpr int kM = kColumn<M>;
    const auto& tile = right(b);
    using Right = plain_tile<decltype(tile)>;
    static_assert(Right::kMN == N && Right::kK == K);
    if (!accumulate) zero(d);
    int lane = opaque(lane_id()) & (kWave - 1);
#pragma unroll
    for (int k = 0; k < operand<T, M, K>::kSteps; ++k) {
      fragment<T> f[kM];
#pragma unroll
      for (int m = 0; m < kM; ++m) f[m] = a.f[m][k];
      multiply<T>(d.d, f, tile, 0, k, lane);
    }
  }
  template <int kInFlight, class... A> WW_FN void mma_wait(A&...) const {}
  template <class Tile> WW_FN auto load_operand(shared_band<Tile> a) const {
    using T = typename Tile::element;
    operand<T, Tile::kMN, Tile::kK> r;
    int m0 = wave_id() * (Tile::kMN / waves_for(Tile::kMN)), lane = opaque(lane_id()) & (kWave - 1);
#pragma unroll
    for (int m = 0; m < kColumn<Tile::kMN>; ++m)
#pragma unroll
      for (int k = 0; k < r.kSteps; ++k) r.f[m][k] = load_fragment<T>(a.t, m0 + m * 16, k, lane);
    return r;
  }
  // k-major: 16 bytes at a time; a tile kept turned takes two bytes at a time
  template <class Tile, int M, int N, rows U> WW_FN void put(Tile& t, acc<M, N, U>& a) const {
    static_assert(Tile::kRows == M && Tile::kCols == N);
    using T = typename Tile::element;
    barrier();   // the last reader of the tile has gone
    each_cell(a, [&](cell& c, int row, int col) {
      if constexpr (!Tile::kTurned) {
        if (col >= Tile::kStoreK) return;
        if constexpr (sizeof(T) == 2) {
          uint4 w;
#pragma unroll
          for (int i = 0; i < 4; ++i) w[i] = pack<T>(col + 2 * i < N ? c.get(2 * i) : 0.f, col + 2 * i + 1 < N ? c.get(2 * i + 1) : 0.f);
          *t.chunk(row, col / 8) = w;
        } else {
#pragma unroll
          for (int i = 0; i < 8; ++i) *t.at(row, col + i) = col + i < N ? c.get(i) : 0.f;
        }
      } else {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          if (col + i >= Tile::kStoreMN) continue;
          if constexpr (sizeof(T) == 2) *(WW_LDS uint16_t*)t.at(col + i, row) = from_float<T>(c.get(i)).bits;
          else *t.at(col + i, row) = c.get(i);
        }
      }
    });
    barrier();
  }

  template <class T, int kMap, int M, int N, rows U> WW_FN void store_direct(const view<T, kMap>& v, coord at, acc<M, N, U>& a) const {
    auto base = (WW_GLOBAL T*)v.at(at.batch, at.plane, 0, 0);
    int right = v.cols - at.col < N ? v.cols - at.col : N;   // columns of the tile that exist
    each_cell(a, [&](cell& c, int row, int col) {
      if (at.row + row < v.rows) store8(base + (at.row + row) * v.row_stride + (at.col + col), c, right - col);
    });
  }
  template <class T, int kMap, int M, int N, rows U, class S> WW_FN void store(const view<T, kMap>& v, coord at, acc<M, N, U>& a, S&) const {
    store_direct(v, at, a);
  }
  template <class T, int kMap, int M, int N, rows U, class F> WW_FN void zip_view(acc<M, N, U>& a, const view<T, kMap>& v, coord at, F f) const {
    using E = typename plain<T>::type;
    auto base = (WW_GLOBAL const E*)v.at(at.batch, at.plane, 0, 0);
    int right = v.cols - at.col < N ? v.cols - at.col : N;
    each_cell(a, [&](cell& c, int row, int col) {
      if (at.row + row < v.rows) zip8<E>(c, base + (at.row + row) * v.row_stride + (at.col + col), right - col, f);
    });
  }
  template <class T, int M> WW_FN void store_column(const column_view<T>& v, coord at, const column<M>& c) const {
    auto base = (WW_GLOBAL T*)(v.p + at.batch * v.batch_stride + at.plane * v.plane_stride);
    int row = at.row + wave_id() * (M / waves_for(M)) + lane_id();
#pragma unroll
    for (int m = 0; m < kColumn<M>; ++m)
      if (lane_id() < 16 && row + m * 16 < v.rows) base[row + m * 16] = c.x[m];
  }
  template <int M, int N, rows U, class F> WW_FN void map_index(acc<M, N, U>& a, F f) const {
    each_cell(a, [&](cell& c, int row, int col) {
#pragma unroll
      for (int i = 0; i < 8; ++i) c.set(i, f(c.get(i), row, col + i));
    });
  }
  template <int M, int N> WW_FN column<M> row_max(const acc<M, N, rows::reduced>& a, const column<M>& first) const {
    static_assert(N % kCellCols == 0, "no columns beyond the tile");
    column<M> r;
#pragma unroll
    for (int m = 0; m < kColumn<M>; ++m) {
      float x = a.d[m][0].get(0);
#pragma unroll
      for (auto& c : a.d[m])
#pragma unroll
        for (int i = 0; i < 8; ++i) x = ww::max(x, c.get(i));
      r.x[m] = ww::max(first.x[m], over_row(x, [](float p, float q) { return ww::max(p, q); }));
    }
    return r;
  }
  template <int M> WW_FN column<M> total(const partial<M>& p) const {
    column<M> r;
#pragma unroll
    for (int m = 0; m < kColumn<M>; ++m) r.x[m] = over_row(p.x[m], [](float a, float b) { return a + b; });
    return r;
  }
  template <int M, int N> WW_FN void scale_rows(acc<M, N, rows::reduced>& a, const column<M>& v) const {
    map_rows(a, v, [](float x, float s) { return x * s; });
  }
  WW_FN void turn_take() const {}
  WW_FN void turn_pass() const {}

 private:
  template <class Tile> struct strip;
  template <class Tile> struct strip<const Tile&> { using type = Tile; };
  template <class Tile> using plain_tile = typename strip<Tile>::type;
  template <class T, int R, int C, major W> WW_FN static const shared_tile<T, R, C, W>& right(const shared_tile<T, R, C, W>& t) {
    static_assert(W == major::mn, "a right operand [k][n] is read along its rows: major::mn");
    return t;
  }
  template <class Tile> WW_FN static const Tile& right(transposed_tile<Tile> t) {
    static_assert(!Tile::kTurned, "a transposed right operand [n][k] is read along its columns: major::k");
    return t.t;
  }
  // the lanes that share a row: 16 apart
  template <class F> WW_FN static float over_row(float x, F f) {
    if constexpr (kWave == 64) x = f(x, lane_xor<32>(x));
    return f(x, lane_xor<16>(x));
  }
};
}  // namespace hip
}  // namespace ww

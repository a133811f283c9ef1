// Tile types and primitives: cp.async, ldmatrix, mma.sync (16-bit types); FFMA out of shared memory (float32).
#pragma once
#include <warpwave/target/layout.h>
#include <warpwave/target/ptx.h>
#include <warpwave/tile/tile.h>
namespace ww {

template <class T, int R, int C, major U = major::k> struct shared_tile {
  static_assert(C % 8 == 0);
  using element = T;
  static constexpr int kRows = R, kCols = C, kChunks = sm80::row_chunks(C, sizeof(T)), kPitch = kChunks * 16, kVec = 16 / int(sizeof(T));
  static constexpr major kUse = U;
  alignas(128) T data[R * kChunks * kVec];
  WW_FN uint32_t address(int row, int chunk) const { return sm80::shared_address(data) + sm80::chunk_at<kChunks>(row, chunk) * 16; }
};
template <class T, int kBufs> struct store_staging {};   // a store exchanges within a warp

template <class Tile> struct left_rows { const Tile& t; };   // rows of a tile, columns of a tile as left operand
template <class Tile> struct left_cols { const Tile& t; };

namespace sm80 {
// operands of one 16-wide step of a warp's tile
template <int kM, int kN> struct step { uint32_t a[kM][4], b[(kN + 1) / 2][4]; };
}  // namespace sm80

// A step may be multiplied only when the batch after it begins, under that batch's first loads: `late`, 0 unless pending.
template <int M, int N, rows U> struct acc {
  static constexpr sm80::warp_grid kGrid = sm80::grid_of(M, N, U == rows::reduced);
  static constexpr int kM = M / (16 * kGrid.m), kN = N / (8 * kGrid.n);
  static constexpr bool kLate = U == rows::free;
  static_assert(kM * 16 * kGrid.m == M && kN * 8 * kGrid.n == N);
  float d[kM][kN][4];
  sm80::step<kM, kN> late;
  enum { kNothing, kBf16, kF16 } pending = kNothing;
};
template <class T, int M, int K> struct operand {   // fragments of a; float32: elements as in an accumulator
  static constexpr int kM = M / (16 * sm80::grid_of(M, K, true).m);
  uint32_t r[kM][(K + 15) / 16][4];
};
template <int M, int K> struct operand<float, M, K> {
  static constexpr int kM = M / (16 * sm80::grid_of(M, K, true).m);
  float r[kM][K / 8][4];
};
template <int M> constexpr int kColumnTiles = M / (16 * sm80::grid_of(M, 8, true).m);
template <int M> struct column { float v[kColumnTiles<M>][2]; };
template <int M> struct partial { float v[kColumnTiles<M>][2]; };

namespace sm80 {
template <int M, int N, rows U, class F> WW_FN void each(acc<M, N, U>& a, F f) {   // f(x, m, n, i)
#pragma unroll
  for (int m = 0; m < a.kM; ++m)
#pragma unroll
    for (int n = 0; n < a.kN; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) f(a.d[m][n][i], m, n, i);
}
template <int M, int N, rows U> WW_FN void clear_late(acc<M, N, U>& a) {
  a.pending = a.kNothing;
  if constexpr (acc<M, N, U>::kLate) {
#pragma unroll
    for (auto& f : a.late.a)
#pragma unroll
      for (uint32_t& x : f) x = 0;
#pragma unroll
    for (auto& f : a.late.b)
#pragma unroll
      for (uint32_t& x : f) x = 0;
  }
}
template <class C, class F> WW_FN void each_row(C& c, F f) {
#pragma unroll
  for (int m = 0; m < int(sizeof(c.v) / sizeof(c.v[0])); ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h) f(c.v[m][h], m, h);
}
}  // namespace sm80

// ---- values
template <int M, int N, rows U, class F> WW_FN void map(acc<M, N, U>& a, F f) {
  sm80::each(a, [&](float& x, int, int, int) { x = f(x); });
}
template <int M, int N, rows U> WW_FN void zero(acc<M, N, U>& a) {
  map(a, [](float) { return 0.f; });
  sm80::clear_late(a);
}
template <int M, int N, class F> WW_FN void map_rows(acc<M, N, rows::reduced>& a, const column<M>& c, F f) {
  sm80::each(a, [&](float& x, int m, int, int i) { x = f(x, c.v[m][i / 2]); });
}
template <int M, class F> WW_FN void map(column<M>& c, F f) {
  sm80::each_row(c, [&](float& x, int, int) { x = f(x); });
}
template <int M, class F> WW_FN column<M> zip(const column<M>& a, const column<M>& b, F f) {
  column<M> r;
  sm80::each_row(r, [&](float& x, int m, int h) { x = f(a.v[m][h], b.v[m][h]); });
  return r;
}
template <int M> WW_FN column<M> fill_column(float x) {
  column<M> r;
  sm80::each_row(r, [&](float& y, int, int) { y = x; });
  return r;
}
template <int M> WW_FN partial<M> zero_partial() {
  partial<M> r;
  sm80::each_row(r, [](float& x, int, int) { x = 0.f; });
  return r;
}
template <int M> WW_FN void scale(partial<M>& s, const column<M>& c) {
  sm80::each_row(s, [&](float& x, int m, int h) { x *= c.v[m][h]; });
}
template <int M, int N> WW_FN void add_rows(partial<M>& s, const acc<M, N, rows::reduced>& a) {
  sm80::each_row(s, [&](float& x, int m, int h) {
    float even = 0.f, odd = 0.f;
#pragma unroll
    for (int n = 0; n < a.kN; ++n) {
      even += a.d[m][n][2 * h];
      odd += a.d[m][n][2 * h + 1];
    }
    x += even + odd;
  });
}
template <class T, int M, int N> WW_FN operand<T, M, N> as_operand(const acc<M, N, rows::reduced>& a) {
  operand<T, M, N> o;
#pragma unroll
  for (int m = 0; m < a.kM; ++m)
    if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int n = 0; n < a.kN; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) o.r[m][n][i] = a.d[m][n][i];
    } else {
#pragma unroll
      for (int n = 0; n < (N + 15) / 16 * 2; ++n)
#pragma unroll
        for (int h = 0; h < 2; ++h) o.r[m][n / 2][n % 2 * 2 + h] = n < a.kN ? pack<T>(a.d[m][n][2 * h], a.d[m][n][2 * h + 1]) : 0;
    }
  return o;
}

namespace sm80 {
// ---- where a warp reads an operand.  Along k: rows are m or n, chunks are k.  Otherwise rows are k, chunks are m or n.
template <class Tile, bool kAlongK, bool kLeft> struct reader {
  uint32_t base;    // of the lane's row
  int row, chunk;   // the lane's
  WW_FN reader(const Tile& t, int lane, int first) {
    place p = kLeft ? a_source<!kAlongK>(lane) : b_source<!kAlongK>(lane);
    row = p.row + (kAlongK ? first : 0);
    chunk = p.col + (kAlongK ? 0 : first / 8);
    base = shared_address(t.data) + row * Tile::kPitch;
  }
  // the 16 x 16 piece number i of the warp's, at step k.  Rows step by 16, which no swizzle sees.
  WW_FN uint32_t at(int i, int k) const {
    return base + (kAlongK ? i : k) * 16 * Tile::kPitch + ((chunk + 2 * (kAlongK ? k : i)) ^ swizzle<Tile::kChunks>(row)) * 16;
  }
  WW_FN void load(uint32_t (&r)[4], int i, int k) const { ldmatrix_x4<!kAlongK>(r, at(i, k)); }
  WW_FN void load_half(uint32_t (&r)[4], int i, int k) const { ldmatrix_x2<!kAlongK>(r, at(i, k)); }
};
template <int kN, class B> WW_FN void load_right(uint32_t (&r)[4], const B& b, int n, int k) {
  if (2 * n + 1 < kN) b.load(r, n, k);
  else b.load_half(r, n, k);
}
template <int kM, int kN, class A, class B> WW_FN void load_step(step<kM, kN>& f, const A& a, const B& b, int k) {
#pragma unroll
  for (int m = 0; m < kM; ++m) a.load(f.a[m], m, k);
#pragma unroll
  for (int n = 0; n < (kN + 1) / 2; ++n) load_right<kN>(f.b[n], b, n, k);
}
template <class T, int M, int N, rows U, int kM, int kN> WW_FN void multiply(acc<M, N, U>& d, const step<kM, kN>& f) {
#pragma unroll
  for (int n = 0; n < kN; ++n)
#pragma unroll
    for (int m = 0; m < kM; ++m) mma<T>(d.d[m][n], f.a[m], f.b[n / 2][n % 2 * 2], f.b[n / 2][n % 2 * 2 + 1]);
}

// four k of float32 operands: x[i] of row (or column) i of a lane
template <bool kAlongK, bool kLeft, int kCount, class Tile> WW_FN void load_floats(float (&x)[kCount][4], const Tile& t, int lane, int first, int k) {
  constexpr int kC = Tile::kChunks;
  uint32_t base = shared_address(t.data);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    int at = first + (kLeft ? acc_place(lane, i % 2 * 2).row + i / 2 * 16 : acc_place(lane, i % 2).col + i / 2 * 8);
    if constexpr (kAlongK) ld_shared(base + chunk_at<kC>(at, k / 4) * 16, x[i]);
    else
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        uint32_t a = base + chunk_at<kC>(k + q, at >> 2) * 16 + (at & 3) * 4;
        if constexpr (kLeft) ld_shared(a, x[i][q]);
        else if (i % 2 == 0) ld_shared(a, x[i][q], x[i + 1][q]);
      }
  }
}
}  // namespace sm80

// ---- the group: a block of kThreads.  Driver::between_steps(k, steps) is called between the steps of a batch.
template <class Driver, int kThreads> struct group {
  static constexpr int index = 0;
  int thread = int(threadIdx.x), warp = thread >> 5, lane = thread & 31;

  template <int M, class T, int R, int C, major U> WW_FN left_rows<shared_tile<T, R, C, U>> band(const shared_tile<T, R, C, U>& t) const {
    static_assert(M == R, "a group is the whole block here");
    return {t};
  }
  template <int M, class T, int R, int C, major U> WW_FN left_cols<shared_tile<T, R, C, U>> band_cols(const shared_tile<T, R, C, U>& t) const {
    static_assert(M == C, "a group is the whole block here");
    return {t};
  }
  template <class T, int R, int C, major U> WW_FN left_rows<shared_tile<T, R, C, U>> whole(const shared_tile<T, R, C, U>& t) const { return {t}; }

  // where the warp's part of a tile begins
  template <class Acc> WW_FN int warp_row() const { return int(unsigned(warp) / Acc::kGrid.n) * (Acc::kM * 16); }
  template <class Acc> WW_FN int warp_col() const { return int(unsigned(warp) % Acc::kGrid.n) * (Acc::kN * 8); }

  // ---- products
  template <bool kAlongA, bool kAlongB, class TA, class TB, int M, int N, rows U>
  WW_FN void batch(acc<M, N, U>& d, const TA& ta, const TB& tb, bool accumulate) {
    using Acc = acc<M, N, U>;
    using T = typename TA::element;
    constexpr int K = kAlongA ? TA::kCols : TA::kRows;
    static_assert(std::is_same_v<T, typename TB::element> && K == (kAlongB ? TB::kCols : TB::kRows));
    static_assert(M == (kAlongA ? TA::kRows : TA::kCols) && N == (kAlongB ? TB::kRows : TB::kCols));
    static_assert((TA::kUse == major::k) == kAlongA && (TB::kUse == major::k) == kAlongB, "a tile is read against its use");
    static_assert(Acc::kGrid.m * Acc::kGrid.n * 32 == kThreads);
    if (!accumulate) zero(d);
    if constexpr (sizeof(T) == 4) {
      static_assert(K % 4 == 0);
#pragma unroll
      for (int k = 0; k < K; k += 4) {
        if (k > 0) static_cast<Driver*>(this)->between_steps(k / 4, K / 4);
        float a[2 * Acc::kM][4], b[2 * Acc::kN][4];
        sm80::load_floats<kAlongA, true>(a, ta, lane, warp_row<Acc>(), k);
        sm80::load_floats<kAlongB, false>(b, tb, lane, warp_col<Acc>(), k);
#pragma unroll
        for (int q = 0; q < 4; ++q)
          sm80::each(d, [&](float& x, int m, int n, int i) { x = fmaf(a[2 * m + i / 2][q], b[2 * n + i % 2][q], x); });
      }
    } else {
      constexpr int kSteps = (K + 15) / 16;
      static_assert(K % 16 == 0 || (kAlongA && kAlongB), "rows of a step that the tiles do not hold");
      sm80::reader<TA, kAlongA, true> a(ta, lane, warp_row<Acc>());
      sm80::reader<TB, kAlongB, false> b(tb, lane, warp_col<Acc>());
      sm80::step<Acc::kM, Acc::kN> f[2];
      sm80::load_step(f[0], a, b, 0);
      if constexpr (Acc::kLate) sm80::multiply<T>(d, d.late);
#pragma unroll
      for (int k = 1; k < kSteps; ++k) {
        static_cast<Driver*>(this)->between_steps(k, kSteps);
        sm80::load_step(f[k % 2], a, b, k);
        sm80::multiply<T>(d, f[(k - 1) % 2]);
      }
      if constexpr (Acc::kLate) {
        d.late = f[(kSteps - 1) % 2];
        d.pending = std::is_same_v<T, f16> ? d.kF16 : d.kBf16;
      } else {
        sm80::multiply<T>(d, f[(kSteps - 1) % 2]);
      }
    }
  }
  template <class TA, class TB, int M, int N, rows U> WW_FN void mma_async(acc<M, N, U>& d, left_rows<TA> a, const TB& b, bool accumulate) {
    batch<true, false>(d, a.t, b, accumulate);
  }
  template <class TA, class TB, int M, int N, rows U> WW_FN void mma_async(acc<M, N, U>& d, left_rows<TA> a, transposed_tile<TB> b, bool accumulate) {
    batch<true, true>(d, a.t, b.t, accumulate);
  }
  template <class TA, class TB, int M, int N, rows U> WW_FN void mma_async(acc<M, N, U>& d, left_cols<TA> a, const TB& b, bool accumulate) {
    batch<false, false>(d, a.t, b, accumulate);
  }
  template <class TA, class TB, int M, int N, rows U> WW_FN void mma_async(acc<M, N, U>& d, left_cols<TA> a, transposed_tile<TB> b, bool accumulate) {
    batch<false, true>(d, a.t, b.t, accumulate);
  }
  // left operand in registers
  template <bool kAlongB, class TB, class T, int M, int N, int K>
  WW_FN void batch(acc<M, N, rows::reduced>& d, const operand<T, M, K>& a, const TB& tb, bool accumulate) const {
    using Acc = acc<M, N, rows::reduced>;
    static_assert(std::is_same_v<T, typename TB::element> && K == (kAlongB ? TB::kCols : TB::kRows) && N == (kAlongB ? TB::kRows : TB::kCols));
    static_assert((TB::kUse == major::k) == kAlongB, "a tile is read against its use");
    static_assert(Acc::kGrid.m * 32 == kThreads);
    if (!accumulate) zero(d);
    if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int k = 0; k < K; k += 4) {
        float b[2 * Acc::kN][4];
        sm80::load_floats<kAlongB, false>(b, tb, lane, 0, k);
#pragma unroll
        for (int q = 0; q < 4; ++q)   // column k+q of the operand is held by one lane of each four
#pragma unroll
          for (int m = 0; m < Acc::kM; ++m)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
              float x = __shfl_sync(~0u, a.r[m][k / 8][2 * h + q % 2], (lane & ~3) | ((k + q) % 8 / 2));
#pragma unroll
              for (int n = 0; n < 2 * Acc::kN; ++n) d.d[m][n / 2][2 * h + n % 2] = fmaf(x, b[n][q], d.d[m][n / 2][2 * h + n % 2]);
            }
      }
    } else {
      static_assert(K % 16 == 0 || kAlongB, "rows of a step that the tile does not hold");
      sm80::reader<TB, kAlongB, false> b(tb, lane, 0);
#pragma unroll
      for (int k = 0; k < (K + 15) / 16; ++k)
#pragma unroll
        for (int n = 0; n < (Acc::kN + 1) / 2; ++n) {
          uint32_t f[4];
          sm80::load_right<Acc::kN>(f, b, n, k);
#pragma unroll
          for (int j = 2 * n; j < 2 * n + 2 && j < Acc::kN; ++j)
#pragma unroll
            for (int m = 0; m < Acc::kM; ++m) sm80::mma<T>(d.d[m][j], a.r[m][k], f[j % 2 * 2], f[j % 2 * 2 + 1]);
        }
    }
  }
  template <class TB, class T, int M, int N, int K> WW_FN void mma_async(acc<M, N, rows::reduced>& d, const operand<T, M, K>& a, const TB& b, bool accumulate) {
    batch<false>(d, a, b, accumulate);
  }
  template <class TB, class T, int M, int N, int K>
  WW_FN void mma_async(acc<M, N, rows::reduced>& d, const operand<T, M, K>& a, transposed_tile<TB> b, bool accumulate) {
    batch<true>(d, a, b.t, accumulate);
  }
  template <int kInFlight, class... A> WW_FN void mma_wait(A&... done) const { (finish(done), ...); }
  template <int M, int N, rows U> WW_FN static void finish(acc<M, N, U>& d) {
    if constexpr (acc<M, N, U>::kLate) {
      if (d.pending == d.kBf16) sm80::multiply<bf16>(d, d.late);
      else if (d.pending == d.kF16) sm80::multiply<f16>(d, d.late);
      sm80::clear_late(d);
    }
  }
  template <class T, int M, int K> WW_FN static void finish(const operand<T, M, K>&) {}

  template <class Tile> WW_FN auto load_operand(left_rows<Tile> a) const {
    using T = typename Tile::element;
    operand<T, Tile::kRows, Tile::kCols> o;
    constexpr int kM = decltype(o)::kM;
    static_assert(Tile::kUse == major::k, "a tile is read against its use");
    if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int m = 0; m < kM; ++m)
#pragma unroll
        for (int n = 0; n < Tile::kCols / 8; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) sm80::ld_shared(element_address(a.t, sm80::acc_place(lane, i), (warp * kM + m) * 16, n * 8), o.r[m][n][i]);
    } else {
      sm80::reader<Tile, true, true> r(a.t, lane, warp * kM * 16);
#pragma unroll
      for (int m = 0; m < kM; ++m)
#pragma unroll
        for (int k = 0; k < (Tile::kCols + 15) / 16; ++k) r.load(o.r[m][k], m, k);
    }
    return o;
  }
  template <class Tile> WW_FN static uint32_t element_address(const Tile& t, sm80::place p, int row, int col) {
    return t.address(row + p.row, int(unsigned(col + p.col) / Tile::kVec)) + (col + p.col) % Tile::kVec * int(sizeof(typename Tile::element));
  }
  template <class T, int M, int N, rows U, major V> WW_FN void put(shared_tile<T, M, N, V>& t, const acc<M, N, U>& a) const {
    using Acc = acc<M, N, U>;
    __syncthreads();   // a batch of another warp may still read the tile
#pragma unroll
    for (int m = 0; m < Acc::kM; ++m)
#pragma unroll
      for (int n = 0; n < Acc::kN; ++n)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          uint32_t at = element_address(t, sm80::acc_place(lane, 2 * h), warp_row<Acc>() + m * 16, warp_col<Acc>() + n * 8);
          if constexpr (sizeof(T) == 4) {
            sm80::st_shared(at, a.d[m][n][2 * h]);
            sm80::st_shared(at + 4, a.d[m][n][2 * h + 1]);
          } else {
            sm80::st_shared(at, pack<T>(a.d[m][n][2 * h], a.d[m][n][2 * h + 1]));
          }
        }
    if constexpr (N % 16 != 0 && sizeof(T) == 2)   // a product reads whole steps
      for (int r = thread; r < M; r += kThreads) sm80::st_shared(t.address(r, N / 8), 0, 0, 0, 0);
    __syncthreads();
  }

  // ---- rows
  template <int M, int N> WW_FN column<M> row_max(const acc<M, N, rows::reduced>& a, const column<M>& init) const {
    column<M> c = init;
    sm80::each_row(c, [&](float& best, int m, int h) {
      float x = a.d[m][0][2 * h], y = a.d[m][0][2 * h + 1];
#pragma unroll
      for (int n = 1; n < a.kN; ++n) {
        x = ww::max(x, a.d[m][n][2 * h]);
        y = ww::max(y, a.d[m][n][2 * h + 1]);
      }
      x = ww::max(x, y);
      x = ww::max(x, __shfl_xor_sync(~0u, x, 1));
      x = ww::max(x, __shfl_xor_sync(~0u, x, 2));
      best = ww::max(best, x);
    });
    return c;
  }
  template <int M> WW_FN column<M> total(const partial<M>& s) const {
    column<M> c;
    sm80::each_row(c, [&](float& x, int m, int h) {
      x = s.v[m][h];
      x += __shfl_xor_sync(~0u, x, 1);
      x += __shfl_xor_sync(~0u, x, 2);
    });
    return c;
  }
  // a warp whose factors are all 1 has nothing to do
  template <int M, int N> WW_FN void scale_rows(acc<M, N, rows::reduced>& a, const column<M>& c) const {
    bool work = false;
    sm80::each_row(c, [&](float x, int, int) { work |= x != 1.f; });
    if (__any_sync(~0u, work)) map_rows(a, c, [](float x, float f) { return x * f; });
  }
  template <int M, int N, rows U, class F> WW_FN void map_index(acc<M, N, U>& a, F f) const {
    using Acc = acc<M, N, U>;
    int row = warp_row<Acc>(), col = warp_col<Acc>();
    sm80::each(a, [&](float& x, int m, int n, int i) {
      sm80::place p = sm80::acc_place(lane, i);
      x = f(x, row + m * 16 + p.row, col + n * 8 + p.col);
    });
  }

  // ---- device memory
  // f(values of two neighbouring columns, address, both lie in the view and may be accessed as one, columns left)
  template <class V, int M, int N, rows U, class F> WW_FN void each_pair(acc<M, N, U>& a, const V& v, coord corner, F f) const {
    using Acc = acc<M, N, U>;
    sm80::place p = sm80::acc_place(lane, 0);
    int row = corner.row + warp_row<Acc>() + p.row, col = corner.col + warp_col<Acc>() + p.col;
    auto* at = v.at(corner.batch, corner.plane, row, col);
    constexpr int kPair = 2 * int(sizeof(*at));
    bool pairs = (reinterpret_cast<uintptr_t>(at) | uintptr_t(v.row_stride) * sizeof(*at)) % kPair == 0;
#pragma unroll
    for (int m = 0; m < Acc::kM; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (row + m * 16 + h * 8 >= v.rows) continue;
        auto* line = at + (m * 16 + h * 8) * v.row_stride;
#pragma unroll
        for (int n = 0; n < Acc::kN; ++n)
          if (int left = v.cols - col - n * 8; left > 0) f(a.d[m][n][2 * h], a.d[m][n][2 * h + 1], line + n * 8, pairs && left > 1, left);
      }
  }
  template <class V, int M, int N, rows U> WW_FN void store_direct(const V& v, coord corner, acc<M, N, U>& a) const {
    using T = std::remove_pointer_t<decltype(v.p)>;
    each_pair(a, v, corner, [](float x, float y, T* p, bool pair, int left) {
      if (pair) {
        if constexpr (sizeof(T) == 4) *reinterpret_cast<float2*>(p) = make_float2(x, y);
        else *reinterpret_cast<uint32_t*>(p) = pack<T>(x, y);
      } else {
        p[0] = from_float<T>(x);
        if (left > 1) p[1] = from_float<T>(y);
      }
    });
  }
  template <class V, int M, int N, rows U, class S> WW_FN void store(const V& v, coord corner, acc<M, N, U>& a, S&) const {
    using T = std::remove_pointer_t<decltype(v.p)>;
    if constexpr (sizeof(T) == 2 && acc<M, N, U>::kN % 4 == 0) {
      if ((v.flags & kRowsAligned) && corner.col % 8 == 0) return store_chunks(v, corner, a);
    }
    store_direct(v, corner, a);
  }
  // Four lanes hold the four words of each of four chunks: exchanged, so that each lane stores a whole chunk.
  template <class V, int M, int N, rows U> WW_FN void store_chunks(const V& v, coord corner, acc<M, N, U>& a) const {
    using Acc = acc<M, N, U>;
    using T = std::remove_pointer_t<decltype(v.p)>;
    int quarter = lane & 3, row = corner.row + warp_row<Acc>() + (lane >> 2), col = corner.col + warp_col<Acc>() + quarter * 8;
    T* at = v.at(corner.batch, corner.plane, row, col);
#pragma unroll
    for (int m = 0; m < Acc::kM; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h)
#pragma unroll
        for (int n = 0; n < Acc::kN; n += 4) {
          uint32_t w[4];
#pragma unroll
          for (int j = 0; j < 4; ++j) w[j] = pack<T>(a.d[m][n + j][2 * h], a.d[m][n + j][2 * h + 1]);
          exchange(w, quarter);
          int left = v.cols - col - n * 8;
          if (row + m * 16 + h * 8 >= v.rows || left <= 0) continue;
          T* p = at + (m * 16 + h * 8) * v.row_stride + n * 8;
          if (left >= 8) {
            *reinterpret_cast<uint4*>(p) = make_uint4(w[0], w[1], w[2], w[3]);
          } else {
#pragma unroll
            for (int j = 0; j < 7; ++j)
              if (j < left) p[j].bits = uint16_t(w[j / 2] >> (j % 2 * 16));
          }
        }
  }
  // 4 x 4 words over four lanes, transposed
  WW_FN static void exchange(uint32_t (&w)[4], int quarter) {
#pragma unroll
    for (int d = 1; d < 4; d *= 2) {
      bool upper = quarter & d;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (j & d) continue;
        uint32_t got = __shfl_xor_sync(~0u, upper ? w[j] : w[j + d], d);
        if (upper) w[j] = got;
        else w[j + d] = got;
      }
    }
  }
  template <class V, int M, int N, rows U, class F> WW_FN void zip_view(acc<M, N, U>& a, const V& v, coord corner, F f) const {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(v.p)>>;
    each_pair(a, v, corner, [&](float& x, float& y, const T* p, bool pair, int left) {
      if (pair) {
        struct alignas(2 * sizeof(T)) two { T lo, hi; } c = *reinterpret_cast<const two*>(p);
        x = f(x, to_float(c.lo));
        y = f(y, to_float(c.hi));
      } else {
        x = f(x, to_float(p[0]));
        if (left > 1) y = f(y, to_float(p[1]));
      }
    });
  }
  template <class T, int M> WW_FN void store_column(const column_view<T>& v, coord at, const column<M>& c) const {
    if ((lane & 3) != 0) return;
    T* p = v.p + at.batch * v.batch_stride + at.plane * v.plane_stride;
    sm80::each_row(c, [&](float x, int m, int h) {
      int row = at.row + (warp * kColumnTiles<M> + m) * 16 + h * 8 + (lane >> 2);
      if (row < v.rows) p[row] = from_float<T>(x);
    });
  }

  // ---- loading: every thread of the block copies its chunks
  template <class T, int R, int C, major U, class V> WW_FN void copy_async(shared_tile<T, R, C, U>& dst, const V& v, coord c) const {
    using Tile = shared_tile<T, R, C, U>;
    constexpr int kVec = Tile::kVec, kChunks = Tile::kChunks, kTotal = R * kChunks;
    int thread = sm80::thread_index();
    const T* corner = v.at(c.batch, c.plane, c.row, c.col);
    int rows_left = v.rows - c.row, cols_left = v.cols - c.col;
    if (C % (2 * kVec) != 0 && cols_left > C) cols_left = C;
    uint32_t base = sm80::shared_address(dst.data);
    // Inside: no bounds.  A copy that may be cut costs six instructions more (nvcc 13.5), so the edges have a loop of their own.
    if ((v.flags & kRowsAligned) && rows_left >= R && cols_left >= kChunks * kVec && kTotal % kThreads == 0) {
      if constexpr (kThreads % kChunks == 0) {
        constexpr int kStep = kThreads / kChunks;
        int r = int(unsigned(thread) / kChunks), q = int(unsigned(thread) % kChunks);
        const T* src = corner + r * v.row_stride + q * kVec;
#pragma unroll
        for (int i = 0; i < R / kStep; ++i, src += kStep * v.row_stride) sm80::copy16(base + sm80::chunk_at<kChunks>(r + i * kStep, q) * 16, src);
      } else {
#pragma unroll
        for (int id = thread; id < kTotal; id += kThreads) {
          int r = int(unsigned(id) / kChunks), q = int(unsigned(id) % kChunks);
          sm80::copy16(base + sm80::chunk_at<kChunks>(r, q) * 16, corner + r * v.row_stride + q * kVec);
        }
      }
      return;
    }
    // The edges.  A copy that names fewer bytes than its width is charged for all of them by compute-sanitizer: one is made whole or not at all,
    // and a chunk that the right edge cuts goes by elements.
    const bool aligned = (v.flags & kRowsAligned) != 0;
#pragma unroll 1
    for (int id = thread; id < kTotal; id += kThreads) {
      int r = int(unsigned(id) / kChunks), q = int(unsigned(id) % kChunks), n = r < rows_left ? cols_left - q * kVec : 0;
      const T* src = corner + r * v.row_stride + q * kVec;
      uint32_t to = base + sm80::chunk_at<kChunks>(r, q) * 16;
      bool whole = n >= kVec || n <= 0;
      if (aligned && whole) {
        sm80::copy16(to, src, n > 0 ? 16 : 0);
      } else if (sizeof(T) == 4 || (whole && reinterpret_cast<uintptr_t>(src) % 4 == 0)) {
        constexpr int kWord = 4 / int(sizeof(T));
#pragma unroll
        for (int e = 0; e < kVec; e += kWord) sm80::copy4(to + e * int(sizeof(T)), src + e, e < n ? 4 : 0);
      } else if constexpr (sizeof(T) == 2) {
        uint32_t w[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          uint32_t lo = 2 * e < n ? src[2 * e].bits : 0, hi = 2 * e + 1 < n ? src[2 * e + 1].bits : 0;
          w[e] = lo | hi << 16;
        }
        sm80::st_shared(to, w[0], w[1], w[2], w[3]);
      }
    }
  }
};
}  // namespace ww

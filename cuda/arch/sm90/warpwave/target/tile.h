// Tile types and primitives, sm_90a bodies.  A group is a warpgroup: 128 threads, 64 rows an instruction.  16-bit elements.
// Hopper reads 16-bit tiles along rows and along columns alike; `major` is checked, it changes no layout.
#pragma once
#include <warpwave/cuda/base.h>
#include <warpwave/tile/tile.h>
#include <warpwave/target/layout.h>
#include <warpwave/target/ptx.h>
#include <warpwave/target/wgmma.h>
namespace ww {

// ---- shared memory
// Storage rounds up to whole panels of 64 columns; a copy fills the surplus with what the view holds there, 0 outside it.
template <class T, int R, int C, major Use> struct shared_tile {
  using type = T;
  static constexpr int kRows = R, kCols = C, kPanels = sm90::panels(C), kPanelBytes = sm90::panel_bytes(R);
  static constexpr major kUse = Use;
  static_assert(sizeof(T) == 2, "wgmma here takes 16-bit elements");
  static_assert(R % 8 == 0 && R <= 256 && C % 8 == 0, "whole swizzle groups; one box of the copy engine");
  alignas(1024) T data[kPanels * kPanelBytes / 2];
  WW_FN uint32_t address() const { return sm90::shared_address(data); }
};
// M rows, and M columns, of a tile.  kDepth: the summed dimension
template <int M, class Tile> struct shared_band {
  static constexpr int kDepth = Tile::kCols;
  uint32_t address;
};
template <int M, class Tile> struct shared_band_cols {
  static constexpr int kDepth = Tile::kRows;
  uint32_t address;
};
// What a store passes through on its way to the copy engine.  Other element sizes go straight from registers.
template <class T, int kBufs> struct store_staging {};
template <class T, int kBufs> requires(sizeof(T) == 2 && kBufs > 0) struct store_staging<T, kBufs> { shared_tile<T, 64, 64, major::k> buf[kBufs]; };

// ---- registers of one group
template <int M, int N, rows U = rows::free> struct acc {
  static_assert(M % 64 == 0 && N % 8 == 0 && N <= 256);
  float d[M / 64][N / 2];
};
template <class T, int M, int K> struct operand {
  static constexpr int kDepth = K;
  uint32_t r[M / 64][K / 16][4];
};
template <int M> struct column { float v[M / 64][2]; };       // one value per row
template <int M> struct partial { float v[M / 64][2][2]; };   // a row sum still spread over the group

template <int M, int N, rows U> WW_FN void zero(acc<M, N, U>& a) {
#pragma unroll
  for (int m = 0; m < M / 64; ++m)
#pragma unroll
    for (int i = 0; i < N / 2; ++i) a.d[m][i] = 0.f;
}
template <int M, int N, rows U, class F> WW_FN void map(acc<M, N, U>& a, F f) {
#pragma unroll
  for (int m = 0; m < M / 64; ++m)
#pragma unroll
    for (int i = 0; i < N / 2; ++i) a.d[m][i] = f(a.d[m][i]);
}
template <int M, int N, rows U, class F> WW_FN void map_rows(acc<M, N, U>& a, const column<M>& c, F f) {
#pragma unroll
  for (int m = 0; m < M / 64; ++m)
#pragma unroll
    for (int i = 0; i < N / 2; ++i) a.d[m][i] = f(a.d[m][i], c.v[m][i / 2 % 2]);
}
template <int M, class F> WW_FN void map(column<M>& c, F f) {
#pragma unroll
  for (int m = 0; m < M / 64; ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h) c.v[m][h] = f(c.v[m][h]);
}
template <int M, class F> WW_FN column<M> zip(const column<M>& a, const column<M>& b, F f) {
  column<M> r;
#pragma unroll
  for (int m = 0; m < M / 64; ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h) r.v[m][h] = f(a.v[m][h], b.v[m][h]);
  return r;
}
template <int M> WW_FN column<M> fill_column(float x) {
  column<M> r;
#pragma unroll
  for (int m = 0; m < M / 64; ++m) r.v[m][0] = r.v[m][1] = x;
  return r;
}
template <int M> WW_FN partial<M> zero_partial() {
  partial<M> r;
#pragma unroll
  for (int m = 0; m < M / 64; ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h) r.v[m][h][0] = r.v[m][h][1] = 0.f;
  return r;
}
template <int M> WW_FN void scale(partial<M>& s, const column<M>& c) {
#pragma unroll
  for (int m = 0; m < M / 64; ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      s.v[m][h][0] *= c.v[m][h];
      s.v[m][h][1] *= c.v[m][h];
    }
}
template <int M, int N, rows U> WW_FN void add_rows(partial<M>& s, const acc<M, N, U>& a) {
#pragma unroll
  for (int m = 0; m < M / 64; ++m)
#pragma unroll
    for (int i = 0; i < N / 2; ++i) s.v[m][i / 2 % 2][i % 2] += a.d[m][i];
}
// an accumulator's pairs are an operand's words, in the same order
template <class T, int M, int N, rows U> WW_FN operand<T, M, N> as_operand(const acc<M, N, U>& a) {
  static_assert(N % 16 == 0);
  operand<T, M, N> o;
#pragma unroll
  for (int m = 0; m < M / 64; ++m)
#pragma unroll
    for (int k = 0; k < N / 16; ++k)
#pragma unroll
      for (int j = 0; j < 4; ++j) o.r[m][k][j] = pack<T>(a.d[m][8 * k + 2 * j], a.d[m][8 * k + 2 * j + 1]);
  return o;
}

namespace sm90 {
// Two neighbours in device memory.
template <class T> constexpr bool kWord = sizeof(T) == 2;
template <class T> WW_FN bool pair_aligned(const T* p) { return reinterpret_cast<uintptr_t>(p) % (2 * sizeof(T)) == 0; }
template <class T> WW_FN void load_pair(const T* p, float& x, float& y) {
  if constexpr (kWord<T>) {
    uint32_t w = *reinterpret_cast<const uint32_t*>(p);
    x = to_float(T{uint16_t(w)});
    y = to_float(T{uint16_t(w >> 16)});
  } else {
    float2 w = *reinterpret_cast<const float2*>(p);
    x = w.x;
    y = w.y;
  }
}
template <class T> WW_FN void store_pair(T* p, float x, float y) {
  if constexpr (kWord<T>) *reinterpret_cast<uint32_t*>(p) = pack<T>(x, y);
  else *reinterpret_cast<float2*>(p) = make_float2(x, y);
}
WW_FN void store_word(void* p, uint32_t w) { *reinterpret_cast<uint32_t*>(p) = w; }
WW_FN void store_half(void* p, uint32_t w) { *reinterpret_cast<uint16_t*>(p) = uint16_t(w); }
}  // namespace sm90

// ---- the group
struct group {
  int index;   // which band
  int warp, lane;
  const sm90::tensor_map* maps;
  WW_FN bool leader() const { return warp == 0 && lane == 0; }
  WW_FN void sync() const { sm90::barrier_sync(1 + index, 128); }

  template <int M, class T, int R, int C> WW_FN shared_band<M, shared_tile<T, R, C, major::k>> band(const shared_tile<T, R, C, major::k>& t) const {
    static_assert(M % 64 == 0 && R % M == 0);
    return {t.address() + index * sm90::panel_bytes(M)};
  }
  template <int M, class T, int R, int C> WW_FN shared_band_cols<M, shared_tile<T, R, C, major::mn>> band_cols(const shared_tile<T, R, C, major::mn>& t) const {
    static_assert(M % sm90::kPanelCols == 0 && C % M == 0);
    return {t.address() + index * (M / sm90::kPanelCols) * t.kPanelBytes};
  }
  template <class T, int M, int C> WW_FN shared_band<M, shared_tile<T, M, C, major::k>> whole(const shared_tile<T, M, C, major::k>& t) const {
    return {t.address()};
  }

  // ---- products.  One call = one batch
  template <bool kTransB, class Tile> WW_FN static uint64_t b_step(const Tile& b, int k) {
    if constexpr (kTransB) return sm90::descriptor_mn(b.address(), b.kPanelBytes) + (sm90::step_mn(k) >> 4);
    else return sm90::descriptor_k(b.address()) + (sm90::step_k(b.kPanelBytes, k) >> 4);
  }
  template <int K, bool kTransB, class T, int M, int N, rows U, class TileA, class TileB>
  WW_FN static void batch(acc<M, N, U>& d, shared_band<M, TileA> a, const TileB& b, bool accumulate) {
    sm90::wgmma_fence();
#pragma unroll
    for (int k = 0; k < (K + 15) / 16; ++k)
#pragma unroll
      for (int m = 0; m < M / 64; ++m) {
        uint64_t at = sm90::descriptor_k(a.address + sm90::panel_bytes(64) * m) + (sm90::step_k(TileA::kPanelBytes, k) >> 4);
        sm90::wgmma<T, N>::template ss<false, kTransB>(d.d[m], at, b_step<kTransB>(b, k), k > 0 || accumulate);
      }
    sm90::wgmma_commit();
  }
  template <int K, bool kTransB, class T, int M, int N, rows U, class TileA, class TileB>
  WW_FN static void batch(acc<M, N, U>& d, shared_band_cols<M, TileA> a, const TileB& b, bool accumulate) {
    static_assert(K % 16 == 0);
    sm90::wgmma_fence();
#pragma unroll
    for (int k = 0; k < K / 16; ++k)
#pragma unroll
      for (int m = 0; m < M / 64; ++m) {
        uint64_t at = sm90::descriptor_mn(a.address + TileA::kPanelBytes * m, TileA::kPanelBytes) + (sm90::step_mn(k) >> 4);
        sm90::wgmma<T, N>::template ss<true, kTransB>(d.d[m], at, b_step<kTransB>(b, k), k > 0 || accumulate);
      }
    sm90::wgmma_commit();
  }
  template <int K, bool kTransB, class T, int M, int N, rows U, class TileB>
  WW_FN static void batch(acc<M, N, U>& d, const operand<T, M, K>& a, const TileB& b, bool accumulate) {
    sm90::wgmma_fence();
#pragma unroll
    for (int k = 0; k < K / 16; ++k)
#pragma unroll
      for (int m = 0; m < M / 64; ++m) sm90::wgmma<T, N>::template rs<kTransB>(d.d[m], a.r[m][k], b_step<kTransB>(b, k), k > 0 || accumulate);
    sm90::wgmma_commit();
  }
  template <class A, class T, int M, int N, rows U, int K>
  WW_FN void mma_async(acc<M, N, U>& d, const A& a, const shared_tile<T, K, N, major::mn>& b, bool accumulate) const {
    static_assert(A::kDepth == K && K % 16 == 0);
    batch<K, true, T>(d, a, b, accumulate);
  }
  template <class A, class T, int M, int N, rows U, int K>
  WW_FN void mma_async(acc<M, N, U>& d, const A& a, transposed_tile<shared_tile<T, N, K, major::k>> b, bool accumulate) const {
    static_assert(A::kDepth == K);
    batch<K, false, T>(d, a, b.t, accumulate);
  }
  // the pins keep the compiler from reading a named value above the wait
  template <int kInFlight, class... X> WW_FN void mma_wait(X&... done) const {
    sm90::wgmma_wait<kInFlight>();
    (pin(done), ...);
  }
  template <int M, int N, rows U> WW_FN static void pin(acc<M, N, U>& a) {
#pragma unroll
    for (int m = 0; m < M / 64; ++m)
#pragma unroll
      for (int i = 0; i < N / 2; ++i) asm volatile("" : "+f"(a.d[m][i])::"memory");
  }
  template <class T, int M, int K> WW_FN static void pin(operand<T, M, K>& a) {
#pragma unroll
    for (int m = 0; m < M / 64; ++m)
#pragma unroll
      for (int k = 0; k < K / 16; ++k)
#pragma unroll
        for (int j = 0; j < 4; ++j) asm volatile("" : "+r"(a.r[m][k][j])::"memory");
  }
  template <int M, class T, int R, int K> WW_FN operand<T, M, K> load_operand(shared_band<M, shared_tile<T, R, K, major::k>> a) const {
    static_assert(K % 16 == 0);
    operand<T, M, K> o;
#pragma unroll
    for (int m = 0; m < M / 64; ++m)
#pragma unroll
      for (int k = 0; k < K / 16; ++k)
        sm90::ldmatrix_x4(o.r[m][k], a.address + k / 4 * sm90::panel_bytes(R) + m * sm90::panel_bytes(64) + sm90::matrix_offset(warp, lane, k % 4));
    return o;
  }
  template <class T, int M, int N, rows U> WW_FN void put(shared_tile<T, M, N, major::k>& t, const acc<M, N, U>& a) const {
    if (leader()) sm90::bulk_wait_read<0>();   // a store may still be reading the tile
    sync();                                    // and so may another warp's batch
#pragma unroll
    for (int m = 0; m < M / 64; ++m)
#pragma unroll
      for (int u = 0; u < t.kPanels; ++u) stage<T, N>(t.address() + u * t.kPanelBytes + m * sm90::panel_bytes(64), a.d[m], u);
    sm90::fence_async_proxy();
    sync();
  }

  // ---- rows
  template <int M, int N, rows U> WW_FN column<M> row_max(const acc<M, N, U>& a, const column<M>& init) const {
    static_assert(N >= 32, "four running maxima hide the latency of one");
    column<M> c = init;
#pragma unroll
    for (int m = 0; m < M / 64; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float y[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) y[i] = ww::max(a.d[m][4 * i + 2 * h], a.d[m][4 * i + 2 * h + 1]);
#pragma unroll
        for (int i = 4; i < N / 8; ++i) y[i % 4] = ww::max(y[i % 4], ww::max(a.d[m][4 * i + 2 * h], a.d[m][4 * i + 2 * h + 1]));
        float x = ww::max(ww::max(y[0], y[1]), ww::max(y[2], y[3]));
        x = ww::max(x, __shfl_xor_sync(~0u, x, 1));
        x = ww::max(x, __shfl_xor_sync(~0u, x, 2));
        c.v[m][h] = ww::max(c.v[m][h], x);
      }
    return c;
  }
  template <int M> WW_FN column<M> total(const partial<M>& s) const {
    column<M> c;
#pragma unroll
    for (int m = 0; m < M / 64; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float x = s.v[m][h][0] + s.v[m][h][1];
        x += __shfl_xor_sync(~0u, x, 1);
        x += __shfl_xor_sync(~0u, x, 2);
        c.v[m][h] = x;
      }
    return c;
  }
  // skipped by a warp whose factors are all exactly 1
  template <int M, int N, rows U> WW_FN void scale_rows(acc<M, N, U>& a, const column<M>& c) const {
    bool work = false;
#pragma unroll
    for (int m = 0; m < M / 64; ++m) work |= c.v[m][0] != 1.f || c.v[m][1] != 1.f;
    if (__any_sync(~0u, work)) map_rows(a, c, [](float x, float f) { return x * f; });
  }
  template <int M, int N, rows U, class F> WW_FN void map_index(acc<M, N, U>& a, F f) const {
#pragma unroll
    for (int m = 0; m < M / 64; ++m)
#pragma unroll
      for (int i = 0; i < N / 2; ++i) a.d[m][i] = f(a.d[m][i], m * 64 + sm90::fragment_row(warp, lane, i), sm90::fragment_col(lane, i));
  }

  // ---- device memory.  The whole group calls; `corner` is the block's
  template <int M> WW_FN int row_of(coord corner, int m, int half) const { return corner.row + index * M + m * 64 + sm90::fragment_row(warp, lane, 2 * half); }

  template <class T, int kMap, int M, int N, rows U, class F> WW_FN void zip_view(acc<M, N, U>& a, const view<T, kMap>& v, coord corner, F f) const {
    int col = corner.col + sm90::fragment_col(lane, 0);
#pragma unroll
    for (int m = 0; m < M / 64; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        int row = row_of<M>(corner, m, h);
        if (row >= v.rows) continue;
        const T* p = v.at(corner.batch, corner.plane, row, col);
        bool aligned = sm90::pair_aligned(p);
#pragma unroll
        for (int i = 0; i < N / 8; ++i) {
          float &x = a.d[m][4 * i + 2 * h], &y = a.d[m][4 * i + 2 * h + 1];
          int left = v.cols - col - 8 * i;
          if (aligned && left > 1) {
            float s, t;
            sm90::load_pair(p + 8 * i, s, t);
            x = f(x, s);
            y = f(y, t);
          } else {
            if (left > 0) x = f(x, to_float(p[8 * i]));
            if (left > 1) y = f(y, to_float(p[8 * i + 1]));
          }
        }
      }
  }
  template <class T, int kMap, int M, int N, rows U> WW_FN void store_direct(const view<T, kMap>& v, coord corner, const acc<M, N, U>& a) const {
    int col = corner.col + sm90::fragment_col(lane, 0);
#pragma unroll
    for (int m = 0; m < M / 64; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        int row = row_of<M>(corner, m, h);
        if (row >= v.rows) continue;
        T* p = v.at(corner.batch, corner.plane, row, col);
        bool aligned = sm90::pair_aligned(p);
#pragma unroll
        for (int i = 0; i < N / 8; ++i) {
          float x = a.d[m][4 * i + 2 * h], y = a.d[m][4 * i + 2 * h + 1];
          int left = v.cols - col - 8 * i;
          if (aligned && left > 1) sm90::store_pair(p + 8 * i, x, y);
          else {
            if (left > 0) p[8 * i] = from_float<T>(x);
            if (left > 1) p[8 * i + 1] = from_float<T>(y);
          }
        }
      }
  }
  template <int M> WW_FN void store_column(const column_view<float>& v, coord at, const column<M>& c) const {
    float* p = v.p + at.batch * v.batch_stride + at.plane * v.plane_stride;
    if (lane % 4 == 0)
#pragma unroll
      for (int m = 0; m < M / 64; ++m)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          int row = row_of<M>(at, m, h);
          if (row < v.rows) p[row] = c.v[m][h];
        }
  }
  // columns [64u, 64u+64) of 64 rows of an accumulator -> a panel, swizzled
  template <class T, int N> WW_FN void stage(uint32_t panel, const float (&d)[N / 2], int u) const {
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      if (64 * u + 16 * s >= N) continue;
      const float* x = d + 32 * u + 8 * s;
      bool two = 64 * u + 16 * s + 8 < N;   // the last step may be 8 wide
      sm90::stmatrix_x4(panel + sm90::matrix_offset(warp, lane, s), pack<T>(x[0], x[1]), pack<T>(x[2], x[3]), two ? pack<T>(x[4], x[5]) : 0,
                        two ? pack<T>(x[6], x[7]) : 0);
    }
  }
  template <class T, int kMap, int M, int N, rows U, int kBufs>
  WW_FN void store(const view<T, kMap>& v, coord corner, const acc<M, N, U>& a, store_staging<T, kBufs>& staging) const {
    if constexpr (sizeof(T) != 2 || kBufs == 0) store_direct(v, corner, a);
    else {
      constexpr int kPanels = sm90::panels(N), kStores = M / 64 * kPanels;
      // the copy engine needs 16-byte pitches, clips to 16 bytes only, and writes whole panels
      bool by_engine = (v.flags & kRowsAligned) && (corner.col + N <= v.cols || v.cols % 8 == 0) && (N % 64 == 0 || corner.col + N >= v.cols);
      if (!by_engine) return store_elements(v, corner, a, staging);
#pragma unroll
      for (int i = 0; i < kStores; ++i) {
        int m = i / kPanels, u = i % kPanels;
        auto& buf = staging.buf[i % kBufs];
        if (leader()) {
          if (i == 0 && kStores % kBufs != 0) sm90::bulk_wait_read<0>();   // the store before did not end on the last buffer
          else sm90::bulk_wait_read<kBufs - 1>();
        }
        sync();
        stage<T, N>(buf.address(), a.d[m], u);
        sm90::fence_async_proxy();
        sync();
        if (leader()) {
          sm90::tma_store(maps[kMap], buf.address(), corner.col + 64 * u, corner.row + index * M + 64 * m, corner.plane, corner.batch);
          sm90::bulk_commit();
        }
      }
    }
  }
  // Rows of any pitch: through staging, then a warp for each row, 4-byte stores wherever the address allows.
  template <class T, int kMap, int M, int N, rows U, int kBufs>
  WW_FN void store_elements(const view<T, kMap>& v, coord corner, const acc<M, N, U>& a, store_staging<T, kBufs>& staging) const {
    int end = corner.col + N < v.cols ? corner.col + N : v.cols;
    if (leader()) sm90::bulk_wait_read<0>();
    sync();   // the bulk stores of the tile before have left staging; from here a warp reads back only what it wrote
#pragma unroll
    for (int m = 0; m < M / 64; ++m)
#pragma unroll
      for (int u = 0; u < sm90::panels(N); ++u) {
        uint32_t panel = staging.buf[u % kBufs].address();
        stage<T, N>(panel, a.d[m], u);
        __syncwarp();
        int row = corner.row + index * M + m * 64 + warp * 16, col = corner.col + u * 64 + 2 * lane;
        uint32_t w[16];
#pragma unroll
        for (int r = 0; r < 16; ++r) w[r] = sm90::load_shared(panel + sm90::chunk_offset(warp * 16 + r, lane / 4) + lane % 4 * 4);
#pragma unroll
        for (int r = 0; r < 16; ++r) {
          uint32_t next = __shfl_down_sync(~0u, w[r], 1);
          if (row + r >= v.rows) continue;
          T* p = v.at(corner.batch, corner.plane, row + r, col);
          if (sm90::pair_aligned(p)) {
            if (col + 1 < end) sm90::store_word(p, w[r]);
            else if (col < end) sm90::store_half(p, w[r]);
          } else {
            if (lane == 0 && col < end) sm90::store_half(p, w[r]);
            if (lane < 31 && col + 2 < end) sm90::store_word(p + 1, __byte_perm(w[r], next, 0x5432));
            else if (col + 1 < end) sm90::store_half(p + 1, w[r] >> 16);
          }
        }
        __syncwarp();
      }
  }
};
}  // namespace ww

// Tile types on the host: plain arrays.  Under AddressSanitizer a tile is readable only while its slot is held, an accumulator or operand
// only while no batch has it; an accumulator starts as NaN.
#pragma once
#include <warpwave/tile/tile.h>
namespace ww {

// Its own allocation: one past the tile is a redzone, not the neighbour.
template <class T, int R, int C, major kUse = major::k> struct shared_tile {
  static constexpr int kRows = R, kCols = C;
  static constexpr size_t kBytes = sizeof(T) * size_t(R) * C;
  T* const data;
  shared_tile() : data(static_cast<T*>(std::malloc(kBytes))) {
    if (!data) host::fail("out of memory for a shared tile");
    close();
  }
  shared_tile(const shared_tile&) = delete;
  shared_tile& operator=(const shared_tile&) = delete;
  ~shared_tile() {
    open();
    std::free(data);
  }
  void open() const { host::open_memory(data, kBytes); }
  void close() const { host::close_memory(data, kBytes); }
};

// M rows of a tile of C columns, columns summed over;  M columns of a tile of R rows, rows summed over
template <class T, int M, int C> struct shared_band { const T* p; const T* tile; };
template <class T, int R, int M> struct shared_band_cols { const T* p; const T* tile; int pitch; };
template <class T, int kBufs> struct store_staging {};

namespace host {
// What a batch takes from the op until it is waited for.  A copy is readable, and its original has to be.
template <class T, int M, int N> struct alignas(64) registers {
  static constexpr size_t kBytes = sizeof(T) * M * N;
#if defined(__SANITIZE_ADDRESS__)
  // on the heap: clang leaves accesses to a variable of the frame unchecked when it can prove them in bounds
  T (*const d)[N] = static_cast<T(*)[N]>(std::malloc(kBytes));
  registers() = default;
  registers(const registers& x) { std::memcpy(d, x.d, kBytes); }
  registers& operator=(const registers& x) {
    std::memcpy(d, x.d, kBytes);
    return *this;
  }
  ~registers() {
    open();
    std::free(d);
  }
#else
  T d[M][N];
#endif
  void open() const { open_memory(d, kBytes); }
  void close() const { close_memory(d, kBytes); }
};
}  // namespace host

template <int M, int N, rows kRows = rows::free> struct acc : host::registers<float, M, N> {
  acc() {
    for (int m = 0; m < M; ++m)
      for (int n = 0; n < N; ++n) this->d[m][n] = NAN;
  }
};
template <class T, int M, int K> struct operand : host::registers<T, M, K> {};
template <int M> struct column { float v[M]; };
template <int M> struct partial { float v[M]; };   // a row's sum, still spread over the group

template <int M, int N, rows R> WW_FN void zero(acc<M, N, R>& a) {
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) a.d[m][n] = 0.f;
}
template <int M, int N, rows R, class F> WW_FN void map(acc<M, N, R>& a, F f) {
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) a.d[m][n] = f(a.d[m][n]);
}
template <int M, int N, rows R, class F> WW_FN void map_rows(acc<M, N, R>& a, const column<M>& c, F f) {
  for (int m = 0; m < M; ++m) {
    const float y = c.v[m];
    for (int n = 0; n < N; ++n) a.d[m][n] = f(a.d[m][n], y);
  }
}
template <int M, class F> WW_FN void map(column<M>& c, F f) {
  for (int m = 0; m < M; ++m) c.v[m] = f(c.v[m]);
}
template <int M, class F> WW_FN column<M> zip(const column<M>& a, const column<M>& b, F f) {
  column<M> r;
  for (int m = 0; m < M; ++m) r.v[m] = f(a.v[m], b.v[m]);
  return r;
}
template <int M> WW_FN column<M> fill_column(float x) {
  column<M> r;
  for (int m = 0; m < M; ++m) r.v[m] = x;
  return r;
}
template <int M> WW_FN partial<M> zero_partial() {
  partial<M> r;
  for (int m = 0; m < M; ++m) r.v[m] = 0.f;
  return r;
}
template <int M> WW_FN void scale(partial<M>& s, const column<M>& c) {
  for (int m = 0; m < M; ++m) s.v[m] *= c.v[m];
}
template <int M, int N> WW_FN void add_rows(partial<M>& s, const acc<M, N, rows::reduced>& a) {
  for (int m = 0; m < M; ++m) {
    float sum = s.v[m];
    for (int n = 0; n < N; ++n) sum += a.d[m][n];
    s.v[m] = sum;
  }
}
template <class T, int M, int N> WW_FN operand<T, M, N> as_operand(const acc<M, N, rows::reduced>& a) {
  operand<T, M, N> o;
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) o.d[m][n] = from_float<T>(a.d[m][n]);
  return o;
}

namespace host {
// dst[r][c] = float(src element (r, c))
template <int R, int C, class T> void unpack(float* dst, const T* src, int row_step) {
  for (int r = 0; r < R; ++r) {
    const T* s = src + int64_t(r) * row_step;
    float* d = dst + r * C;
    for (int c = 0; c < C; ++c) d[c] = to_float(s[c]);
  }
}
template <int R, int C, class T> void unpack_transposed(float* dst, const T* src, int col_step) {
  for (int c = 0; c < C; ++c) {
    const T* s = src + int64_t(c) * col_step;
    for (int r = 0; r < R; ++r) dst[r * C + c] = to_float(s[r]);
  }
}
typedef float float4 __attribute__((vector_size(16), aligned(4), may_alias));
WW_FN float4 broadcast(float x) { return float4{x, x, x, x}; }
// d (+)= a b over float32 copies; each element is summed in the order of k, whatever the blocking.
template <int M, int N, int K> void multiply_add(float (*d)[N], const float* a, const float* b, bool accumulate) {
  if (!accumulate)
    for (int m = 0; m < M; ++m)
      for (int n = 0; n < N; ++n) d[m][n] = 0.f;
  if constexpr (M % 4 == 0 && N % 8 == 0) {
    // 4 x 8 elements stay in eight vector registers
    for (int n = 0; n < N; n += 8)
      for (int m = 0; m < M; m += 4) {
        auto at = [&](int i, int j) -> float4& { return *reinterpret_cast<float4*>(&d[m + i][n + 4 * j]); };
        float4 c00 = at(0, 0), c01 = at(0, 1), c10 = at(1, 0), c11 = at(1, 1), c20 = at(2, 0), c21 = at(2, 1), c30 = at(3, 0), c31 = at(3, 1);
        const float* x = a + m * K;
        const float* y = b + n;
        for (int k = 0; k < K; ++k, ++x, y += N) {
          float4 b0 = *reinterpret_cast<const float4*>(y), b1 = *reinterpret_cast<const float4*>(y + 4);
          float4 a0 = broadcast(x[0]), a1 = broadcast(x[K]), a2 = broadcast(x[2 * K]), a3 = broadcast(x[3 * K]);
          c00 += a0 * b0;
          c01 += a0 * b1;
          c10 += a1 * b0;
          c11 += a1 * b1;
          c20 += a2 * b0;
          c21 += a2 * b1;
          c30 += a3 * b0;
          c31 += a3 * b1;
        }
        at(0, 0) = c00, at(0, 1) = c01, at(1, 0) = c10, at(1, 1) = c11, at(2, 0) = c20, at(2, 1) = c21, at(3, 0) = c30, at(3, 1) = c31;
      }
  } else {
    for (int m = 0; m < M; ++m)
      for (int k = 0; k < K; ++k) {
        const float x = a[m * K + k];
        for (int n = 0; n < N; ++n) d[m][n] += x * b[k * N + n];
      }
  }
}
}  // namespace host
}  // namespace ww

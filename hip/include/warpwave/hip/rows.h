// Row groups on AMD: a part of a wave, a wave, or several waves that meet in shared memory.
// Sums and maxima: a lane's own elements in order; then lane ^ 32, ^ 16 ... ^ 1 over the wave (or the part of one); then the waves in order of their index.
// A block walks programs with the stride of the grid, since a dispatch counts fewer than 2^32 threads.
#pragma once
#include <warpwave/tile/rows.h>
namespace ww {
namespace hip {
template <RowShape S> struct row_values { float x[S.chunks * S.vec]; };
struct row_lanes { float x; };
struct sum_of { WW_FN float operator()(float a, float b) const { return a + b; } };
struct max_of { WW_FN float operator()(float a, float b) const { return ww::max(a, b); } };

template <RowShape S> struct row_group {
  static constexpr int kThreads = S.threads, kWaves = kThreads > kWave ? kThreads / kWave : 1;
  static_assert(kThreads > kWave ? kThreads % kWave == 0 : kWave % kThreads == 0);
  static_assert(!S.wide, "float64 is the host's");
  static_assert(S.groups == 1 || kThreads <= kWave, "groups of several waves would share one barrier");
  using values = row_values<S>;
  static constexpr bool kScalarMasks = true;   // a mask of lanes takes scalar registers
  static constexpr int kRun = S.vec;   // elements of a run
  int thread;              // within the group
  WW_LDS float* scratch;   // two sets of kWaves: one barrier a reduction
  int parity;

  WW_FN int64_t rank() const { return 0; }
  WW_FN int64_t span() const { return 1; }
  template <class T> WW_FN row_tiling tiling(const ww::span<T>& s) const {
    int lead = s.stride == 1 ? int((reinterpret_cast<uint64_t>(s.p) & 15) / sizeof(T)) : 0;
    return {s.n, lead, S.tile()};
  }
  template <class T> WW_FN values load(const row_tiling& t, int64_t i, const ww::span<T>& s, float other) const {
    values v;
    const place at(t.first(i), s.n);
    auto p = (WW_GLOBAL T*)s.p + at.first * s.stride;
#pragma unroll
    for (int c = 0; c < S.chunks; ++c) {
      int j = (c * kThreads + thread) * S.vec;
      float* x = &v.x[c * S.vec];
      if (s.stride == 1 && at.whole(j)) load_run(p + j, x);
      else if (at.meets(j)) {
        // addresses clamped into the span, values chosen by masks in vector registers: a compare for each element holds a pair of
        // scalar registers and spilled 20.  Opaque, or all of it is computed ahead of the branch (190 registers, not 95)
        WW_OPAQUE_VECTOR(j);
#pragma unroll
        for (int e = 0; e < S.vec; ++e) {
          uint32_t in = below(j + e, at.end) & ~below(j + e, at.begin);
          int k = j + e < at.end ? j + e : at.end - 1;
          k = k > at.begin ? k : at.begin;
          uint32_t y = __builtin_bit_cast(uint32_t, to_float(load_one(p + k * s.stride)));
          x[e] = __builtin_bit_cast(float, (y & in) | (__builtin_bit_cast(uint32_t, other) & ~in));
        }
      } else {
#pragma unroll
        for (int e = 0; e < S.vec; ++e) x[e] = other;
      }
    }
    return v;
  }
  template <class T> WW_FN void store(const row_tiling& t, int64_t i, const ww::span<T>& s, const values& v) const {
    const place at(t.first(i), s.n);
    auto p = (WW_GLOBAL T*)s.p + at.first * s.stride;
#pragma unroll
    for (int c = 0; c < S.chunks; ++c) {
      int j = (c * kThreads + thread) * S.vec;
      if (s.stride == 1 && at.whole(j)) store_run(p + j, &v.x[c * S.vec]);
      else {
        WW_OPAQUE_VECTOR(j);
#pragma unroll
        for (int e = 0; e < S.vec; ++e)
          if (uint32_t(j + e - at.begin) < uint32_t(at.end - at.begin)) store_one(p + (j + e) * s.stride, v.x[c * S.vec + e]);
      }
    }
  }
  template <class T> WW_FN values load(const row_tiling& t, int64_t i, const ww::dense_span<T>& s, float other) const {
    values v;
    const int64_t first = t.first(i) + thread * S.vec;
    auto p = (WW_GLOBAL T*)s.p + first;
#pragma unroll
    for (int c = 0; c < S.chunks; ++c) {
      if (first + c * kThreads * S.vec < s.n) load_run(p + c * kThreads * S.vec, &v.x[c * S.vec]);
      else {
#pragma unroll
        for (int e = 0; e < S.vec; ++e) v.x[c * S.vec + e] = other;
      }
    }
    return v;
  }
  template <class T> WW_FN void store(const row_tiling& t, int64_t i, const ww::dense_span<T>& s, const values& v) const {
    const int64_t first = t.first(i) + thread * S.vec;
    auto p = (WW_GLOBAL T*)s.p + first;
#pragma unroll
    for (int c = 0; c < S.chunks; ++c)
      if (first + c * kThreads * S.vec < s.n) store_run(p + c * kThreads * S.vec, &v.x[c * S.vec]);
  }
  template <class F> WW_FN void runs(const row_tiling& t, int64_t i, values& v, F f) const {
#pragma unroll
    for (int c = 0; c < S.chunks; ++c) f(v.x + c * S.vec, t.first(i) + (c * kThreads + thread) * S.vec);
  }
  template <class F> WW_FN void runs(const row_tiling& t, int64_t i, values& v, values& w, F f) const {
#pragma unroll
    for (int c = 0; c < S.chunks; ++c) f(v.x + c * S.vec, w.x + c * S.vec, t.first(i) + (c * kThreads + thread) * S.vec);
  }
  template <class T> WW_FN void put(T* p, float x) const {
    if (thread == 0) store_one((WW_GLOBAL T*)p, x);
  }
  WW_FN row_lanes lanes(float x) const { return {x}; }
  WW_FN float sum(const row_lanes& l) { return reduce(l.x, sum_of{}); }
  WW_FN float max(const row_lanes& l) { return reduce(l.x, max_of{}); }
  WW_FN float sum(const values& v) { return reduce(own(v, sum_of{}), sum_of{}); }
  WW_FN float max(const values& v) { return reduce(own(v, max_of{}), max_of{}); }

 private:
  // Where the span lies, counted from the tile's first element
  struct place {
    int64_t first;
    int begin, end;
    WW_FN place(int64_t f, int64_t n) : first(f) {
      int64_t left = n - f;
      begin = f < 0 ? int(-f) : 0;
      end = left > S.tile() ? S.tile() : left < begin ? begin : int(left);
    }
    WW_FN bool whole(int j) const { return j >= begin && j + S.vec <= end; }
    WW_FN bool meets(int j) const { return j + S.vec > begin && j < end; }
  };
  static constexpr int bytes_of(int element) { return S.vec * element < 16 ? S.vec * element : 16; }
  template <class T> WW_FN static auto load_one(WW_GLOBAL T* p) {
    if constexpr (sizeof(T) == 2) {
      uint16_t bits = *(WW_GLOBAL const uint16_t*)p;
      return __builtin_bit_cast(remove_const<T>, bits);
    } else return float(*p);
  }
  template <class T> WW_FN static void store_one(WW_GLOBAL T* p, float x) {
    if constexpr (sizeof(T) == 2) *(WW_GLOBAL uint16_t*)p = from_float<T>(x).bits;
    else *p = x;
  }
  template <class T> struct strip { using type = T; };
  template <class T> struct strip<const T> { using type = T; };
  template <class T> using remove_const = typename strip<T>::type;
  template <class T> WW_FN static void load_run(WW_GLOBAL T* p, float* x) {
    constexpr int kBytes = bytes_of(sizeof(T)), kPer = kBytes / sizeof(T);
    using E = remove_const<T>;
    struct elements { E e[kPer]; };
#pragma unroll
    for (int j = 0; j < S.vec / kPer; ++j) {
      auto raw = ((WW_GLOBAL const anywhere<kBytes>*)p)[j].w;
      auto el = __builtin_bit_cast(elements, raw);
#pragma unroll
      for (int e = 0; e < kPer; ++e) x[j * kPer + e] = to_float(el.e[e]);
    }
  }
  template <class T> WW_FN static void store_run(WW_GLOBAL T* p, const float* x) {
    constexpr int kBytes = bytes_of(sizeof(T)), kPer = kBytes / sizeof(T);
    struct elements { T e[kPer]; };
#pragma unroll
    for (int j = 0; j < S.vec / kPer; ++j) {
      elements el;
#pragma unroll
      for (int e = 0; e < kPer; ++e) el.e[e] = from_float<T>(x[j * kPer + e]);
      ((WW_GLOBAL anywhere<kBytes>*)p)[j].w = __builtin_bit_cast(typename word_of<kBytes>::type, el);
    }
  }
  template <class F> WW_FN static float own(const values& v, F f) {
    float r = v.x[0];
#pragma unroll
    for (int i = 1; i < S.chunks * S.vec; ++i) r = f(r, v.x[i]);
    return r;
  }
  template <class F> WW_FN float reduce(float x, F f) {
    if constexpr (kThreads > 32 && kWave > 32) x = f(x, lane_xor<32>(x));
    if constexpr (kThreads > 16) x = f(x, lane_xor<16>(x));
    if constexpr (kThreads > 8) x = f(x, lane_xor<8>(x));
    if constexpr (kThreads > 4) x = f(x, lane_xor<4>(x));
    if constexpr (kThreads > 2) x = f(x, lane_xor<2>(x));
    if constexpr (kThreads > 1) x = f(x, lane_xor<1>(x));
    if constexpr (kWaves > 1) {
      WW_LDS float* s = scratch + parity * kWaves;
      parity ^= 1;
      if (thread % kWave == 0) s[thread / kWave] = x;
      barrier();
      x = s[0];
#pragma unroll
      for (int w = 1; w < kWaves; ++w) x = f(x, s[w]);
    }
    return x;
  }
};

template <class Op> constexpr int kRowScratch = Op::kShape.threads > kWave ? 2 * Op::kShape.threads / kWave : 1;
template <class Op> WW_FN void run_rows(const typename Op::Params& p, WW_LDS float* scratch) {
  constexpr RowShape S = Op::kShape;
  constexpr int kBlock = S.threads * S.groups;
  int64_t step = int64_t(block_count<kBlock>()) * S.groups;
  int64_t first = int64_t(block_id()) * S.groups + (S.groups > 1 ? thread_id() / S.threads : 0);
  row_group<S> g{thread_id() % S.threads, scratch, 0};
#pragma unroll 1
  for (int64_t r = first; r < p.programs; r += step) Op::run(g, p, r);
}
}  // namespace hip

template <RowShape S, class F> WW_FN void map(hip::row_values<S>& v, F f) {
#pragma unroll
  for (float& x : v.x) x = f(x);
}
template <RowShape S, class F> WW_FN void map(hip::row_values<S>& v, const hip::row_lanes& l, F f) {
#pragma unroll
  for (float& x : v.x) x = f(x, l.x);
}
template <RowShape S, class F> WW_FN void zip(hip::row_values<S>& v, const hip::row_values<S>& w, F f) {
#pragma unroll
  for (int i = 0; i < S.chunks * S.vec; ++i) v.x[i] = f(v.x[i], w.x[i]);
}
template <class F> WW_FN void zip(hip::row_lanes& l, const hip::row_lanes& k, F f) { l.x = f(l.x, k.x); }
template <RowShape S, class F> WW_FN void fold(hip::row_lanes& l, const hip::row_values<S>& v, F f) {
#pragma unroll
  for (float x : v.x) l.x = f(l.x, x);
}
template <RowShape S, class F> WW_FN void fold(hip::row_lanes& l, const hip::row_values<S>& v, const hip::row_lanes& k, F f) {
#pragma unroll
  for (float x : v.x) l.x = f(l.x, x, k.x);
}
}  // namespace ww

// Row ops on NVIDIA: a row group is a part of a warp, a warp, a block, or a cluster of blocks (tile/rows.h says what an op sees).
//
// Element e of run c of thread t is element (c * threads + t) * vec + e of a tile.  A run is read by accesses of up to 16 bytes:
//   tile and span aligned alike   whole words; what straddles an end of the span by elements
//   stride 1, aligned otherwise   16-bit elements: whole words around the run, shifted together; runs whose words leave the span by elements
//   any other stride              by elements, as are 4-byte ones aligned otherwise: shifting would hold twice the registers
// No byte outside the span is touched.
#pragma once
#include <warpwave/cuda/row_access.h>
#include <warpwave/tile/rows.h>
namespace ww::cuda {

template <RowShape S> struct values { float x[S.chunks * S.vec]; };
struct lanes { float x; };

template <RowShape S, class F> WW_FN void map(values<S>& v, F f) {
#pragma unroll
  for (int i = 0; i < S.chunks * S.vec; ++i) v.x[i] = f(v.x[i]);
}
template <RowShape S, class F> WW_FN void map(values<S>& v, lanes l, F f) {
#pragma unroll
  for (int i = 0; i < S.chunks * S.vec; ++i) v.x[i] = f(v.x[i], l.x);
}
template <RowShape S, class F> WW_FN void zip(values<S>& v, const values<S>& w, F f) {
#pragma unroll
  for (int i = 0; i < S.chunks * S.vec; ++i) v.x[i] = f(v.x[i], w.x[i]);
}
template <class F> WW_FN void zip(lanes& l, lanes k, F f) { l.x = f(l.x, k.x); }
template <RowShape S, class F> WW_FN void fold(lanes& l, const values<S>& v, F f) {
#pragma unroll
  for (int i = 0; i < S.chunks * S.vec; ++i) l.x = f(l.x, v.x[i]);
}
template <RowShape S, class F> WW_FN void fold(lanes& l, const values<S>& v, lanes k, F f) {
#pragma unroll
  for (int i = 0; i < S.chunks * S.vec; ++i) l.x = f(l.x, v.x[i], k.x);
}

// An element out of the words of a run, and two elements into a word
template <class T> WW_FN float element(const uint32_t* r, int e) {
  if constexpr (sizeof(T) == 4) return __uint_as_float(r[e]);
  else return to_float(T{uint16_t(e % 2 ? r[e / 2] >> 16 : r[e / 2])});
}
template <class T> WW_FN uint32_t word_of(const float* x, int j) {
  if constexpr (sizeof(T) == 4) return __float_as_uint(x[j]);
  else return pack<T>(x[2 * j], x[2 * j + 1]);
}
template <class T> WW_FN uint32_t bits_of(float x) {
  if constexpr (sizeof(T) == 4) return __float_as_uint(x);
  else return from_float<T>(x).bits;
}

// r[0..n) = the bytes of r[0..n+words of one access) from byte `shift` on; the same shift in every thread
template <int kWords, int kAccess> WW_FN void shift_words(uint32_t* r, int shift) {
  if constexpr (kAccess == 16) {
#pragma unroll
    for (int j = 0; j < kWords + 2; ++j) r[j] = shift & 8 ? r[j + 2] : r[j];
  }
  if constexpr (kAccess >= 8) {
#pragma unroll
    for (int j = 0; j < kWords + 1; ++j) r[j] = shift & 4 ? r[j + 1] : r[j];
  }
#pragma unroll
  for (int j = 0; j < kWords; ++j) r[j] = funnel_right(r[j], r[j + 1], (shift & 3) * 8);
}

template <RowShape S> class row_group {
  static constexpr int kThreads = S.threads, kChunks = S.chunks, kVec = S.vec, kSize = S.tile();
  static constexpr int kLanes = kThreads < 32 ? kThreads : 32, kWarps = kThreads / kLanes;
  static constexpr bool kCluster = S.groups == 1 && kThreads % 32 == 0;   // may be launched so that a cluster owns a row
  static_assert(kThreads >= 2 && (kThreads % 32 == 0 || 32 % kThreads == 0), "a multiple of the warp, or a divisor of it");
  static_assert((kVec & (kVec - 1)) == 0 && kVec <= 32 && S.groups * kThreads <= 1024 && (kWarps == 1 || S.groups < 16));

 public:
  using Values = values<S>;
  struct Shared {
    alignas(16) float warp[S.groups][2][kWarps];
    float peer[2][8];
  };

  WW_FN explicit row_group(Shared& s) : shared(s) {
    thread = thread_of_block() % kThreads;
    index = thread_of_block() / kThreads;
    if constexpr (kCluster) {
      cluster = cluster_size();
      if (cluster > 1) cluster_started();   // waited for before the first exchange: a peer's memory exists once it has started
    }
  }
  WW_FN void leave() {
    if constexpr (kCluster)
      if (cluster > 1 && !joined) cluster_wait();
  }

  WW_FN int rank() const {
    if constexpr (kCluster) return cluster_rank();
    else return 0;
  }
  WW_FN int span() const { return cluster; }

  template <class T> WW_FN row_tiling tiling(const ww::span<T>& s) const {
    constexpr int kPer16 = 16 / int(sizeof(T));
    int lead = s.stride == 1 ? int(reinterpret_cast<uint64_t>(s.p) / sizeof(T)) % kPer16 : 0;
    return {s.n, lead, kSize};
  }

  template <class T> WW_FN Values load(const row_tiling& t, int64_t i, const ww::span<T>& s, float other) const {
    using E = std::remove_const_t<T>;
    constexpr int kBytes = int(sizeof(E)), kRun = kVec * kBytes, kAccess = kRun < 16 ? kRun : 16;
    const place at(t.first(i), s.n);
    const char* p = reinterpret_cast<const char*>(s.p) + (at.first + thread * kVec) * s.stride * kBytes;
    raw<E> r;
    const uint32_t fill = sizeof(E) == 4 ? bits_of<E>(other) : bits_of<E>(other) * 0x10001u;
    const int shift = s.stride == 1 ? int(reinterpret_cast<uint64_t>(p)) & (kAccess - 1) : kAccess;
    if (shift == 0) load_runs<E, false>(r, at, p, 0, fill);
    else if (kBytes < 4 && kAccess > kBytes && shift < kAccess) load_runs<E, (kBytes < 4 && kAccess > kBytes)>(r, at, p, shift, fill);
    else {
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        load_elements<E>(r.w[c], at, p + c * kThreads * kVec * s.stride * kBytes, s.stride * kBytes, c, fill);
      }
    }
    Values v;
#pragma unroll
    for (int k = 0; k < kChunks * kVec; ++k) v.x[k] = element<E>(r.w[k / kVec], k % kVec);
    return v;
  }

  template <class T> WW_FN void store(const row_tiling& t, int64_t i, const ww::span<T>& s, const Values& v) const {
    constexpr int kBytes = int(sizeof(T)), kRun = kVec * kBytes, kAccess = kRun < 16 ? kRun : 16;
    const place at(t.first(i), s.n);
    char* p = reinterpret_cast<char*>(s.p) + (at.first + thread * kVec) * s.stride * kBytes;
    int off = s.stride == 1 ? int(reinterpret_cast<uint64_t>(p)) & (kAccess - 1) : 1;
    if (off == 0) {
      store_runs<T, kAccess>(v, at, p);
    } else if (kRun > 4 && off % 4 == 0) {
      store_runs<T, (kRun > 4 ? 4 : kAccess)>(v, at, p);
    } else {
      // The branch around each run bounds how far ahead addresses are worked out: without it they took 40 registers (nvcc 13.5, 32 elements)
      const int64_t step = s.stride * kBytes;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        if (!at.meets(run(c), run(c) + kVec)) continue;
#pragma unroll
        for (int e = 0; e < kVec; ++e) {
          uint32_t r = bits_of<T>(v.x[c * kVec + e]);
          store_bytes<kBytes>(p + (c * kThreads * kVec + e) * step, &r, at.has(run(c) + e));
        }
      }
    }
  }

  WW_FN ww::cuda::lanes lanes(float x) const { return {x}; }
  WW_FN float max(ww::cuda::lanes l) { return reduce(l.x, larger{}); }
  WW_FN float sum(ww::cuda::lanes l) { return reduce(l.x, plus{}); }
  WW_FN float max(const Values& v) {
    float x = v.x[0];
#pragma unroll
    for (int k = 1; k < kChunks * kVec; ++k) x = max_nan(x, v.x[k]);
    return reduce(x, larger{});
  }
  WW_FN float sum(const Values& v) {
    float x = v.x[0];
#pragma unroll
    for (int k = 1; k < kChunks * kVec; ++k) x += v.x[k];
    return reduce(x, plus{});
  }

  int index = 0;   // of the group in its block

 private:
  struct larger { WW_FN float operator()(float a, float b) const { return max_nan(a, b); } };
  struct plus { WW_FN float operator()(float a, float b) const { return a + b; } };
  Shared& shared;
  int thread, cluster = 1, turn = 0;
  bool joined = false;

  // Where the span lies, counted from the tile's first element; cut off a little beyond the tile, so that 32 bits hold it.
  struct place {
    static constexpr int kMargin = 64;
    int64_t first;
    int begin, end;
    WW_FN place(int64_t f, int64_t n) : first(f) {
      begin = f > kMargin ? -kMargin : int(-f);
      int64_t left = n - f;
      end = left > kSize + kMargin ? kSize + kMargin : left < 0 ? 0 : int(left);
    }
    WW_FN bool has(int j) const { return j >= begin && j < end; }
    WW_FN bool has(int from, int to) const { return from >= begin && to <= end; }
    WW_FN bool meets(int from, int to) const { return to > begin && from < end; }
  };
  WW_FN int run(int c) const { return (c * kThreads + thread) * kVec; }

  // The runs of this thread that must go by elements: at most one at each end of the span, since such runs are neighbours
  // (two at most) and a thread's runs are not.
  template <class F> WW_FN void find_edges(const place& at, F whole, int& head, int& tail) const {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      if (!at.meets(run(c), run(c) + kVec) || whole(c)) continue;
      if (run(c) <= at.begin + kVec) head = c;
      else tail = c;
    }
  }
  // The words of a thread's runs
  template <class E> struct raw {
    static constexpr int kWords = kVec * int(sizeof(E)) < 4 ? 1 : kVec * int(sizeof(E)) / 4;
    uint32_t w[kChunks][kWords];
  };
  // Run c element by element, `step` bytes apart, the first at p
  template <class E> WW_FN void load_elements(uint32_t* w, const place& at, const char* p, int64_t step, int c, uint32_t fill) const {
    constexpr int kBytes = int(sizeof(E));
    uint32_t x[kVec];
#pragma unroll
    for (int e = 0; e < kVec; ++e) {
      x[e] = fill;
      load_bytes<kBytes, true>(&x[e], p + e * step, at.has(run(c) + e));
    }
#pragma unroll
    for (int j = 0; j < raw<E>::kWords; ++j) {
      if constexpr (kBytes == 4 || kVec == 1) w[j] = x[j];
      else w[j] = low_halves(x[2 * j], x[2 * j + 1]);
    }
  }

  // p: this thread's first run.  kShifted: words begin `shift` bytes before it.
  template <class E, bool kShifted> WW_FN void load_runs(raw<E>& r, const place& at, const char* p, int shift, uint32_t fill) const {
    constexpr int kBytes = int(sizeof(E)), kRun = kVec * kBytes, kAccess = kRun < 16 ? kRun : 16;
    constexpr int kRegs = kAccess < 4 ? 1 : kAccess / 4, kWords = raw<E>::kWords, kMore = kShifted ? kRegs : 0;
    constexpr int kExtra = kShifted ? kAccess / kBytes : 0;
    const int back = kShifted ? shift / kBytes : 0;
    auto whole = [&](int c) { return at.has(run(c) - back, run(c) - back + kVec + kExtra); };
    uint32_t w[kChunks][kWords + kMore];
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      bool in = whole(c);
#pragma unroll
      for (int k = 0; k < kWords + kMore; ++k) w[c][k] = fill;
#pragma unroll
      for (int k = 0; k < kWords + kMore; k += kRegs) load_bytes<kAccess, kShifted>(&w[c][k], p - shift + c * kThreads * kRun + k * 4, in);
    }
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      if constexpr (kShifted) shift_words<kWords, kAccess>(w[c], shift);
#pragma unroll
      for (int k = 0; k < kWords; ++k) r.w[c][k] = w[c][k];
    }
    int head = -1, tail = -1;
    uint32_t h[kWords], l[kWords];
    const bool edge = !at.has(-back, kSize - back + kExtra);
    if (edge) {
      find_edges(at, whole, head, tail);
      if (head >= 0) load_elements<E>(h, at, p + head * kThreads * kRun, kBytes, head, fill);
      if (tail >= 0) load_elements<E>(l, at, p + tail * kThreads * kRun, kBytes, tail, fill);
    }
    if (edge) {
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
#pragma unroll
        for (int k = 0; k < kWords; ++k) r.w[c][k] = c == head ? h[k] : c == tail ? l[k] : r.w[c][k];
      }
    }
  }

  template <class T> WW_FN void store_edge(const Values& v, const place& at, char* p, int c) const {
    constexpr int kBytes = int(sizeof(T));
    float x[kVec];
#pragma unroll
    for (int e = 0; e < kVec; ++e) x[e] = v.x[e];
#pragma unroll
    for (int k = 1; k < kChunks; ++k) {
#pragma unroll
      for (int e = 0; e < kVec; ++e) x[e] = k == c ? v.x[k * kVec + e] : x[e];
    }
#pragma unroll
    for (int e = 0; e < kVec; ++e) {
      uint32_t r = bits_of<T>(x[e]);
      store_bytes<kBytes>(p + (c * kThreads * kVec + e) * kBytes, &r, at.has(run(c) + e));
    }
  }
  template <class T, int kAccess> WW_FN void store_runs(const Values& v, const place& at, char* p) const {
    constexpr int kBytes = int(sizeof(T)), kRun = kVec * kBytes, kRegs = kAccess < 4 ? 1 : kAccess / 4;
    auto whole = [&](int c) { return at.has(run(c), run(c) + kVec); };
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      uint32_t r[kRun < 4 ? 1 : kRun / 4];
      if constexpr (kRun < 4) {
        r[0] = bits_of<T>(v.x[c * kVec]);
      } else {
#pragma unroll
        for (int k = 0; k < kRun / 4; ++k) r[k] = word_of<T>(&v.x[c * kVec], k);
      }
      bool in = whole(c);
#pragma unroll
      for (int a = 0; a < kRun / kAccess; ++a) store_bytes<kAccess>(p + c * kThreads * kRun + a * kAccess, &r[a * kRegs], in);
    }
    if (at.has(0, kSize)) return;
    int head = -1, tail = -1;
    find_edges(at, whole, head, tail);
    if (head >= 0) store_edge<T>(v, at, p, head);
    if (tail >= 0) store_edge<T>(v, at, p, tail);
  }

  // Lanes by a butterfly, then warps, then blocks of the cluster, each in index order: the same bits in every thread.  Two sets of
  // slots in turn make one barrier enough: whoever writes a set again has passed the barrier of the set between.
  template <class F> WW_FN float reduce(float x, F f) {
    const unsigned mask = kLanes == 32 ? 0xffffffffu : ((1u << (kLanes % 32)) - 1) << (thread_of_block() % 32 / kLanes * kLanes);
#pragma unroll
    for (int o = kLanes / 2; o > 0; o /= 2) x = f(x, shuffle_xor(mask, x, o));
    if constexpr (kWarps > 1) {
      float* slot = shared.warp[index][turn];
      if (thread % 32 == 0) slot[thread / 32] = x;
      barrier(S.groups > 1 ? 1 + index : 0, kThreads);
      x = slot[0];
#pragma unroll
      for (int w = 1; w < kWarps; ++w) x = f(x, slot[w]);
    }
    if constexpr (kCluster) {
      if (cluster > 1) {
        if (!joined) cluster_wait();
        joined = true;
        store_peer(&shared.peer[turn][cluster_rank()], thread, x, thread < cluster);
        cluster_arrive();
        cluster_wait();
        x = shared.peer[turn][0];
        for (int k = 1; k < cluster; ++k) x = f(x, shared.peer[turn][k]);
      }
    }
    turn ^= 1;
    return x;
  }
};

template <class Op> constexpr int row_block_threads = Op::kShape.threads * Op::kShape.groups;
// For __launch_bounds__: 0 leaves the choice to ptxas, which then saves registers for occupancy.  1 tells it that one block will do: a held
// softmax row of 512x4x8 took 72 registers in place of 60, one block on an SM in place of two (nvcc 13.5, sm_90a).
template <class Op> constexpr int row_min_blocks = 0;

// One block's share of a launch: `groups` programs, or its part of one that a cluster owns.
template <class Op> WW_FN void run_rows(const typename Op::Params& p) {
  using Group = row_group<Op::kShape>;
  __shared__ typename Group::Shared shared;
  int64_t program = int64_t(Op::kShape.groups == 1 ? cluster_index() : blockIdx.x) * Op::kShape.groups + thread_of_block() / Op::kShape.threads;
  if (program >= p.programs) return;
  Group g(shared);
  Op::run(g, p, program);
  g.leave();
}

}  // namespace ww::cuda

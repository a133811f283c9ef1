// Row ops on NVIDIA: a row group is a part of a warp, a warp, a block, or a cluster of blocks (tile/rows.h says what an op sees).
//
// Element e of run c of thread t is element (c * threads + t) * vec + e of a tile.  A run is read by accesses of up to 16 bytes:
//   tile and span aligned alike   whole words; what straddles an end of the span by elements
//   stride 1, aligned otherwise   16-bit elements: whole words around the run, shifted together; runs whose words leave the span by elements
//   any other stride              by elements, as are 4-byte ones aligned otherwise: shifting would hold twice the registers
// No byte outside the span is touched.
//
// An op with kRing is run by blocks that stay.  The tiles of their coming rows lie in a ring of kRing slots in shared memory, brought by the copy
// engine (the 16-byte words that lie in the span; what sticks out goes by elements when the tile is read).  A slot is asked for anew by the
// last warp that is through with it, so nobody waits; as every warp goes through the slots in order, so do they, and what is asked next
// needs no lock.
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

template <class E> WW_FN uint32_t fill_of(float other) { return sizeof(E) == 4 ? bits_of<E>(other) : bits_of<E>(other) * 0x10001u; }

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

struct no_stream {
  static constexpr int kRing = 0;
};
// Stream: slots of the ring (kRing), and ask(group, slot, program), which asks for a program's tile and gives the program after it
template <RowShape S, bool kSpans, class Stream = no_stream> class row_group {
  static constexpr int kThreads = S.threads, kChunks = S.chunks, kVec = S.vec, kSize = S.tile();
  static constexpr int kRing = Stream::kRing;
  static constexpr int kLanes = kThreads < 32 ? kThreads : 32, kWarps = kThreads / kLanes;
  static constexpr bool kCluster = kSpans && S.groups == 1 && kThreads % 32 == 0;   // may be launched so that a cluster owns a row
  static_assert(!S.wide, "float64 is the host's");
  static_assert(kThreads >= 2 && (kThreads % 32 == 0 || 32 % kThreads == 0), "a multiple of the warp, or a divisor of it");
  static_assert((kVec & (kVec - 1)) == 0 && kVec <= 32 && S.groups * kThreads <= 1024 && (kWarps == 1 || S.groups < 16));

 public:
  using Values = values<S>;
  static constexpr int kRun = S.vec;   // elements of a run
  struct Shared {
    alignas(16) float warp[S.groups][2][kWarps];
    alignas(8) float peer[2][8][2];
    alignas(8) uint64_t full[2];                           // counts what peers post
    uint64_t fetched[S.groups][kRing > 0 ? kRing : 1];     // counts what the copy engine brings
    int64_t coming[S.groups];                              // the program whose tile is asked for next
    int through[S.groups][kRing > 0 ? kRing : 1];          // warps that are through with a slot
  };

  WW_FN explicit row_group(Shared& s, Stream a = {}, char* stages = nullptr) : stream(a), shared(s) {
    thread = thread_of_block() % kThreads;
    index = thread_of_block() / kThreads;
    if constexpr (kCluster) {
      cluster = cluster_size();
      if (cluster > 1) {
        if (thread == 0) {
          open_mailbox(&s.full[0]);
          open_mailbox(&s.full[1]);
          publish_mailboxes();
        }
        cluster_started();   // waited for before the first exchange: a peer's memory exists once it has started
      }
    }
    if constexpr (kRing > 0) {
      static_assert(kThreads % 32 == 0);
      stage = stages + index * kRing * kSlot;
      if (thread == 0) {
#pragma unroll 1
        for (int k = 0; k < kRing; ++k) {
          open_mailbox(&s.fetched[index][k]);
          s.through[index][k] = 0;
        }
        publish_mailboxes();
        s.coming[index] = stream.program;
#pragma unroll 1
        for (int k = 0; k < kRing; ++k) s.coming[index] = stream.ask(*this, k, s.coming[index]);
      }
      meet();
    }
  }
  // By one thread
  template <class T> WW_FN void fetch(const row_tiling& t, const ww::span<T>& s, int slot) {
    constexpr int kBytes = int(sizeof(T)), kPer16 = 16 / kBytes;
    static_assert(kVec == kPer16 && kSize * kBytes == kSlot);
    const place at(t.first(rank()), s.n);
    int from = ((at.begin > 0 ? at.begin : 0) + kPer16 - 1) / kPer16 * kPer16, to = (at.end < kSize ? at.end : kSize) / kPer16 * kPer16;
    int bytes = to > from ? (to - from) * kBytes : 0;   // none where the row ends before this block's tile: the mail comes all the same
    expect_mail(&shared.fetched[index][slot], bytes);
    if (bytes > 0) fetch_bytes(stage + slot * kSlot + from * kBytes, s.p + at.first + from, bytes, &shared.fetched[index][slot]);
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
    int lead = s.stride == 1 ? int(reinterpret_cast<uint64_t>(s.p) % 16 / sizeof(T)) : 0;
    return {s.n, lead, kSize};
  }

  template <class T> WW_FN Values load(const row_tiling& t, int64_t i, const ww::span<T>& s, float other) {
    if constexpr (kRing > 0) {
      Values v = from_ring(t, i, s, other, slot, parity);
      through(slot);
      ++slot;
      if (slot == kRing) {
        slot = 0;
        parity ^= 1;
      }
      return v;
    } else {
      return from_memory(t, i, s, other);
    }
  }
  template <class T> WW_FN void store(const row_tiling& t, int64_t i, const ww::span<T>& s, const Values& v) const {
    constexpr int kBytes = int(sizeof(T)), kRun = kVec * kBytes, kAccess = kRun < 16 ? kRun : 16;
    const place at(t.first(i), s.n);
    char* p = reinterpret_cast<char*>(s.p) + (at.first + thread * kVec) * s.stride * kBytes;
    int off = s.stride == 1 ? int(reinterpret_cast<uint64_t>(p)) & (kAccess - 1) : 1;
    if (kRing > 0 || off == 0) {   // an op with a ring writes rows that lie as those it reads
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

  template <class T> WW_FN Values load(const row_tiling& t, int64_t i, const ww::dense_span<T>& s, float other) const {
    using E = std::remove_const_t<T>;
    constexpr int kBytes = int(sizeof(E)), kRun = kVec * kBytes, kAccess = kRun < 16 ? kRun : 16, kRegs = kAccess < 4 ? 1 : kAccess / 4;
    const int64_t first = t.first(i) + thread * kVec;
    raw<E> r;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      bool in = first + c * kThreads * kVec < s.n;
#pragma unroll
      for (int k = 0; k < raw<E>::kWords; ++k) r.w[c][k] = fill_of<E>(other);
#pragma unroll
      for (int k = 0; k < raw<E>::kWords; k += kRegs) {
        load_bytes<kAccess>(&r.w[c][k], reinterpret_cast<const char*>(s.p + first + c * kThreads * kVec) + k * 4, in);
      }
    }
    return unpacked<E>(r);
  }
  template <class T> WW_FN void store(const row_tiling& t, int64_t i, const ww::dense_span<T>& s, const Values& v) const {
    constexpr int kBytes = int(sizeof(T)), kRun = kVec * kBytes, kAccess = kRun < 16 ? kRun : 16, kRegs = kAccess / 4;
    const int64_t first = t.first(i) + thread * kVec;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      bool in = first + c * kThreads * kVec < s.n;
      uint32_t r[kRun / 4];
#pragma unroll
      for (int k = 0; k < kRun / 4; ++k) r[k] = word_of<T>(&v.x[c * kVec], k);
#pragma unroll
      for (int k = 0; k < kRun / 4; k += kRegs) {
        store_bytes<kAccess>(reinterpret_cast<char*>(s.p + first + c * kThreads * kVec) + k * 4, &r[k], in);
      }
    }
  }

  WW_FN ww::cuda::lanes lanes(float x) const { return {x}; }
  WW_FN float max(ww::cuda::lanes l) { return reduce(l.x, larger{}); }
  WW_FN float sum(ww::cuda::lanes l) { return reduce(l.x, plus{}); }
  template <class F> WW_FN void runs(const row_tiling& t, int64_t i, Values& v, F f) const {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) f(v.x + c * kVec, t.first(i) + run(c));
  }
  template <class F> WW_FN void runs(const row_tiling& t, int64_t i, Values& v, Values& w, F f) const {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) f(v.x + c * kVec, w.x + c * kVec, t.first(i) + run(c));
  }
  template <class T> WW_FN void put(T* p, float x) const {
    if (thread == 0 && rank() == 0) *p = from_float<T>(x);
  }
  template <class F> WW_FN row_max_sum<float> max_sum(ww::cuda::lanes m, ww::cuda::lanes l, F scale) {
    float top = in_block(m.x, larger{}), sum = in_block(l.x * scale(m.x, top), plus{});
    if constexpr (kCluster) {
      if (cluster > 1) {
        auto* all = exchange(top, sum);
        top = all[0][0];
        for (int k = 1; k < cluster; ++k) top = max_nan(top, all[k][0]);
        sum = all[0][1] * scale(all[0][0], top);
        for (int k = 1; k < cluster; ++k) sum += all[k][1] * scale(all[k][0], top);
      }
    }
    return {top, sum};
  }
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
  Stream stream;

 private:
  struct larger { WW_FN float operator()(float a, float b) const { return max_nan(a, b); } };
  struct plus { WW_FN float operator()(float a, float b) const { return a + b; } };
  Shared& shared;
  static constexpr int kSlot = kSize * 16 / kVec;   // bytes of a row ahead
  int thread, cluster = 1, turn = 0, box = 0, phase = 0;
  int slot = 0, parity = 0;   // of the next tile to load
  char* stage = nullptr;
  bool joined = false;

  WW_FN void meet() const {
    if constexpr (kWarps > 1) barrier(S.groups > 1 ? 1 + index : 0, kThreads);
    else __syncwarp();
  }

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
    // Whether an end of the span may lie within a run; the margin is a multiple of every run
    WW_FN bool splits(int vec) const { return ((begin | end) & (vec - 1)) != 0; }
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
      load_bytes<kBytes>(&x[e], p + e * step, at.has(run(c) + e));
    }
#pragma unroll
    for (int j = 0; j < raw<E>::kWords; ++j) {
      if constexpr (kBytes == 4 || kVec == 1) w[j] = x[j];
      else w[j] = low_halves(x[2 * j], x[2 * j + 1]);
    }
  }

  // Counts the warps that have read a slot; the last asks for what comes next into it.
  WW_FN void through(int slot) {
    __syncwarp();
    if (thread % 32 == 0 && count_in(&shared.through[index][slot]) == kWarps - 1) {
      shared.through[index][slot] = 0;
      shared.coming[index] = stream.ask(*this, slot, shared.coming[index]);
    }
  }

  template <class E> WW_FN static Values unpacked(const raw<E>& r) {
    Values v;
#pragma unroll
    for (int k = 0; k < kChunks * kVec; ++k) v.x[k] = element<E>(r.w[k / kVec], k % kVec);
    return v;
  }
  template <class T> WW_FN Values from_memory(const row_tiling& t, int64_t i, const ww::span<T>& s, float other) {
    using E = std::remove_const_t<T>;
    constexpr int kBytes = int(sizeof(E)), kRun = kVec * kBytes, kAccess = kRun < 16 ? kRun : 16;
    const place at(t.first(i), s.n);
    const char* p = reinterpret_cast<const char*>(s.p) + (at.first + thread * kVec) * s.stride * kBytes;
    raw<E> r;
    const uint32_t fill = fill_of<E>(other);
    const int shift = s.stride == 1 ? int(reinterpret_cast<uint64_t>(p)) & (kAccess - 1) : kAccess;
    if (shift == 0) load_runs<E, false>(r, at, p, 0, fill);
    else if (kBytes < 4 && kAccess > kBytes && shift < kAccess) load_runs<E, (kBytes < 4 && kAccess > kBytes)>(r, at, p, shift, fill);
    else {
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        load_elements<E>(r.w[c], at, p + c * kThreads * kVec * s.stride * kBytes, s.stride * kBytes, c, fill);
      }
    }
    return unpacked<E>(r);
  }
  template <class T> WW_FN Values from_ring(const row_tiling& t, int64_t i, const ww::span<T>& s, float other, int slot, int parity) {
    using E = std::remove_const_t<T>;
    constexpr int kRun = kVec * int(sizeof(E));
    static_assert(kRun == 16);
    const place at(t.first(i), s.n);
    const char* own = stage + slot * kSlot + thread * kRun;
    raw<E> r;
    await_mail(&shared.fetched[index][slot], parity);
    if (at.has(0, kSize)) {
#pragma unroll
      for (int c = 0; c < kChunks; ++c) load_shared(r.w[c], own + c * kThreads * kRun);
    } else {
      const uint32_t fill = fill_of<E>(other);
      auto whole = [&](int c) { return at.has(run(c), run(c) + kVec); };
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
#pragma unroll
        for (int k = 0; k < 4; ++k) r.w[c][k] = fill;
        if (whole(c)) load_shared(r.w[c], own + c * kThreads * kRun);
      }
      const char* p = reinterpret_cast<const char*>(s.p) + (at.first + thread * kVec) * int(sizeof(E));
      if (at.splits(kVec)) load_edges<E>(r, at, p, fill, whole);
    }
    return unpacked<E>(r);
  }
  // The runs that stick out of the span, by elements
  template <class E, class F> WW_FN void load_edges(raw<E>& r, const place& at, const char* p, uint32_t fill, F whole) const {
    constexpr int kBytes = int(sizeof(E)), kRun = kVec * kBytes, kWords = raw<E>::kWords;
    int head = -1, tail = -1;
    uint32_t h[kWords], l[kWords];
    find_edges(at, whole, head, tail);
    if (head >= 0) load_elements<E>(h, at, p + head * kThreads * kRun, kBytes, head, fill);
    if (tail >= 0) load_elements<E>(l, at, p + tail * kThreads * kRun, kBytes, tail, fill);
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int k = 0; k < kWords; ++k) r.w[c][k] = c == head ? h[k] : c == tail ? l[k] : r.w[c][k];
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
      for (int k = 0; k < kWords + kMore; k += kRegs) {
        load_bytes<kAccess>(&w[c][k], p - shift + c * kThreads * kRun + k * 4, in);
      }
    }
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      if constexpr (kShifted) shift_words<kWords, kAccess>(w[c], shift);
#pragma unroll
      for (int k = 0; k < kWords; ++k) r.w[c][k] = w[c][k];
    }
    if (!at.has(-back, kSize - back + kExtra) && (kShifted || at.splits(kVec))) load_edges<E>(r, at, p, fill, whole);
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
    if (at.has(0, kSize) || !at.splits(kVec)) return;
    int head = -1, tail = -1;
    find_edges(at, whole, head, tail);
    if (head >= 0) store_edge<T>(v, at, p, head);
    if (tail >= 0) store_edge<T>(v, at, p, tail);
  }

  // Lanes by a butterfly, then warps, in index order: the same bits in every thread.  Two sets of slots in turn make one barrier enough:
  // whoever writes a set again has passed the barrier of the set between.
  template <class F> WW_FN float in_block(float x, F f) {
    const unsigned mask = kLanes == 32 ? 0xffffffffu : ((1u << (kLanes % 32)) - 1) << (thread_of_block() % 32 / kLanes * kLanes);
#pragma unroll
    for (int o = kLanes / 2; o > 0; o /= 2) x = f(x, shuffle_xor(mask, x, o));
    if constexpr (kWarps > 1) {
      float* own = shared.warp[index][turn];
      if (thread % 32 == 0) own[thread / 32] = x;
      meet();
      x = own[0];
#pragma unroll
      for (int w = 1; w < kWarps; ++w) x = f(x, own[w]);
    }
    turn ^= 1;
    return x;
  }
  // Gives x and y to every block of the cluster; the pairs of all, by rank.  A set of slots is used again two exchanges later: whoever posts to
  // it has had this block's pair of the exchange between, posted once all its threads had met.
  // A mailbox in place of two passes of the cluster's barrier: 8192 bf16 by pairs of 128x4x8 went from 1.28 x copy to 1.05 (H200, 2026-11-30).
  WW_FN const float (*exchange(float x, float y))[2] {
    if (!joined) cluster_wait();
    joined = true;
    auto* all = shared.peer[box];
    post_peer(all[cluster_rank()], &shared.full[box], thread, x, y, thread < cluster);
    if (thread == 0) expect_mail(&shared.full[box], cluster * 8);
    await_mail(&shared.full[box], phase);
    phase ^= box;
    box ^= 1;
    return all;
  }
  template <class F> WW_FN float reduce(float x, F f) {
    x = in_block(x, f);
    if constexpr (kCluster) {
      if (cluster > 1) {
        auto* all = exchange(x, 0.f);
        x = all[0][0];
        for (int k = 1; k < cluster; ++k) x = f(x, all[k][0]);
      }
    }
    return x;
  }
};

template <class Op> constexpr int row_block_threads = Op::kShape.threads * Op::kShape.groups;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
constexpr bool kHasCopyEngine = true;
#else
constexpr bool kHasCopyEngine = false;
#endif
template <class Op> constexpr int ring_slots = 0;
template <class Op> requires requires { Op::kRing; } constexpr int ring_slots<Op> = kHasCopyEngine ? Op::kRing : 0;
template <class Op> constexpr int row_shared_bytes = ring_slots<Op> * Op::kShape.tile() * (16 / Op::kShape.vec) * Op::kShape.groups;

// For __launch_bounds__: 0 leaves the choice to ptxas, which then saves registers for occupancy.  1 tells it that one block will do: a held
// softmax row of 512x4x8 took 72 registers in place of 60, one block on an SM in place of two (nvcc 13.5, sm_90a).  Blocks that stay: as
// many as their rings leave room for, 1024 threads of an SM at most; left to itself ptxas took 88 registers.
template <class Op> constexpr int row_threads_per_sm = ring_slots<Op> == 0 ? 0 : Op::kShape.chunks * Op::kShape.vec > 32 ? 512 : 1024;
template <class Op> requires requires { Op::kThreadsPerUnit; } constexpr int row_threads_per_sm<Op> = Op::kThreadsPerUnit;
template <class Op> constexpr int row_min_blocks =
    ring_slots<Op> > 0 && row_shared_bytes<Op> > 110 * 1024 ? 1 : row_threads_per_sm<Op> / row_block_threads<Op>;

// Whether a cluster may own a row.  Elementwise ops, which say no, are spared the search for their cluster: a division, before the first load
template <class Op> constexpr bool row_spans = false;
template <class Op> requires requires { Op::kSpans; } constexpr bool row_spans<Op> = Op::kSpans;

template <class Op> struct stream_of {
  static constexpr int kRing = ring_slots<Op>;
  const typename Op::Params& p;
  int64_t program, step;
  // A group and a slot: what Op::fetch sees
  template <class G> struct slot_of {
    G& g;
    int slot;
    template <class T> WW_FN row_tiling tiling(const ww::span<T>& s) const { return g.tiling(s); }
    template <class T> WW_FN void fetch(const row_tiling& t, const ww::span<T>& s) { g.fetch(t, s, slot); }
  };
  template <class G> WW_FN int64_t ask(G& g, int slot, int64_t program) const {
    slot_of<G> to{g, slot};
    if (program < p.programs) Op::fetch(to, p, program);
    return program + step;
  }
};
// One block's share of a launch: `groups` programs, or its part of one that a cluster owns; with a ring, as many more as the grid leaves.
template <class Op> WW_FN void run_rows(const typename Op::Params& p) {
  constexpr int kGroups = Op::kShape.groups;
  unsigned owner = blockIdx.x;
  if constexpr (row_spans<Op> && kGroups == 1) {
    if (cluster_size() > 1) owner = cluster_index();
  }
  int64_t program = int64_t(owner) * kGroups + thread_of_block() / Op::kShape.threads;
  if (program >= p.programs) return;
  if constexpr (ring_slots<Op> > 0) {
    using Group = row_group<Op::kShape, row_spans<Op>, stream_of<Op>>;
    __shared__ typename Group::Shared shared;
    extern __shared__ __align__(128) char stages[];
    const int64_t step = int64_t(kGroups == 1 ? gridDim.x / unsigned(cluster_size()) : gridDim.x) * kGroups;
    Group g(shared, {p, program, step}, stages);
#pragma unroll 1
    for (; program < p.programs; program += step) {
      Op::run(g, p, program);
    }
    g.leave();
  } else {
    using Group = row_group<Op::kShape, row_spans<Op>>;
    __shared__ typename Group::Shared shared;
    Group g(shared);
    Op::run(g, p, program);
    g.leave();
  }
}

}  // namespace ww::cuda

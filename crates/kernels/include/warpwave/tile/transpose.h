// Transposing ops: what they see of device memory, and what targets share of how they do it.
//
// A transposing op is a policy struct:
//   static constexpr TransposeShape kTranspose    threads of a block, side of its square tile, bytes of an element
//   struct Params { ...; int64_t programs; }      programs: how many times run is called, once for each tile
//   template <class G> static void run(G& g, const Params& p, int64_t program)
// Elements are words that nobody looks into.  The group, a block of threads, offers (bodies in <warpwave/target/transpose.h>):
//   g.transpose(out, x, row, col)     element (row + i, col + j) of plane x becomes element (col + j, row + i) of plane out, for i and j below the
//                                     side, where it lies in both.  row and col are multiples of the side.
//
// On a GPU the tile lies in shared memory as rows of 16-byte chunks (transpose_layout).  Planes of stride 1 whose rows begin on 16 bytes are
// read and written by chunks; what sticks out of the last whole chunk, and planes that lie otherwise, by elements.
#pragma once
#include <warpwave/tile/types.h>
namespace ww {

struct TransposeShape { int threads, side, bytes; };
template <class Op> concept transposing_op = requires { Op::kTranspose; };

template <int kBytes> struct word_of_bytes;
template <> struct word_of_bytes<2> { using type = uint16_t; };
template <> struct word_of_bytes<4> { using type = uint32_t; };
template <> struct word_of_bytes<8> { using type = uint64_t; };
template <TransposeShape S> using transposed_word = typename word_of_bytes<S.bytes>::type;

// A matrix in memory: element (r, c) at p + r*row_stride + c*stride; strides in elements
template <class T> struct plane { T* p; int64_t rows, cols, row_stride, stride; };

// Chunk q of row r lies at place(r, q).  Free of bank conflicts, of 32 banks of 4 bytes, are
//   a row's chunks, eight at a time, by 16-byte accesses (8 threads a cycle)
//   one row of each of eight groups of kVec rows that follow each other, the four words of one chunk of each (32 threads)
// Proved for every coordinate in the tests of the host target.
template <TransposeShape S> struct transpose_layout {
  static constexpr int kVec = 16 / S.bytes, kChunks = S.side / kVec, kPitch = S.side * S.bytes, kSize = S.side * kPitch;
  static_assert(S.bytes <= 4 && kChunks % 8 == 0 && S.threads % 32 == 0 && S.threads % kChunks == 0);
  WW_FN static constexpr int place(int r, int q) { return r * kPitch + (q ^ ((r / kVec ^ r) & 7)) * 16; }
};

// One thread's share of a transpose.  M: the target's memory and threads:
//   int thread(), void meet()                                 thread of the block; barrier of the block
//   void load16(uint32_t* r, const W* p, bool in), store16    16 bytes of device memory, where `in`
//   uint32_t load1(const W* p, bool in), store1(p, x, in)     an element
//   put16(at, r), get4(at), put1(at, x), get1(at)             shared memory, by bytes from the tile's first
template <TransposeShape S, class M> struct transposing_block {
  using W = transposed_word<S>;
  using L = transpose_layout<S>;
  static constexpr int kVec = L::kVec, kChunks = L::kChunks, kSide = S.side;
  M m;
  bool used = false;

  template <class A, class B> WW_FN void transpose(const plane<A>& out, const plane<B>& x, int64_t row, int64_t col) {
    const int h = extent(x.rows - row), w = extent(x.cols - col);
    const W* from = x.p + row * x.row_stride + col * x.stride;
    W* to = out.p + col * out.row_stride + row * out.stride;
    if (used) m.meet();   // the tile before has been read
    used = true;
    int whole = by_chunks(x) ? w / kVec : 0;
    if (whole > 0) take_chunks(from, x.row_stride, h, whole, whole * kVec < w ? whole : kChunks);
    if (whole == 0) take_elements<kSide>(from, x, h, 0, w);
    else if (whole * kVec < w) take_elements<kVec>(from, x, h, whole * kVec, w);
    m.meet();
    whole = by_chunks(out) ? h / kVec : 0;
    if (whole > 0) give_chunks(to, out.row_stride, w, whole);
    if (whole == 0) give_elements<kSide>(to, out, w, 0, h);
    else if (whole * kVec < h) give_elements<kVec>(to, out, w, whole * kVec, h);
  }

 private:
  // elements that a thread moves at a time, of `all`
  WW_FN static constexpr int batch(int all) { return all > 8 ? 8 : all > 1 ? all : 1; }
  WW_FN static int extent(int64_t left) { return left < kSide ? int(left) : kSide; }
  template <class A> WW_FN static bool by_chunks(const plane<A>& a) {
    return a.stride == 1 && ((reinterpret_cast<uint64_t>(a.p) | uint64_t(a.row_stride) * S.bytes) & 15) == 0;
  }

  // Chunks [0, chunks) of h rows. Chunk `other` is left to other threads
  WW_FN void take_chunks(const W* from, int64_t row_stride, int h, int chunks, int other) {
    constexpr int kPass = S.threads / kChunks, kHeld = kSide / kPass;
    static_assert(kSide % kPass == 0);
    const int q = m.thread() % kChunks, first = m.thread() / kChunks;
    uint32_t r[kHeld][4] = {};
    for (int i = 0; i < kHeld; ++i) {
      const int at = first + i * kPass;
      m.load16(r[i], from + at * row_stride + q * kVec, at < h && q < chunks);
    }
    if (q == other) return;
    for (int i = 0; i < kHeld; ++i) m.put16(L::place(first + i * kPass, q), r[i]);
  }
  // Eight neighbours hold a word, of one column or two, of eight groups of rows; such words side by side make chunks of out
  WW_FN void give_chunks(W* to, int64_t row_stride, int w, int chunks) {
    constexpr int kColumns = 4 / S.bytes, kUnits = kChunks * kChunks / 8;
    const int word = m.thread() / 8 % 4;
    for (int u = m.thread() / 32; u < kUnits; u += S.threads / 32) {
      const int q = u % kChunks, k = u / kChunks * 8 + m.thread() % 8;
      uint32_t v[kVec], o[kColumns][4];
      for (int j = 0; j < kVec; ++j) v[j] = m.get4(L::place(k * kVec + j, q) + word * 4);
      for (int j = 0; j < 4; ++j) {
        if constexpr (kColumns == 2) {
          o[0][j] = (v[2 * j] & 0xffffu) | v[2 * j + 1] << 16;
          o[1][j] = v[2 * j] >> 16 | (v[2 * j + 1] & 0xffff0000u);
        } else {
          o[0][j] = v[j];
        }
      }
      for (int e = 0; e < kColumns; ++e) {
        const int c = q * kVec + word * kColumns + e;
        m.store16(to + c * row_stride + k * kVec, o[e], c < w && k < chunks);
      }
    }
  }
  // Columns [from_col, w) of h rows, at most kSpan: a thread stays in its column
  template <int kSpan, class A> WW_FN void take_elements(const W* from, const plane<A>& x, int h, int from_col, int w) {
    constexpr int kPass = S.threads / kSpan, kBatch = batch(kSide / kPass);
    const int c = from_col + m.thread() % kSpan;
    const W* p = from + m.thread() / kSpan * x.row_stride + c * x.stride;
    for (int r = m.thread() / kSpan; r < kSide; r += kPass * kBatch) {
      uint32_t v[kBatch];
      for (int b = 0; b < kBatch; ++b) {
        v[b] = m.load1(p, r + b * kPass < h && c < w);
        p += kPass * x.row_stride;
      }
      for (int b = 0; b < kBatch; ++b) m.put1(L::place(r + b * kPass, c / kVec) + c % kVec * S.bytes, v[b]);
    }
  }
  // Rows [from_row, h) of w columns, at most kSpan: a thread stays in its row
  template <int kSpan, class A> WW_FN void give_elements(W* to, const plane<A>& out, int w, int from_row, int h) {
    constexpr int kPass = S.threads / kSpan, kBatch = batch(kSide / kPass);
    const int r = from_row + m.thread() % kSpan;
    W* p = to + m.thread() / kSpan * out.row_stride + r * out.stride;
    for (int c = m.thread() / kSpan; c < kSide; c += kPass * kBatch) {
      for (int b = 0; b < kBatch; ++b) {
        const int at = c + b * kPass;
        m.store1(p, m.get1(L::place(r, at / kVec) + at % kVec * S.bytes), at < w && r < h);
        p += kPass * out.row_stride;
      }
    }
  }
};

}  // namespace ww

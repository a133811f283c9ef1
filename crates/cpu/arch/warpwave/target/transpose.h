// Transposing ops on the host: small squares, so that neither side's lines are read or written twice.
#pragma once
#include <warpwave/tile/transpose.h>
namespace ww {
namespace host {
template <TransposeShape S> struct transposing_block {
  template <class A, class B> void transpose(const plane<A>& out, const plane<B>& x, int64_t row, int64_t col) const {
    constexpr int64_t kSquare = 16;
    const int64_t rows = row + S.side < x.rows ? row + S.side : x.rows, cols = col + S.side < x.cols ? col + S.side : x.cols;
    for (int64_t r0 = row; r0 < rows; r0 += kSquare)
      for (int64_t c0 = col; c0 < cols; c0 += kSquare)
        for (int64_t c = c0; c < c0 + kSquare && c < cols; ++c)
          for (int64_t r = r0; r < r0 + kSquare && r < rows; ++r) out.p[c * out.row_stride + r * out.stride] = x.p[r * x.row_stride + c * x.stride];
  }
};
template <class Op> void run_transposes(const typename Op::Params& p, int64_t first, int64_t last) {
  transposing_block<Op::kTranspose> g;
  for (int64_t i = first; i < last; ++i) Op::run(g, p, i);
}
}  // namespace host
}  // namespace ww

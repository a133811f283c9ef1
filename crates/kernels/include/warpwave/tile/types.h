// Types that every target shares: element types by name, views of device memory, tile coordinates.
// A translation unit includes <warpwave/target/entry.h> of its target first; that header brings WW_FN, the fixed-width
// integers, ww::f16 and ww::bf16, and this file.
#pragma once
namespace ww {

enum class dtype { f32, f16, bf16, f64, i64, i32 };
template <dtype D> struct elem_of;
template <> struct elem_of<dtype::f32> { using type = float; };
template <> struct elem_of<dtype::f64> { using type = double; };
template <> struct elem_of<dtype::f16> { using type = f16; };
template <> struct elem_of<dtype::bf16> { using type = bf16; };
template <> struct elem_of<dtype::i64> { using type = int64_t; };
template <> struct elem_of<dtype::i32> { using type = int32_t; };
template <dtype D> using elem = typename elem_of<D>::type;

// What the kernel argument block holds for a matrix operand, the same 56 bytes on every target.
// Element (batch, plane, row, col) lies at p + batch*batch_stride + plane*plane_stride + row*row_stride + col; strides in elements.
// kMap: which tensor map of the launch describes the same memory where the target copies by tensor map; -1: none.
constexpr int kRowsAligned = 1;   // view::flags: plan promises that base, row, plane and batch pitches are multiples of 16 bytes
template <class T, int kMap = -1> struct view {
  static constexpr int kTensorMap = kMap;
  T* p;
  int64_t row_stride, plane_stride, batch_stride;
  int rows, cols, planes, batches;
  int flags, reserved;
  WW_FN T* at(int batch, int plane, int row, int col) const { return p + batch * batch_stride + plane * plane_stride + row * row_stride + col; }
};

// One float per matrix row (logsumexp, row bias): element (batch, plane, row) at p + batch*batch_stride + plane*plane_stride + row.
template <class T> struct column_view {
  T* p;
  int64_t plane_stride, batch_stride;
  int rows, reserved;
};

// The corner of a tile, in elements of a view.
struct coord { int row, col, plane = 0, batch = 0; };

// Tile number -> (m, n), tiles ordered in bands of `width` rows of tiles: the blocks that run at once share operands in the L2.
struct tile_index { int m, n; };
WW_FN tile_index banded(int i, int tiles_m, int tiles_n, int width) {
  int band = i / (width * tiles_n), first = band * width;
  int height = tiles_m - first < width ? tiles_m - first : width, j = i - band * width * tiles_n;
  return {first + j % height, j / height};
}

template <bool B, class X, class Y> struct pick { using type = X; };
template <class X, class Y> struct pick<false, X, Y> { using type = Y; };
template <bool B, class X, class Y> using pick_t = typename pick<B, X, Y>::type;

WW_FN int ceil_div(int a, int b) { return (a + b - 1) / b; }

// An index in device memory, which nobody checked: of 32 or 64 bits, element i.
struct index_view {
  const void* p;
  int64_t stride;
  int wide, reserved;   // wide: 64 bits
  WW_FN int64_t at(int64_t i) const {
    return wide ? static_cast<const int64_t*>(p)[i * stride] : int64_t(static_cast<const int32_t*>(p)[i * stride]);
  }
};

}  // namespace ww

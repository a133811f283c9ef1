// Where things lie, as arithmetic: shared tiles, wgmma descriptors, register fragments.  No intrinsic: cuda/tests/layout_sm90.cpp checks
// every coordinate on the host.  16-bit elements.
#pragma once
#include <cstdint>
#ifdef __CUDACC__
#define WW_LAYOUT __host__ __device__ constexpr
#else
#define WW_LAYOUT constexpr
#endif
namespace ww::sm90 {

// A tile of `rows` rows is panels of 64 columns, one after the other; a row of a panel is 128 bytes, its eight 16-byte chunks permuted by
// the row's low three bits (TMA and wgmma call this the 128-byte swizzle; panels begin on 1024 bytes).
constexpr int kPanelCols = 64, kRowBytes = 128, kChunk = 16;
WW_LAYOUT int panels(int cols) { return (cols + kPanelCols - 1) / kPanelCols; }
WW_LAYOUT int panel_bytes(int rows) { return rows * kRowBytes; }
WW_LAYOUT int chunk_offset(int row, int chunk) { return row * kRowBytes + ((chunk ^ (row & 7)) * kChunk); }
WW_LAYOUT int tile_offset(int rows, int row, int col) {
  return col / kPanelCols * panel_bytes(rows) + chunk_offset(row, col % kPanelCols / 8) + col % 8 * 2;
}

// Matrix descriptor of wgmma: start, leading and stride offset in units of 16 bytes, 128-byte swizzle.
WW_LAYOUT uint64_t descriptor(uint32_t start, int leading, int stride) {
  return uint64_t(1) << 62 | uint64_t(stride >> 4) << 32 | uint64_t(leading >> 4) << 16 | (start & 0x3FFFF) >> 4;
}
// Summed dimension along a row: 8-row groups 1024 bytes apart; the leading offset has no meaning.
WW_LAYOUT uint64_t descriptor_k(uint32_t start) { return descriptor(start, 16, 1024); }
// Summed dimension down the rows: panels of 64 columns `panel` bytes apart, 8-row groups 1024 bytes apart.
WW_LAYOUT uint64_t descriptor_mn(uint32_t start, int panel) { return descriptor(start, panel, 1024); }
// Bytes from an operand's start to its step k, 16 wide.
WW_LAYOUT int step_k(int panel, int k) { return k / 4 * panel + k % 4 * 32; }
WW_LAYOUT int step_mn(int k) { return k * 16 * kRowBytes; }

// Register i of a thread in a 64 x N accumulator; also, by pairs, what stmatrix writes and a left operand in registers holds.
WW_LAYOUT int fragment_row(int warp, int lane, int i) { return warp * 16 + lane / 4 + i / 2 % 2 * 8; }
WW_LAYOUT int fragment_col(int lane, int i) { return i / 4 * 8 + lane % 4 * 2 + i % 2; }
// The address a lane gives ldmatrix/stmatrix (x4) for the 16 x 16 block `step` of its warp's rows.
WW_LAYOUT int matrix_offset(int warp, int lane, int step) { return chunk_offset(warp * 16 + lane % 16, step * 2 + lane / 16); }

}  // namespace ww::sm90

// Where elements lie: shared tiles, accumulators, fragments of the matrix instructions.  Constant expressions of plain integers, so that
// hip/tests/layout_amd.cpp proves them on the host for every coordinate.
//
// A *cell* is 16 rows x 8*kParts columns of an accumulator, kParts = lanes/16 of a wave: lane l holds row l % 16 and the eight neighbours
// from column l/16 * 8 on.  Products are formed transposed (d^T = b^T a^T), which puts a row of d into one lane index of the
// instruction; the order in which columns are handed to it makes a lane's eight values neighbours.
#pragma once
namespace ww::hip {

// ---- shared tiles: kept as [mn][k] whatever their use, in chunks of 16 bytes of k
// The chunk is xored with the row so that these patterns spread evenly over the banks: 16 rows of one chunk in order; the rows of
// mfma_row and wmma_row; rows 8 apart (the transposing put); one row in order.
constexpr int swizzle(int row, int chunks) {
  int f = (row >> 3 & 1) << 2 | (row >> 4 & 3);
  return chunks % 8 == 0 ? (row & 7) ^ f : (row >> 1 & 3) ^ (f >> 1 & 3) ^ (f & 1);
}
constexpr int chunk_index(int row, int chunk, int chunks) { return row * chunks + (chunk ^ swizzle(row, chunks)); }

// ---- CDNA: v_mfma_f32_16x16x16 (16-bit) and 16x16x4 (float32).  A: row lane%16, k = lane/16 * (K/4) + element; B the same by columns;
// D: row lane/16*4 + register, column lane%16.
constexpr int mfma_a_lane(int i, int k, int depth) { return i + 16 * (k / (depth / 4)); }
constexpr int mfma_a_element(int, int k, int depth) { return k % (depth / 4); }
constexpr int mfma_d_lane(int i, int j) { return j + 16 * (i / 4); }
constexpr int mfma_d_register(int i, int) { return i % 4; }
// Row of b (a column of d) that row i of the transposed product `half` stands for, within a cell of 32 columns
constexpr int mfma_row(int i, int half) { return i / 4 * 8 + half * 4 + i % 4; }

// ---- RDNA 3: v_wmma_f32_16x16x16.  A: row lane%16, element = k, the same in both halves of the wave; D: row 2*register + lane/16.
constexpr int wmma_d_lane(int i, int j) { return j + 16 * (i % 2); }
constexpr int wmma_d_register(int i, int) { return i / 2; }
constexpr int wmma_row(int i) { return i % 2 * 8 + i / 2; }

// ---- cells
constexpr int cell_lane(int row, int col) { return row + 16 * (col / 8); }
constexpr int cell_element(int, int col) { return col % 8; }

}  // namespace ww::hip

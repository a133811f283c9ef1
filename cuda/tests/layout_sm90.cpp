// The address arithmetic of cuda/arch/sm90 against the hardware's rules, for every coordinate.
//   c++ -std=c++20 -Icuda/arch/sm90 cuda/tests/layout_sm90.cpp -o layout_sm90 && ./layout_sm90
#include <warpwave/target/layout.h>
#include <cstdio>
#include <set>
#include <utility>
using namespace ww::sm90;
namespace {
constexpr int kMaxShared = 232448;
int failures = 0;
void expect(bool ok, const char* what, int a, int b, int c, int d) {
  if (ok || ++failures > 10) return;
  std::printf("%s: wrong at %d %d %d %d\n", what, a, b, c, d);
}
// 128-byte swizzle: address bits 4..6 are xored with bits 7..9
int swizzle(int address) { return address ^ (address >> 7 & 7) << 4; }

// TMA writes a box of 64 columns as rows of 128 bytes, then swizzles.
void tiles() {
  for (int rows : {8, 16, 64, 80, 128, 256})
    for (int cols : {8, 64, 72, 128, 256}) {
      std::set<int> seen;
      for (int r = 0; r < rows; ++r)
        for (int c = 0; c < cols; ++c) {
          int at = tile_offset(rows, r, c);
          expect(at == c / 64 * rows * 128 + swizzle(r * 128 + c % 64 * 2), "tile_offset", rows, cols, r, c);
          expect(at >= 0 && at + 2 <= panels(cols) * panel_bytes(rows) && seen.insert(at).second, "tile_offset in range and injective", rows, cols, r, c);
        }
    }
}
int start_of(uint64_t d) { return int(d & 0x3FFF) << 4; }
int leading_of(uint64_t d) { return int(d >> 16 & 0x3FFF) << 4; }
int stride_of(uint64_t d) { return int(d >> 32 & 0x3FFF) << 4; }

// Element (i, k) of the 16-wide step that a descriptor names; i runs along the dimension that is not summed.
int along_k(uint64_t d, int i, int k) { return swizzle(start_of(d) + i / 8 * stride_of(d) + i % 8 * 128 + k * 2); }
int along_mn(uint64_t d, int i, int k) { return swizzle(start_of(d) + i / 64 * leading_of(d) + k / 8 * stride_of(d) + k % 8 * 128 + i % 64 * 2); }

void operands() {
  for (int base : {0, 1024, 196608})
    for (int rows : {64, 80, 128, 256})
      for (int cols : {16, 64, 80, 128, 256})
        for (int step = 0; step < cols / 16 && base + panels(cols) * panel_bytes(rows) <= kMaxShared; ++step)   // summed along the columns
          for (int i = 0; i < rows; ++i)
            for (int k = 0; k < 16; ++k) {
              uint64_t d = descriptor_k(base) + (step_k(panel_bytes(rows), step) >> 4);
              expect(along_k(d, i, k) == base + tile_offset(rows, i, step * 16 + k), "descriptor_k", rows, cols, i, step * 16 + k);
            }
  for (int base : {0, 1024, 131072})
    for (int rows : {16, 64, 80, 128})
      for (int cols : {8, 64, 72, 128, 256})
        for (int step = 0; step < rows / 16 && base + panels(cols) * panel_bytes(rows) <= kMaxShared; ++step)   // summed along the rows
          for (int i = 0; i < cols; ++i)
            for (int k = 0; k < 16; ++k) {
              uint64_t d = descriptor_mn(base, panel_bytes(rows)) + (step_mn(step) >> 4);
              expect(along_mn(d, i, k) == base + tile_offset(rows, step * 16 + k, i), "descriptor_mn", rows, cols, step * 16 + k, i);
            }
  expect(descriptor_k(0) >> 62 == 1 && descriptor_mn(0, 8192) >> 62 == 1, "128-byte swizzle", 0, 0, 0, 0);
  // fields do not run into each other at the far end of shared memory with the largest panel
  uint64_t far = descriptor_mn(kMaxShared / 1024 * 1024 - 1024, panel_bytes(256));
  expect(start_of(far) == kMaxShared / 1024 * 1024 - 1024 && leading_of(far) == 32768 && stride_of(far) == 1024, "descriptor fields", 0, 0, 0, 0);
}

// A wgmma accumulator of 64 x n: each element in one register of one thread.
void fragments() {
  for (int n : {8, 64, 72, 256}) {
    std::set<std::pair<int, int>> seen;
    for (int warp = 0; warp < 4; ++warp)
      for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < n / 2; ++i) {
          int row = fragment_row(warp, lane, i), col = fragment_col(lane, i);
          expect(row >= 0 && row < 64 && col >= 0 && col < n && seen.insert({row, col}).second, "fragment", n, warp, lane, i);
        }
    expect(int(seen.size()) == 64 * n, "fragment covers", n, 0, 0, 0);
  }
}
// stmatrix x4: lane l gives the address of row l % 8 of matrix l / 8; word l % 4 of row l / 4 of matrix j comes from register j of lane l,
// which holds the accumulator's pair 4 * step + j.
void staging() {
  for (int warp = 0; warp < 4; ++warp)
    for (int step = 0; step < 4; ++step)
      for (int lane = 0; lane < 32; ++lane)
        for (int j = 0; j < 4; ++j)
          for (int half = 0; half < 2; ++half) {
            int at = matrix_offset(warp, j * 8 + lane / 4, step) + lane % 4 * 4 + half * 2, i = 8 * step + 2 * j + half;
            expect(at == tile_offset(64, fragment_row(warp, lane, i), fragment_col(lane, i)), "stmatrix", warp, lane, step, j);
          }
  // what store_elements reads back: lane l takes columns 2l and 2l + 1 of a row
  for (int row = 0; row < 64; ++row)
    for (int lane = 0; lane < 32; ++lane) expect(chunk_offset(row, lane / 4) + lane % 4 * 4 == tile_offset(64, row, 2 * lane), "read back", row, lane, 0, 0);
}
}  // namespace
int main() {
  tiles();
  operands();
  fragments();
  staging();
  std::printf("layout_sm90: %d failures\n", failures);
  return failures != 0;
}

// Layouts of hip/layout.h, for every coordinate, against the published register layouts; bank conflicts of the patterns that the kernels use.
//   g++ -std=c++20 -O1 -I hip/include hip/tests/layout_amd.cpp
#include <warpwave/hip/layout.h>
#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>
#include <vector>
using namespace ww::hip;
static int passed, failed;
static void check(bool ok, const char* what, int a = 0, int b = 0) {
  ok ? ++passed : ++failed;
  if (!ok && failed < 20) printf("FAILED %s (%d, %d)\n", what, a, b);
}
// The published general form (dense MFMA, one block): A: lane = i + M (k / KL), element = k % KL with KL = K / (64 / M);
// D, 4 rows of a register group: register = i % 4 + 4 (i / (4 MI)), lane = j + N ((i / 4) % MI) with MI = 64 / N
static int published_a_lane(int i, int k, int M, int K) { return i + M * (k / (K / (64 / M))); }
static int published_a_element(int k, int M, int K) { return k % (K / (64 / M)); }
static int published_d_register(int i, int N) { return i % 4 + 4 * (i / (4 * (64 / N))); }
static int published_d_lane(int i, int j, int N) { return j + N * (i / 4 % (64 / N)); }

static void instructions() {
  for (int K : {4, 16})
    for (int i = 0; i < 16; ++i)
      for (int k = 0; k < K; ++k) {
        check(mfma_a_lane(i, k, K) == published_a_lane(i, k, 16, K), "mfma operand lane", i, k);
        check(mfma_a_element(i, k, K) == published_a_element(k, 16, K), "mfma operand element", i, k);
      }
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) {
      check(mfma_d_lane(i, j) == published_d_lane(i, j, 16), "mfma result lane", i, j);
      check(mfma_d_register(i, j) == published_d_register(i, 16), "mfma result register", i, j);
      check(wmma_d_lane(i, j) == j + 16 * (i % 2) && wmma_d_register(i, j) == i / 2, "wmma result", i, j);
    }
}
// d^T = b^T a^T: row i of the product is column `mfma_row(i, half)` of the cell, column j its row.  The lane and register where the
// instruction leaves it must be those that the cell says.
static void cells() {
  std::set<std::pair<int, int>> seen;
  for (int half = 0; half < 2; ++half)
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 16; ++j) {
        int row = j, col = mfma_row(i, half);
        check(mfma_d_lane(i, j) == cell_lane(row, col), "cell of 32: lane", row, col);
        check(half * 4 + mfma_d_register(i, j) == cell_element(row, col), "cell of 32: element", row, col);
        seen.insert({cell_lane(row, col), cell_element(row, col)});
      }
  check(seen.size() == 16 * 32, "cell of 32: one to one");
  seen.clear();
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) {
      int row = j, col = wmma_row(i);
      check(wmma_d_lane(i, j) == cell_lane(row, col) && wmma_d_register(i, j) == cell_element(row, col), "cell of 16", row, col);
      seen.insert({cell_lane(row, col), cell_element(row, col)});
    }
  check(seen.size() == 16 * 16, "cell of 16: one to one");
}
// Both operands of a step take k in the same order, and every k once.
static void steps() {
  std::set<int> all;
  for (int part = 0; part < 2; ++part)   // 16-bit: a lane's 8 neighbours, four an instruction
    for (int k = 0; k < 16; ++k) {
      int q = mfma_a_lane(0, k, 16) / 16, e = mfma_a_element(0, k, 16);
      all.insert(q * 8 + part * 4 + e);
    }
  check(all.size() == 32 && *all.rbegin() == 31, "16-bit step covers 32 k");
  all.clear();
  for (int part = 0; part < 8; ++part)   // float32: one an instruction
    for (int k = 0; k < 4; ++k) all.insert(mfma_a_lane(0, k, 4) / 16 * 8 + part);
  check(all.size() == 32 && *all.rbegin() == 31, "float32 step covers 32 k");
  // a cell turned into an operand: lane and element of (row, col) are those of operand row, k = col
  for (int row = 0; row < 16; ++row)
    for (int col = 0; col < 32; ++col) check(cell_lane(row, col) == row + 16 * (col / 8) && cell_element(row, col) == col % 8, "operand of a cell", row, col);
}
static void tiles() {
  for (int chunks : {4, 8, 12, 16, 32})
    for (int row = 0; row < 128; ++row) {
      std::set<int> seen;
      for (int c = 0; c < chunks; ++c) {
        int i = chunk_index(row, c, chunks);
        check(i >= row * chunks && i < (row + 1) * chunks, "chunk stays in its row", row, c);
        seen.insert(i);
      }
      check(int(seen.size()) == chunks, "chunks of a row are distinct", row, chunks);
    }
}
// Cycles of an access over the fewest possible: 32 banks of 4 bytes.  Lanes are served in groups that take one cycle without conflict.
struct access { int row, k_bytes, bytes; };
static double conflict(const std::vector<access>& lanes, int chunks) {
  int bytes = lanes[0].bytes, group = 128 / bytes < int(lanes.size()) ? 128 / bytes : int(lanes.size());
  if (bytes < 4) group = 32;
  int cycles = 0, best = 0;
  for (size_t g = 0; g < lanes.size(); g += group) {
    std::vector<std::set<int>> bank(32);
    for (size_t l = g; l < g + group; ++l) {
      int at = chunk_index(lanes[l].row, lanes[l].k_bytes / 16, chunks) * 16 + lanes[l].k_bytes % 16;
      for (int w = 0; w < (bytes < 4 ? 1 : bytes / 4); ++w) bank[at / 4 % 32 + w].insert(at / 4 + w);
    }
    size_t most = 0;
    for (auto& b : bank) most = std::max(most, b.size());
    cycles += int(most);
    ++best;
  }
  return double(cycles) / best;
}
static void banks() {
  for (int chunks : {4, 8, 12, 16}) {
    auto worst = [&](int wave, auto f) {
      double w = 0;
      for (int base = 0; base < 128; base += 32)
        for (int c = 0; c + 3 < chunks; c += 4) {
          std::vector<access> l;
          for (int i = 0; i < wave; ++i) l.push_back(f(i, base, c));
          w = std::max(w, conflict(l, chunks));
        }
      return w;
    };
    double a9 = worst(64, [](int l, int base, int c) { return access{base + l % 16, (c + l / 16) * 16, 16}; });
    double b9 = worst(64, [](int l, int base, int c) { return access{base + mfma_row(l % 16, 0), (c + l / 16) * 16, 16}; });
    double b9h = worst(64, [](int l, int base, int c) { return access{base + mfma_row(l % 16, 1), (c + l / 16) * 16, 16}; });
    double a11 = worst(32, [](int l, int base, int c) { return access{base + l % 16, c * 16, 16}; });
    double b11 = worst(32, [](int l, int base, int c) { return access{base + wmma_row(l % 16), c * 16, 16}; });
    double put = worst(64, [&](int l, int base, int) { return access{base + l / chunks, l % chunks * 16, 16}; });
    printf("%2d chunks: gfx9 A %.2f, B %.2f %.2f; gfx11 A %.2f, B %.2f; put %.2f", chunks, a9, b9, b9h, a11, b11, put);
    if (chunks % 8 == 0) {
      for (int turn : {2, 4, 8}) {   // 16 units along mn, then along k; element e of the chunk
        double w = 0;
        for (int e = 0; e < 8; ++e) {
          std::vector<access> l;
          for (int i = 0; i < 64; ++i) l.push_back({i % 16 * 8 + e, i / 16 * turn * 2, turn * 2});
          w = std::max(w, conflict(l, chunks));
        }
        printf("; turning put of %d: %.2f", turn, w);
        check(w <= (turn == 8 ? 1 : 2), "turning put", turn, chunks);
      }
    }
    printf("\n");
    for (double w : {a9, b9, b9h, a11, b11, put}) check(w == 1, "bank conflicts", chunks, int(w * 100));
  }
}
int main() {
  instructions();
  cells();
  steps();
  tiles();
  banks();
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}

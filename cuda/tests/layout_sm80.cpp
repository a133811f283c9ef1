// Proves arch/sm80/warpwave/target/layout.h for every coordinate, on the host.
//   g++ -std=c++20 -Icuda/arch/sm80 cuda/tests/layout_sm80.cpp && ./a.out
#include <warpwave/target/layout.h>
#include <cstdio>
#include <set>
#include <utility>
#include <vector>
using namespace ww::sm80;

static int passed = 0, failed = 0;
static void check(bool ok, const char* what, int a = 0, int b = 0, int c = 0) {
  ok ? ++passed : ++failed;
  if (!ok && failed < 20) std::printf("FAILED %s %d %d %d\n", what, a, b, c);
}

// The 16 bytes a lane names lie in one of eight groups of four banks; eight lanes are served together.
static bool distinct_groups(const int (&chunk)[8]) {
  int seen = 0;
  for (int c : chunk) seen |= 1 << c % 8;
  return seen == 255;
}

template <int kChunks> void tile() {
  constexpr int kRows = 64;
  std::set<int> all;
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kChunks; ++c) {
      int at = chunk_at<kChunks>(r, c);
      check(at / kChunks == r, "a chunk stays in its row", kChunks, r, c);
      all.insert(at);
    }
  check(int(all.size()) == kRows * kChunks, "every chunk has a place of its own", kChunks);
  for (int r = 0; r + 16 < kRows; ++r) check(swizzle<kChunks>(r) == swizzle<kChunks>(r + 16), "rows 16 apart share a swizzle", kChunks, r);
  // ldmatrix: eight rows at one chunk
  for (int r = 0; r + 8 <= kRows; ++r)
    for (int c = 0; c < kChunks; ++c) {
      int at[8];
      for (int i = 0; i < 8; ++i) at[i] = chunk_at<kChunks>(r + i, c);
      if (r % 8 == 0) check(distinct_groups(at), "eight rows, no bank twice", kChunks, r, c);
    }
  // copies: eight chunks in a row
  for (int id = 0; id + 8 <= kRows * kChunks; id += 8) {
    int at[8];
    for (int i = 0; i < 8; ++i) at[i] = chunk_at<kChunks>((id + i) / kChunks, (id + i) % kChunks);
    check(distinct_groups(at), "eight copies, no bank twice", kChunks, id);
  }
  // float32: a lane's four words along k, its row of a (8 rows, neighbours) and of b (every second of 8 rows)
  for (int r = 0; r < kRows; r += 8)
    for (int c = 0; c < kChunks; ++c)
      for (int first = 0; first < 32; first += 8)
        for (int e = 0; e < 2; ++e) {
          std::set<int> rows_a, groups_a, rows_b, groups_b;
          for (int lane = first; lane < first + 8; ++lane) {
            int a = r + acc_place(lane, 0).row, b = r + acc_place(lane, e).col;
            rows_a.insert(a);
            groups_a.insert(chunk_at<kChunks>(a, c) % 8);
            rows_b.insert(b);
            groups_b.insert(chunk_at<kChunks>(b, c) % 8);
          }
          check(rows_a.size() == groups_a.size() && rows_b.size() == groups_b.size(), "float32 rows, no bank twice", kChunks, r, c);
        }
}
template <int... C> void tiles(std::integer_sequence<int, C...>) { (tile<2 * (C + 1)>(), ...); }

// What ldmatrix leaves in register j of a lane: two elements of the 8 x 8 matrix whose rows lanes 8j..8j+7 named.
template <bool kTransposed> place loaded(int lane, int j, int half, place (*source)(int)) {
  int row = kTransposed ? lane % 4 * 2 + half : lane / 4, col = kTransposed ? lane / 4 : lane % 4 * 2 + half;
  place named = source(8 * j + row);
  return {named.row, named.col * 8 + col};
}
static bool same(place a, int row, int col) { return a.row == row && a.col == col; }
static void fragments() {
  for (int lane = 0; lane < 32; ++lane)
    for (int j = 0; j < 4; ++j)
      for (int half = 0; half < 2; ++half) {
        place a = a_place(lane, j, half), b = b_place(lane, j % 2, half);
        int n = b.col + j / 2 * 8;
        check(same(loaded<false>(lane, j, half, a_source<false>), a.row, a.col), "a, rows of k", lane, j, half);
        check(same(loaded<true>(lane, j, half, a_source<true>), a.col, a.row), "a, rows of m", lane, j, half);
        check(same(loaded<false>(lane, j, half, b_source<false>), n, b.row), "b, rows of k", lane, j, half);
        check(same(loaded<true>(lane, j, half, b_source<true>), b.row, n), "b, rows of n", lane, j, half);
        // two accumulator tiles side by side are an operand: register j = elements 2(j%2), 2(j%2)+1 of tile j/2
        place d = acc_place(lane, j % 2 * 2 + half);
        check(same(a, d.row, d.col + j / 2 * 8), "an accumulator as operand", lane, j, half);
      }
}
static void grids() {
  for (int m = 16; m <= 256; m *= 2)
    for (int n = 8; n <= 256; n += 8)
      for (int whole = 0; whole < 2; ++whole) {
        warp_grid g = grid_of(m, n, whole);
        check(g.m * g.n * 32 == threads_of(m) && m % (16 * g.m) == 0 && n % (8 * g.n) == 0, "warps cover the tile", m, n, whole);
        check(!whole || g.n == 1, "whole rows", m, n);
        std::vector<int> seen(m * n);
        int km = m / g.m, kn = n / g.n;
        for (int warp = 0; warp < g.m * g.n; ++warp)
          for (int lane = 0; lane < 32; ++lane)
            for (int i = 0; i < km / 16; ++i)
              for (int j = 0; j < kn / 8; ++j)
                for (int e = 0; e < 4; ++e) {
                  place p = acc_place(lane, e);
                  ++seen[(warp / g.n * km + i * 16 + p.row) * n + warp % g.n * kn + j * 8 + p.col];
                }
        bool once = true;
        for (int x : seen) once &= x == 1;
        check(once, "every element has one owner", m, n, whole);
      }
}
int main() {
  tiles(std::make_integer_sequence<int, 32>{});
  fragments();
  grids();
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}

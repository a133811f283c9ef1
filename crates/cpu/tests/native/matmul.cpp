#include "check.h"
#include <cmath>
#include <warpwave/ops/matmul.h>
#include <warpwave/ops/matmul_reduce.h>
using namespace ww;

constexpr float kGuard = 77.f;

template <MatmulConfig C> static std::vector<elem<C.out>> run_once(int m, int n, int k, int pad, int splits, float beta, int schedule) {
  using Op = Matmul<C>;
  using T = elem<C.in>;
  using Out = elem<C.out>;
  constexpr int kPlanes = 2;
  int rows_a = C.a_t ? k : m, cols_a = C.a_t ? m : k, rows_b = C.b_t ? n : k, cols_b = C.b_t ? k : n;
  int lda = cols_a + pad, ldb = cols_b + pad, ldc = n + pad;
  // planes lie one after the other, rows of NaN between them
  auto a = random_matrix<T>(rows_a * kPlanes, cols_a, lda, 1), b = random_matrix<T>(rows_b * kPlanes, cols_b, ldb, 2);
  auto c = random_matrix<Out>(m * kPlanes, n, ldc, 3);
  std::vector<Out> out(size_t(m) * kPlanes * size_t(ldc), from_float<Out>(kGuard));
  std::vector<float> partial(size_t(m) * size_t(n) * kPlanes * size_t(splits), NAN);
  typename Op::Params p{};
  p.a = {a.data(), lda, int64_t(rows_a) * lda, 0, rows_a, cols_a, kPlanes, 1, 0, 0};
  p.b = {b.data(), ldb, int64_t(rows_b) * ldb, 0, rows_b, cols_b, kPlanes, 1, 0, 0};
  p.out = {out.data(), ldc, int64_t(m) * ldc, 0, m, n, kPlanes, 1, 0, 0};
  p.c = {c.data(), ldc, int64_t(m) * ldc, 0, m, n, kPlanes, 1, 0, 0};
  p.partial = {partial.data(), n, int64_t(m) * n, 0, m, n, kPlanes * splits, 1, 0, 0};
  p.alpha = 0.5f, p.beta = beta, p.m = m, p.n = n, p.k = k, p.planes = kPlanes, p.batches = 1;
  p.tiles_m = ceil_div(m, C.block_m), p.tiles_n = ceil_div(n, C.block_n), p.band = 2;
  p.splits = splits, p.split_k = splits > 1 ? ceil_div(ceil_div(k, splits), C.block_k) * C.block_k : k;
  host::schedule = schedule;
  host::run<Op, 32>(&p, 0, host::programs<Op>(&p, 1));
  host::schedule = 0;
  if (splits > 1) {
    static constexpr MatmulReduceConfig kReduce{.out = C.out, .threads = 32, .chunks = 1, .vec = 4};
    using Reduce = MatmulReduce<kReduce>;
    typename Reduce::Params r{};
    r.partial = {partial.data(), 1, {0, int64_t(m) * n * splits, n}};
    r.out = {out.data(), 1, {0, int64_t(m) * ldc, ldc}};
    r.c = {c.data(), 1, {0, int64_t(m) * ldc, ldc}};
    r.space = {n, {1, kPlanes, m}};
    r.slice = int64_t(m) * n, r.stretches = n / Reduce::kShape.tile() + 2, r.programs = r.stretches * m * kPlanes;
    r.alpha = p.alpha, r.beta = beta, r.splits = splits;
    host::run<Reduce, 32>(&r, 0, r.programs);
  }
  double worst = 0, unit = sizeof(Out) == 4 ? 0x1p-24 : std::is_same_v<Out, bf16> ? 0x1p-8 : 0x1p-11;
  for (int i = 0; i < m * kPlanes; ++i)
    for (int j = 0; j < ldc; ++j) {
      size_t at = size_t(i) * size_t(ldc) + size_t(j);
      if (j >= n) {
        EXPECT(to_float(out[at]) == kGuard);
        continue;
      }
      int plane = i / m, r = i % m;
      double sum = 0, size = 0;
      for (int q = 0; q < k; ++q) {
        size_t x = C.a_t ? size_t(plane * k + q) * size_t(lda) + size_t(r) : size_t(i) * size_t(lda) + size_t(q);
        size_t y = C.b_t ? size_t(plane * n + j) * size_t(ldb) + size_t(q) : size_t(plane * k + q) * size_t(ldb) + size_t(j);
        double term = double(to_float(a[x])) * double(to_float(b[y]));
        sum += term, size += std::fabs(term);
      }
      double want = 0.5 * sum;
      if (beta != 0.f) want += double(beta) * double(to_float(c[at])), size += std::fabs(double(beta) * double(to_float(c[at])));
      double bound = 4 * std::sqrt(double(k) + 1) * 0x1p-24 * size + unit * std::fabs(want) + 1e-7;
      double error = std::fabs(double(to_float(out[at])) - want) / bound;
      if (!(error <= worst)) worst = error;
    }
  EXPECT(worst <= 1,
         std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + " splits " +
             std::to_string(splits) + ": error/bound " + std::to_string(worst));
  return out;
}
template <MatmulConfig C> static void check(int m, int n, int k, int pad = 3, int splits = 1, float beta = 0.f) {
  auto first = run_once<C>(m, n, k, pad, splits, beta, 0);
  for (int s : kSchedules) EXPECT(same_bits(first, run_once<C>(m, n, k, pad, splits, beta, s)), "schedule " + std::to_string(s));
}
constexpr MatmulConfig config(dtype in, dtype out, bool a_t, bool b_t, int groups = 2, int lag = 1) {
  return {.in = in, .out = out, .block_m = 32, .block_n = 32, .block_k = 16, .stages = 3,
          .groups = groups, .lag = lag, .a_t = a_t, .b_t = b_t, .store_bufs = 1};
}
template <dtype In, dtype Out> static void transposes() {
  check<config(In, Out, false, false)>(70, 50, 37);
  check<config(In, Out, false, true)>(70, 50, 37);
  check<config(In, Out, true, false)>(70, 50, 37);
  check<config(In, Out, true, true)>(70, 50, 37);
}
TEST(matmul_transposes_f32) { transposes<dtype::f32, dtype::f32>(); }
TEST(matmul_transposes_f16) { transposes<dtype::f16, dtype::f16>(); }
TEST(matmul_transposes_bf16) { transposes<dtype::bf16, dtype::f32>(); }
TEST(matmul_ragged) {
  constexpr auto kC = config(dtype::bf16, dtype::bf16, false, true, 1, 2);
  check<kC>(1, 1, 1);
  check<kC>(5, 33, 0);
  check<kC>(64, 32, 64, 0);
  check<kC>(33, 31, 17);
}
TEST(matmul_beta) { check<config(dtype::f16, dtype::f16, false, false)>(37, 41, 29, 1, 1, -0.75f); }
TEST(matmul_split) {
  check<config(dtype::bf16, dtype::bf16, false, false)>(37, 41, 150, 1, 3);
  check<config(dtype::f32, dtype::f32, true, false)>(33, 140, 70, 2, 4, 2.f);
}
TEST(matmul_odd_tile) {
  constexpr MatmulConfig kC{.in = dtype::f32, .out = dtype::f32, .block_m = 6, .block_n = 12, .block_k = 8, .stages = 2,
                            .groups = 3, .lag = 0, .store_bufs = 1};
  check<kC>(20, 30, 21);
}

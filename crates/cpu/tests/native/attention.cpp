#include "check.h"
#include <cmath>
#include <warpwave/ops/attention.h>
using namespace ww;

template <AttentionConfig C> static void check(int heads, int heads_per_kv, int nq, int nk) {
  using Op = Attention<C>;
  using T = elem<C.type>;
  constexpr int kD = C.dim, kPitch = kD + 5;
  auto q = random_matrix<T>(heads * nq, kD, kPitch, 1);
  int kv_heads = heads / heads_per_kv;
  auto k = random_matrix<T>(kv_heads * nk, kD, kPitch, 2), v = random_matrix<T>(kv_heads * nk, kD, kPitch, 3);
  const float scale = 1 / std::sqrt(float(kD));
  std::vector<T> first;
  for (int schedule : kSchedules) {
    std::vector<T> out(size_t(heads * nq) * kPitch, from_float<T>(77.f));
    std::vector<float> lse(size_t(heads * nq), NAN);
    typename Op::Params p{};
    p.q = {q.data(), kPitch, int64_t(nq) * kPitch, 0, nq, kD, heads, 1, 0, 0};
    p.k = {k.data(), kPitch, int64_t(nk) * kPitch, 0, nk, kD, kv_heads, 1, 0, 0};
    p.v = {v.data(), kPitch, int64_t(nk) * kPitch, 0, nk, kD, kv_heads, 1, 0, 0};
    p.out = {out.data(), kPitch, int64_t(nq) * kPitch, 0, nq, kD, heads, 1, 0, 0};
    p.lse = {lse.data(), nq, 0, nq, 0};
    p.scale_log2 = scale * 1.4426950408889634f;
    p.queries = nq, p.keys = nk, p.planes = heads, p.batches = 1, p.heads_per_kv = heads_per_kv, p.tiles_q = ceil_div(nq, Op::kBlockQ), p.band = 2;
    host::schedule = schedule;
    host::run<Op, 64>(&p, 0, host::programs<Op>(&p, 1));
    host::schedule = 0;
    if (schedule != 0) {
      EXPECT(same_bits(first, out), "schedule " + std::to_string(schedule));
      continue;
    }
    first = out;
    double worst = 0, worst_lse = 0;
    for (int h = 0; h < heads; ++h)
      for (int i = 0; i < nq; ++i) {
        size_t row = size_t(h * nq + i), kv = size_t(h / heads_per_kv * nk);
        int end = C.causal ? std::min(nk, i + nk - nq + 1) : nk;
        std::vector<double> s(size_t(nk), 0.0);
        double top = -INFINITY, sum = 0;
        for (int j = 0; j < end; ++j) {
          for (int d = 0; d < kD; ++d) {
            double x = double(to_float(q[row * kPitch + size_t(d)])), y = double(to_float(k[(kv + size_t(j)) * kPitch + size_t(d)]));
            s[size_t(j)] += x * y * double(scale);
          }
          top = std::max(top, s[size_t(j)]);
        }
        for (int j = 0; j < end; ++j) sum += s[size_t(j)] = std::exp(s[size_t(j)] - top);
        if (end <= 0) EXPECT(lse[row] == -INFINITY);
        else worst_lse = std::max(worst_lse, std::fabs(double(lse[row]) - (top + std::log(sum))));
        for (int d = 0; d < kPitch; ++d) {
          float got = to_float(out[row * kPitch + size_t(d)]);
          if (d >= kD) {
            EXPECT(got == 77.f);
            continue;
          }
          double want = 0;
          for (int j = 0; j < end; ++j) want += s[size_t(j)] / sum * double(to_float(v[(kv + size_t(j)) * kPitch + size_t(d)]));
          double error = std::fabs(double(got) - want);
          if (!(error <= worst)) worst = error;
        }
      }
    double bound = std::is_same_v<T, bf16> ? 0.02 : 0.003;
    EXPECT(worst < bound && worst_lse < 1e-4,
           std::to_string(nq) + "x" + std::to_string(nk) + ": " + std::to_string(worst) + ", lse " + std::to_string(worst_lse));
  }
}
constexpr AttentionConfig config(dtype type, int dim, int kv, bool causal, bool overlap) {
  return {.type = type, .dim = dim, .block_kv = kv, .groups = 2, .group_rows = 16, .stages = 2, .causal = causal, .overlap = overlap, .store_bufs = 1};
}
TEST(attention_ragged) {
  check<config(dtype::bf16, 40, 32, false, true)>(4, 2, 50, 75);
  check<config(dtype::f16, 40, 16, false, false)>(2, 1, 33, 41);
  check<config(dtype::f16, 32, 32, false, true)>(1, 1, 3, 1);
  check<config(dtype::f16, 32, 32, false, true)>(1, 1, 3, 0);
}
TEST(attention_causal) {
  check<config(dtype::bf16, 32, 32, true, true)>(2, 1, 70, 70);
  check<config(dtype::f16, 32, 16, true, false)>(2, 2, 70, 33);
  check<config(dtype::f16, 32, 16, true, true)>(1, 1, 20, 77);
  check<config(dtype::f16, 32, 16, true, true)>(1, 1, 77, 20);
}

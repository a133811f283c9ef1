#include "check.h"
#include <cmath>
#include <warpwave/ops/copy.h>
#include <warpwave/ops/softmax.h>
#include <warpwave/ops/transpose.h>
#include <warpwave/ops/vector_add.h>
#include <warpwave/tile/philox.h>
using namespace ww;

// The order of additions, spelled out with a butterfly over all lanes.
template <RowShape S, int kWarp> static void reduction_order() {
  row_group<S, kWarp> g;
  typename row_group<S, kWarp>::values v;
  std::mt19937 rng(S.threads);
  std::normal_distribution<float> normal;
  for (float& x : v.v) x = normal(rng);
  float lane[S.threads], top = -INFINITY;
  for (int t = 0; t < S.threads; ++t) {
    lane[t] = 0.f;
    for (int c = 0; c < S.chunks; ++c)
      for (int j = 0; j < S.vec; ++j) {
        float x = v.v[(c * S.threads + t) * S.vec + j];
        lane[t] += x;
        top = std::max(top, x);
      }
  }
  constexpr int kLanes = S.threads < kWarp ? S.threads : kWarp;
  for (int step = kLanes / 2; step > 0; step /= 2) {
    float other[S.threads];
    for (int t = 0; t < S.threads; ++t) other[t] = lane[t ^ step];
    for (int t = 0; t < S.threads; ++t) lane[t] += other[t];
  }
  float want = lane[0];
  for (int w = kLanes; w < S.threads; w += kLanes) want += lane[w];
  EXPECT(g.sum(v) == want, std::to_string(S.threads));
  EXPECT(g.max(v) == top);
}
TEST(reductions_add_in_the_order_of_a_gpu) {
  reduction_order<RowShape{.threads = 256, .groups = 1, .chunks = 3, .vec = 8}, 32>();
  reduction_order<RowShape{.threads = 256, .groups = 1, .chunks = 3, .vec = 8}, 64>();
  reduction_order<RowShape{.threads = 8, .groups = 4, .chunks = 2, .vec = 4}, 32>();
  reduction_order<RowShape{.threads = 1, .groups = 4, .chunks = 2, .vec = 4}, 64>();
  reduction_order<RowShape{.threads = 64, .groups = 1, .chunks = 1, .vec = 4}, 32>();
}
template <class T> static void tiling(int offset, int n, int stride) {
  constexpr RowShape kS{.threads = 4, .groups = 1, .chunks = 2, .vec = 4};
  row_group<kS, 32> g;
  std::vector<T> x(size_t(offset) + size_t(n) * size_t(stride) + 1, from_float<T>(NAN)), out = x;
  for (int i = 0; i < n; ++i) x[size_t(offset + i * stride)] = from_float<T>(float(i));
  ww::span<const T> s{x.data() + offset, n, stride};
  ww::span<T> o{out.data() + offset, n, stride};
  auto t = g.tiling(s);
  for (int64_t i = 0; i < t.count(); ++i) {
    if (stride == 1 && i > 0) EXPECT(reinterpret_cast<uintptr_t>(s.p + t.first(i)) % 16 == 0);
    auto v = g.load(t, i, s, -1.f);
    for (int j = 0; j < kS.tile(); ++j) {
      int64_t at = t.first(i) + j;
      EXPECT(v.v[j] == (at >= 0 && at < n ? float(at) : -1.f));
    }
    g.store(t, i, o, v);
  }
  EXPECT(same_bits(x, out));
}
TEST(tiles_cover_a_row_once) {
  for (int offset : {0, 1, 3, 7})
    for (int n : {0, 1, 31, 32, 33, 100})
      for (int stride : {1, 2}) {
        tiling<float>(offset, n, stride);
        tiling<f16>(offset, n, stride);
        tiling<double>(offset, n, stride);
      }
}
template <SoftmaxConfig C, int kWarp> static void softmax(int n, int offset, int log) {
  using Op = Softmax<C>;
  using T = elem<C.type>;
  constexpr int kRows = 6;
  int pitch = n + 3;
  auto x = random_matrix<T>(kRows, n, pitch, 5);
  std::vector<T> out(size_t(kRows * pitch + offset), from_float<T>(77.f));
  x[size_t(2 * pitch)] = from_float<T>(NAN);
  x[size_t(3 * pitch + n - 1)] = from_float<T>(INFINITY);
  for (int j = 0; j < n; ++j) x[size_t(4 * pitch + j)] = from_float<T>(-INFINITY);
  if (n > 1) x[size_t(5 * pitch)] = from_float<T>(-INFINITY);
  typename Op::Params p{};
  p.x = {x.data(), 1, {0, 0, pitch}};
  p.out = {out.data() + offset, 1, {0, 0, pitch}};
  p.space = {n, {1, 1, kRows}};
  p.programs = kRows, p.log = log;
  host::run<Op, kWarp>(&p, 0, host::programs<Op>(&p, ceil_div(kRows, C.groups)));
  for (int i = 0; i < kRows; ++i) {
    double top = -INFINITY, sum = 0;
    for (int j = 0; j < n; ++j) top = std::max(top, double(to_float(x[size_t(i * pitch + j)])));
    for (int j = 0; j < n; ++j) sum += std::exp(double(to_float(x[size_t(i * pitch + j)])) - top);
    for (int j = 0; j < pitch; ++j) {
      float got = to_float(out[size_t(offset + i * pitch + j)]);
      if (j >= n) {
        EXPECT(got == 77.f);
        continue;
      }
      double in = double(to_float(x[size_t(i * pitch + j)])), want = log ? in - top - std::log(sum) : std::exp(in - top) / sum;
      if (i >= 2 && i <= 4) EXPECT(got != got, "row " + std::to_string(i));
      else EXPECT(double(got) == want || std::fabs(double(got) - want) <= std::fabs(want) * (sizeof(T) == 4 ? 1e-6 : 0x1p-8) + 1e-30,
                  std::to_string(got) + " " + std::to_string(want));
    }
  }
}
template <SoftmaxConfig C> static void softmax_sizes(std::initializer_list<int> sizes) {
  for (int n : sizes)
    for (int offset : {0, 1})
      for (int log : {0, 1}) {
        softmax<C, 32>(n, offset, log);
        softmax<C, 64>(n, offset, log);
      }
}
TEST(softmax_rows) {
  softmax_sizes<SoftmaxConfig{.type = dtype::f32, .threads = 8, .groups = 4, .chunks = 2, .vec = 4, .hold = true}>({1, 7, 60});
  softmax_sizes<SoftmaxConfig{.type = dtype::bf16, .threads = 64, .groups = 1, .chunks = 2, .vec = 8, .hold = true}>({1, 100, 1000});
  softmax_sizes<SoftmaxConfig{.type = dtype::f32, .threads = 64, .groups = 1, .chunks = 1, .vec = 4, .hold = false}>({1, 255, 257, 2000});
}
TEST(vector_add_and_copy_between_layouts) {
  using Add = VectorAdd<VectorAddConfig{.type = dtype::f16, .threads = 32, .chunks = 1, .vec = 8}>;
  constexpr int kRows = 3, kN = 700, kPitch = 701;
  auto x = random_matrix<f16>(kRows, kN, kPitch, 1), y = random_matrix<f16>(kN, kRows, kRows + 2, 2);
  std::vector<f16> out(kRows * kPitch, f16{0x1234}), again = out;
  Add::Params p{};
  p.x = {x.data(), 1, {0, 0, kPitch}};
  p.y = {y.data(), kRows + 2, {0, 0, 1}};
  p.out = {out.data(), 1, {0, 0, kPitch}};
  p.space = {kN, {1, 1, kRows}};
  p.stretches = kN / Add::kShape.tile() + 2, p.programs = p.stretches * kRows;
  host::run<Add, 32>(&p, 0, p.programs);
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kPitch; ++j) {
      uint16_t want = j < kN ? from_float<f16>(to_float(x[size_t(i * kPitch + j)]) + to_float(y[size_t(j * (kRows + 2) + i)])).bits : 0x1234;
      EXPECT(out[size_t(i * kPitch + j)].bits == want);
    }
  using Move = Copy<CopyConfig{.type = dtype::f16, .threads = 32, .groups = 2, .chunks = 1, .vec = 8}>;
  Move::Params c{{out.data(), 1, {0, 0, kPitch}}, {again.data(), 1, {0, 0, kPitch}}, p.space, p.stretches, p.programs};
  EXPECT(host::programs<Move>(&c, 2) == 4);
  EXPECT(host::programs<Move>(&c, ceil_div(int(c.programs), 2)) == c.programs);
  host::run<Move, 64>(&c, 0, c.programs);
  EXPECT(same_bits(out, again));
}
// Known answers of Random123 1.09, kat_vectors
TEST(philox_known_answers) {
  auto is = [](philox_block r, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    EXPECT(r.w[0] == a && r.w[1] == b && r.w[2] == c && r.w[3] == d);
  };
  is(philox(0, 0, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
  is(philox(~0ull, ~0ull, ~0ull), 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd);
  is(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e), 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1);
}
template <int kCount> static void words_from(int64_t index) {
  auto one = [](int64_t i) { return philox(7, uint64_t(i >> 2), 9).w[i & 3]; };
  uint32_t w[kCount], v[kCount];
  random_words<false>(w, 7, 9, index);
  for (int e = 0; e < kCount; ++e) EXPECT(w[e] == one(index + e), std::to_string(index) + " " + std::to_string(e));
  if (index % 4) return;
  random_words<true>(v, 7, 9, index);
  for (int e = 0; e < kCount; ++e) EXPECT(v[e] == w[e]);
}
TEST(random_words_by_place) {
  for (int64_t at : {0ll, 1ll, 2ll, 3ll, 4ll, 7ll, (1ll << 34) - 2}) {
    words_from<1>(at);
    words_from<2>(at);
    words_from<4>(at);
    words_from<8>(at);
  }
}
template <TransposeShape S> static void transpose_banks() {
  using L = transpose_layout<S>;
  std::vector<int> times(L::kSize / 16, 0);
  for (int r = 0; r < S.side; ++r)
    for (int q = 0; q < L::kChunks; ++q) {
      EXPECT(L::place(r, q) % 16 == 0);
      times[size_t(L::place(r, q) / 16)]++;
    }
  for (int t : times) EXPECT(t == 1, "two chunks in one place");
  auto distinct = [](const std::vector<int>& banks) {
    for (size_t i = 0; i < banks.size(); ++i)
      for (size_t j = 0; j < i; ++j) EXPECT(banks[i] != banks[j], "a bank twice");
  };
  for (int r = 0; r < S.side; ++r)
    for (int q0 = 0; q0 < L::kChunks; q0 += 8) {
      std::vector<int> banks;
      for (int q = q0; q < q0 + 8; ++q) banks.push_back(L::place(r, q) / 16 % 8);
      distinct(banks);
    }
  for (int q = 0; q < L::kChunks; ++q)
    for (int k0 = 0; k0 < L::kChunks; k0 += 8)
      for (int j = 0; j < L::kVec; ++j) {
        std::vector<int> banks;
        for (int k = k0; k < k0 + 8; ++k)
          for (int word = 0; word < 4; ++word) banks.push_back((L::place(k * L::kVec + j, q) / 4 + word) % 32);
        distinct(banks);
      }
}
TEST(transposed_tiles_have_no_bank_conflicts) {
  transpose_banks<TransposeShape{.threads = 256, .side = 128, .bytes = 2}>();
  transpose_banks<TransposeShape{.threads = 256, .side = 64, .bytes = 2}>();
  transpose_banks<TransposeShape{.threads = 256, .side = 64, .bytes = 4}>();
  transpose_banks<TransposeShape{.threads = 256, .side = 32, .bytes = 4}>();
}

// The AMD kernels' own code on the host (emulate.h): matmul exactly, attention and row ops against float64.
//   clang++-19 -std=c++20 -O1 -Wno-ignored-attributes -Wno-psabi -I crates/kernels/include -I hip/include \
//     {-D__GFX9__ -I hip/arch/gfx9 | -I hip/arch/gfx11} hip/tests/emulate.cpp
#include "emulate.h"
#include <warpwave/target/entry.h>
#include <warpwave/ops/attention.h>
#include <warpwave/ops/copy.h>
#include <warpwave/ops/matmul.h>
#include <warpwave/ops/matmul_reduce.h>
#include <warpwave/ops/softmax.h>
#include <warpwave/ops/transpose.h>
#include <warpwave/ops/vector_add.h>
using namespace ww;
namespace {
int passed, failed;
void check(bool ok, const char* what, double got = 0, double want = 0) {
  ok ? ++passed : ++failed;
  if (!ok && failed < 30) printf("FAILED %s: got %g, expected %g\n", what, got, want);
}
uint64_t state = 1;
uint32_t random32() { return uint32_t((state = state * 6364136223846793005u + 1442695040888963407u) >> 33); }
float small_int() { return float(int(random32() % 7) - 3); }
float uniform() { return float(random32() % 20001) / 10000.f - 1.f; }

template <class Op> void launch(const typename Op::Params& p, int grid) {
  static bool backwards = false;
  backwards = !backwards;
  static std::vector<char> lds(65536 + 16);
  char* memory = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(lds.data()) + 15) & ~uintptr_t(15));
  memset(memory, 0xff, 65536);
  emu::run(grid, block_threads<Op>, &p, backwards, [&] { hip::run_kernel<Op>((WW_LDS char*)memory); });
}

template <class T> struct matrix {
  T* p;
  int64_t pitch, plane;
  int rows, cols, planes;
  // the last element lies at the guard page: nothing behind it may be read
  matrix(int planes, int rows, int cols, int pad, int shift = 0) : pitch(cols + pad), rows(rows), cols(cols), planes(planes) {
    plane = rows * pitch + 8;
    int64_t n = (planes - 1) * plane + (rows - 1) * pitch + cols;
    p = reinterpret_cast<T*>(emu::memory(size_t(n < 1 ? 1 : n) * sizeof(T), shift * sizeof(T)));
  }
  T& at(int b, int r, int c) const { return p[b * plane + r * pitch + c]; }
  template <class F> matrix& fill(F f) {
    for (int b = 0; b < planes; ++b)
      for (int r = 0; r < rows; ++r)
        for (int c = 0; c < cols; ++c) at(b, r, c) = from_float<T>(f());
    return *this;
  }
  template <class V> V view() const {
    V v{};
    v.p = p;
    v.row_stride = pitch;
    v.plane_stride = plane;
    v.batch_stride = 0;
    v.rows = rows;
    v.cols = cols;
    v.planes = planes;
    v.batches = 1;
    bool aligned = reinterpret_cast<uintptr_t>(p) % 16 == 0 && pitch * sizeof(T) % 16 == 0 && plane * sizeof(T) % 16 == 0;
    v.flags = aligned ? kRowsAligned : 0;
    return v;
  }
};

template <MatmulConfig C> void matmul(int m, int n, int k, int planes, int pad, int splits, float beta, int grid) {
  using Op = Matmul<C>;
  using T = typename Op::T;
  using Out = typename Op::Out;
  char what[200];
  snprintf(what, sizeof what, "matmul dtype %d %dx%dx%d tile %dx%dx%d a_t %d b_t %d pad %d splits %d", int(C.in), m, n, k,
           C.block_m, C.block_n, C.block_k, C.a_t, C.b_t, pad, splits);
  auto a = C.a_t ? matrix<T>(planes, k, m, pad) : matrix<T>(planes, m, k, pad);
  auto b = C.b_t ? matrix<T>(planes, n, k, pad) : matrix<T>(planes, k, n, pad);
  matrix<Out> out(planes, m, n, pad), c(planes, m, n, pad);
  matrix<float> partial(planes * splits, m, n, 0);
  a.fill(small_int);
  b.fill(small_int);
  c.fill(small_int);
  typename Op::Params p{};
  p.a = a.template view<decltype(p.a)>();
  p.b = b.template view<decltype(p.b)>();
  p.out = out.template view<decltype(p.out)>();
  p.c = c.template view<decltype(p.c)>();
  p.partial = partial.template view<decltype(p.partial)>();
  p.alpha = 0.5f;
  p.beta = beta;
  p.m = m;
  p.n = n;
  p.k = k;
  p.planes = planes;
  p.batches = 1;
  p.tiles_m = ceil_div(m, C.block_m);
  p.tiles_n = ceil_div(n, C.block_n);
  p.band = 2;
  p.splits = splits;
  p.split_k = splits > 1 ? ceil_div(ceil_div(k, splits), C.block_k) * C.block_k : k;
  launch<Op>(p, grid);
  int bad = 0;
  for (int l = 0; l < planes; ++l)
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) {
        double sum = 0;
        for (int q = 0; q < k; ++q) sum += double(to_float(C.a_t ? a.at(l, q, i) : a.at(l, i, q))) * to_float(C.b_t ? b.at(l, j, q) : b.at(l, q, j));
        double got, want;
        if (splits > 1) {
          got = 0;
          for (int s = 0; s < splits; ++s) got += partial.at(l * splits + s, i, j);
          want = sum;
        } else {
          got = to_float(out.at(l, i, j));
          want = to_float(from_float<Out>(float(0.5 * sum + (beta != 0 ? beta * to_float(c.at(l, i, j)) : 0.))));
        }
        bool ok = got == want;
        if (!ok && bad++ == 0) check(false, what, got, want);
        if (ok) ++passed;
      }
  // what lies between the rows of the output is still what it was
  for (int i = 0; i + 1 < m && splits == 1; ++i)
    for (int j = n; j < out.pitch; ++j) {
      uint32_t bits = 0;
      memcpy(&bits, &out.p[i * out.pitch + j], sizeof(Out));
      if (bits != (sizeof(Out) == 2 ? 0xffffu : 0xffffffffu)) check(false, "written beyond the output's row");
    }
}
template <dtype D, int M, int N, int K, int kStages, int kLag> void matmul_all() {
  constexpr auto config = [](bool a_t, bool b_t) {
    return MatmulConfig{.in = D, .out = D, .block_m = M, .block_n = N, .block_k = K, .stages = kStages, .lag = kLag, .a_t = a_t, .b_t = b_t};
  };
  auto each = [&](auto... x) {
    matmul<config(false, false)>(x...);
    matmul<config(true, false)>(x...);
    matmul<config(false, true)>(x...);
    matmul<config(true, true)>(x...);
  };
  each(M, N, K, 1, 0, 1, 0, 1);
  each(M + 8, N + 16, 3 * K + 8, 1, 8, 1, 2, 2);
  each(M - 5, N + 3, 2 * K + 5, 2, 3, 1, 2, 3);
  each(3, 5, 4 * K + 1, 1, 1, 3, 0, 1);
  each(1, 1, 1, 1, 0, 1, 0, 2);
  each(7, 9, 0, 1, 0, 1, 2, 1);
}

template <AttentionConfig C> void attention(int planes, int per_kv, int queries, int keys, int pad) {
  using Op = Attention<C>;
  using T = typename Op::T;
  char what[200];
  snprintf(what, sizeof what, "attention dtype %d dim %d kv %d rows %d causal %d overlap %d: %d x %d", int(C.type), C.dim, C.block_kv,
           C.group_rows, C.causal, C.overlap, queries, keys);
  matrix<T> q(planes, queries, C.dim, pad), k(planes / per_kv, keys, C.dim, pad), v(planes / per_kv, keys, C.dim, pad), out(planes, queries, C.dim, pad);
  matrix<float> lse(1, planes, queries, 0);
  q.fill(uniform);
  k.fill(uniform);
  v.fill(uniform);
  typename Op::Params p{};
  p.q = q.template view<decltype(p.q)>();
  p.k = k.template view<decltype(p.k)>();
  p.v = v.template view<decltype(p.v)>();
  p.out = out.template view<decltype(p.out)>();
  p.lse = {lse.p, queries, 0, queries, 0};
  const float scale = 2 / std::sqrt(float(C.dim));
  p.scale_log2 = scale * 1.4426950408889634f;
  p.queries = queries;
  p.keys = keys;
  p.planes = planes;
  p.batches = 1;
  p.heads_per_kv = per_kv;
  p.tiles_q = ceil_div(queries, Op::kBlockQ);
  p.band = 2;
  launch<Op>(p, 2);
  double worst = 0, worst_lse = 0;
  for (int h = 0; h < planes; ++h)
    for (int i = 0; i < queries; ++i) {
      int last = C.causal ? i + keys - queries : keys - 1;
      std::vector<double> s(size_t(keys), 0.), o(C.dim, 0.);
      double m = -INFINITY, l = 0;
      for (int j = 0; j <= last && j < keys; ++j) {
        for (int d = 0; d < C.dim; ++d) s[j] += double(to_float(q.at(h, i, d))) * to_float(k.at(h / per_kv, j, d));
        s[j] *= scale;
        m = std::fmax(m, s[j]);
      }
      for (int j = 0; j <= last && j < keys; ++j) {
        double w = std::exp(s[j] - m);
        l += w;
        for (int d = 0; d < C.dim; ++d) o[d] += w * to_float(v.at(h / per_kv, j, d));
      }
      for (int d = 0; d < C.dim; ++d) {
        double got = to_float(out.at(h, i, d));
        worst = std::fmax(worst, std::isnan(got) ? 1e9 : std::fabs(got - (l > 0 ? o[d] / l : 0)));
      }
      double want = l > 0 ? m + std::log(l) : -INFINITY, got = lse.at(0, h, i);
      worst_lse = std::fmax(worst_lse, want == -INFINITY ? (got == want ? 0 : 1e9) : std::isnan(got) ? 1e9 : std::fabs(got - want));
    }
  double eps = C.type == dtype::bf16 ? 0.0078 : C.type == dtype::f16 ? 0.001 : 2e-6;
  check(worst < eps * 2, what, worst, eps * 2);
  check(worst_lse < 2e-5, what, worst_lse, 2e-5);
}

template <SoftmaxConfig C> void softmax(int rows, int n, int pad, int stride, int log) {
  using Op = Softmax<C>;
  using T = typename Op::T;
  if (C.hold && n + 16 / int(sizeof(T)) - 1 > Op::kShape.tile()) return;   // a row and its worst lead must fit the tile
  matrix<T> x(1, rows, n * stride, pad), out(1, rows, n * stride, pad + 1);
  x.fill([] { return uniform() * 8; });
  typename Op::Params p{};
  p.x = {x.p, stride, {0, 0, x.pitch}};
  p.out = {out.p, stride, {0, 0, out.pitch}};
  p.space = {n, {1, 1, rows}};
  p.programs = rows;
  p.log = log;
  launch<Op>(p, 3);
  double worst = 0;
  for (int r = 0; r < rows; ++r) {
    double m = -INFINITY, l = 0;
    for (int i = 0; i < n; ++i) m = std::fmax(m, to_float(x.at(0, r, i * stride)));
    for (int i = 0; i < n; ++i) l += std::exp(to_float(x.at(0, r, i * stride)) - m);
    for (int i = 0; i < n; ++i) {
      double want = to_float(x.at(0, r, i * stride)) - m, got = to_float(out.at(0, r, i * stride));
      want = log ? want - std::log(l) : std::exp(want) / l;
      double ulp = C.type == dtype::bf16 ? 0.0079 : C.type == dtype::f16 ? 0.001 : 4e-6;
      worst = std::fmax(worst, std::isnan(got) ? 1e9 : std::fabs(got - want) / (std::fabs(want) * ulp + 3e-7));
    }
  }
  char what[100];
  snprintf(what, sizeof what, "softmax dtype %d n %d pad %d stride %d log %d threads %d", int(C.type), n, pad, stride, log, C.threads);
  check(worst <= 1, what, worst, 1);
}
template <dtype D, int V> void rows_all() {
  for (int n : {1, 5, 31, 250, 1000, 1024})
    for (int pad : {0, 3, 8}) {
      softmax<SoftmaxConfig{.type = D, .threads = 32, .groups = 4, .chunks = 32 / V, .vec = V, .hold = true}>(9, n, pad, 1, pad == 3);
      softmax<SoftmaxConfig{.type = D, .threads = 256, .chunks = 2, .vec = V, .hold = true}>(4, n, pad, 1 + (pad == 3), pad == 8);
      softmax<SoftmaxConfig{.type = D, .threads = 128, .chunks = 1, .vec = V, .hold = false}>(4, n, pad, 1, 0);
      softmax<SoftmaxConfig{.type = D, .threads = 8, .groups = 32, .chunks = 128 / V, .vec = V, .hold = true}>(40, n, pad, 1, 1);
      using T = elem<D>;
      matrix<T> x(1, 3, n, pad), y(1, 3, n, 1), out(1, 3, n, 5);
      x.fill(uniform);
      y.fill(uniform);
      using Add = VectorAdd<VectorAddConfig{.type = D, .threads = 64, .chunks = 2, .vec = V}>;
      int64_t stretches = n / (64 * 2 * V) + 2;
      typename Add::Params p{};
      p.x = {x.p, 1, {0, 0, x.pitch}};
      p.y = {y.p, 1, {0, 0, y.pitch}};
      p.out = {out.p, 1, {0, 0, out.pitch}};
      p.space = {n, {1, 1, 3}};
      p.stretches = stretches;
      p.programs = 3 * stretches;
      launch<Add>(p, 2);
      using Cp = Copy<CopyConfig{.type = D, .threads = 64, .groups = 1, .chunks = 1, .vec = V}>;
      matrix<T> t(1, n, 3, pad);
      typename Cp::Params c{};
      c.x = {out.p, 1, {0, 0, out.pitch}};
      c.out = {t.p, t.pitch, {0, 0, 1}};   // transposes
      c.space = {n, {1, 1, 3}};
      c.stretches = n / (64 * V) + 2;
      c.programs = 3 * c.stretches;
      launch<Cp>(c, 2);
      using Red = MatmulReduce<MatmulReduceConfig{.out = D, .threads = 64, .chunks = 1, .vec = V}>;
      matrix<float> part(2, 3, n, pad);
      matrix<T> red(1, 3, n, pad);
      part.fill(small_int);
      typename Red::Params q{};
      q.partial = {part.p, 1, {0, 0, part.pitch}};
      q.out = {red.p, 1, {0, 0, red.pitch}};
      q.c = {out.p, 1, {0, 0, out.pitch}};
      q.space = {n, {1, 1, 3}};
      q.slice = part.plane;
      q.stretches = n / (64 * V) + 2;
      q.programs = 3 * q.stretches;
      q.alpha = 0.5f;
      q.beta = 1;
      q.splits = 2;
      launch<Red>(q, 2);
      bool add = true, copy = true, reduce = true;
      for (int r = 0; r < 3; ++r)
        for (int i = 0; i < n; ++i) {
          float o = to_float(out.at(0, r, i));
          add &= o == to_float(from_float<T>(to_float(x.at(0, r, i)) + to_float(y.at(0, r, i))));
          copy &= to_float(t.at(0, i, r)) == o;
          reduce &= to_float(red.at(0, r, i)) == to_float(from_float<T>(0.5f * (part.at(0, r, i) + part.at(1, r, i)) + o));
        }
      check(add, "vector_add");
      check(copy, "copy");
      check(reduce, "matmul_reduce");
    }
}
template <dtype D, int kDim, int kKv, int kRows, int kStages> void attention_all() {
  constexpr auto config = [](bool causal, bool overlap) {
    return AttentionConfig{.type = D, .dim = kDim, .block_kv = kKv, .groups = 1, .group_rows = kRows, .stages = kStages, .causal = causal, .overlap = overlap};
  };
  auto each = [&](int queries, int keys, int pad) {
    attention<config(false, false)>(2, 1, queries, keys, pad);
    attention<config(true, false)>(2, 2, queries, keys, pad);
    attention<config(false, true)>(2, 2, queries, keys, pad);
  };
  each(kRows, 2 * kKv, 0);
  each(kRows + 9, 3 * kKv + 5, 8);
  each(37, 29, 3);
  each(70, 1, 0);
}

template <dtype D, int kSide> void transpose(int rows, int cols, int pad, int shift, bool columns) {
  using T = elem<D>;
  using Op = Transpose<TransposeConfig{.bytes = sizeof(T), .threads = 256, .side = kSide}>;
  using W = typename Op::W;
  matrix<T> x(2, rows, cols, pad, shift), out(2, columns ? rows : cols, columns ? cols : rows, pad, shift);
  x.fill(uniform);
  out.fill([] { return 7.f; });
  typename Op::Params p{};
  p.x = {reinterpret_cast<const W*>(x.p), 1, {0, x.plane, x.pitch}};
  p.out = {reinterpret_cast<W*>(out.p), columns ? out.pitch : 1, {0, out.plane, columns ? 1 : out.pitch}};
  p.space = {cols, {1, 2, rows}};
  p.tiles_m = (rows + kSide - 1) / kSide;
  p.tiles_n = (cols + kSide - 1) / kSide;
  p.programs = 2 * p.tiles_m * p.tiles_n;
  launch<Op>(p, 3);
  int wrong = 0;
  for (int b = 0; b < 2; ++b)
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < cols; ++c) wrong += to_float(x.at(b, r, c)) != to_float(columns ? out.at(b, r, c) : out.at(b, c, r));
  char what[100];
  snprintf(what, sizeof what, "transpose dtype %d side %d: %d x %d pad %d shift %d columns %d", int(D), kSide, rows, cols, pad, shift, columns);
  check(wrong == 0, what, wrong, 0);
}
template <dtype D, int kSide> void transpose_all() {
  for (int pad : {0, 3, 8})
    for (int shift : {0, 1}) {
      transpose<D, kSide>(kSide, kSide, pad, shift, false);
      transpose<D, kSide>(2 * kSide + 8, kSide - 8, pad, shift, false);
      transpose<D, kSide>(kSide + 5, 3 * kSide + 1, pad, shift, false);
      transpose<D, kSide>(9 * kSide + 1, 2, pad, shift, false);
      transpose<D, kSide>(3, 40, pad, shift, true);
    }
}

// the primitives that no op uses yet
struct PutProbe {
  static constexpr int kGroups = 1, kGroupM = 64;
  struct Params { view<const bf16> a, b; view<float> out; };
  struct Slot { shared_tile<bf16, 64, 64, major::k> a; shared_tile<bf16, 64, 64, major::mn> b; };
  struct Scratch { shared_tile<bf16, 64, 64, major::k> own; };
  using Rings = rings<ring<Slot, 1>>;
  struct Tile { int n; };
  WW_FN static int tiles(const Params&) { return 1; }
  WW_FN static Tile tile(const Params&, int) { return {1}; }
  WW_FN static int items(const Params&, const Tile&) { return 1; }
  template <class G> WW_FN static void load(G& g, const Params& p, const Tile&, int) {
    g.template fill<0>([&](Slot& s) {
      g.copy_async(s.a, p.a, {0, 0});
      g.copy_async(s.b, p.b, {0, 0});
    });
  }
  template <class G> WW_FN static void run(G& g, const Params& p, const Tile&) {   // (a b) b, then a b + that through registers
    auto& s = g.template wait<0>();
    acc<64, 64, rows::reduced> d, e;
    g.mma_async(d, g.load_operand(g.template band<64>(s.a)), s.b, false);
    g.put(g.scratch().own, d);
    g.mma_async(e, g.whole(g.scratch().own), s.b, false);
    g.mma_async(e, as_operand<bf16>(d), s.b, true);
    g.template release<0>();
    g.store_direct(p.out, {0, 0}, e);
  }
};
void put_probe() {
  matrix<bf16> a(1, 64, 64, 0), b(1, 64, 64, 8);
  matrix<float> out(1, 64, 64, 0);
  a.fill([] { return float(random32() % 16 == 0); });
  b.fill([] { return float(random32() % 3) - 1; });
  PutProbe::Params p{};
  p.a = a.view<decltype(p.a)>();
  p.b = b.view<decltype(p.b)>();
  p.out = out.view<decltype(p.out)>();
  launch<PutProbe>(p, 1);
  for (int i = 0; i < 64; ++i)
    for (int j = 0; j < 64; ++j) {
      double want = 0;
      for (int k = 0; k < 64; ++k) {
        double t = 0;
        for (int l = 0; l < 64; ++l) t += double(to_float(a.at(0, i, l))) * to_float(b.at(0, l, k));
        want += 2 * t * to_float(b.at(0, k, j));
      }
      check(out.at(0, i, j) == want, "put", out.at(0, i, j), want);
    }
}
}  // namespace
int main() {
  put_probe();
  matmul_all<dtype::bf16, 64, 64, 64, 2, 0>();
  matmul_all<dtype::bf16, 64, 64, 32, 2, 1>();
  matmul_all<dtype::f16, 128, 64, 32, 2, 0>();
  matmul_all<dtype::f32, 64, 64, 32, 2, 0>();
  rows_all<dtype::bf16, 8>();
  rows_all<dtype::f16, 8>();
  rows_all<dtype::f32, 4>();
  transpose_all<dtype::bf16, 64>();
  transpose_all<dtype::bf16, 128>();
  transpose_all<dtype::f32, 32>();
  transpose_all<dtype::f32, 64>();
  attention_all<dtype::bf16, 64, 64, 64, 2>();
  attention_all<dtype::f16, 128, 64, 128, 1>();
  attention_all<dtype::bf16, 72, 32, 64, 1>();
  attention_all<dtype::f32, 64, 32, 64, 1>();
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}

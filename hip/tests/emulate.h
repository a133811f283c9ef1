// A block of threads on the host, for the kernels' own headers: every thread a fiber, every builtin of the compiler a function here.
// Exchange between lanes and the matrix instructions are collective over a wave: each lane leaves its operands and goes on when all have;
// results follow AMD's published register layouts, not the formulas of layout.h.  A wave runs to the block's next barrier before another
// starts, in order of their number or backwards, so that a missing barrier shows.  Shared memory starts as NaN; device memory ends at a guard page.
#pragma once
#include <sys/mman.h>
#include <ucontext.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>
namespace emu {
#ifdef __GFX9__
constexpr int kWave = 64;
#else
constexpr int kWave = 32;
#endif
struct packet { int kind; uint32_t w[24]; };
struct meeting { int alive = 0, arrived = 0, turn = 0; };
struct wave_state : meeting { packet in[2][64]; };
struct fiber { ucontext_t context; std::vector<char> stack; bool done, waiting; };
inline fiber fibers[1024];
inline ucontext_t home;
inline int current, threads, block, blocks;
inline wave_state waves[32];
inline meeting all;
inline const void* arguments;
inline std::function<void()> body;

inline void yield() { swapcontext(&fibers[current].context, &home); }
inline void meet(meeting& m) {
  int turn = m.turn;
  if (++m.arrived == m.alive) {
    m.arrived = 0;
    ++m.turn;
    return;
  }
  while (m.turn == turn) {
    fibers[current].waiting = &m == &all;
    yield();
  }
  fibers[current].waiting = false;
}
inline void leave(meeting& m) {
  if (--m.alive == m.arrived && m.arrived > 0) {
    m.arrived = 0;
    ++m.turn;
  }
}
inline int lane() { return current % kWave; }
// every lane's operands, until the collective after the next
template <class In> const packet* exchange(int kind, const In& in) {
  static_assert(sizeof(In) <= sizeof(packet::w));
  wave_state& w = waves[current / kWave];
  int buffer = w.turn % 2;
  packet& mine = w.in[buffer][lane()];
  mine.kind = kind;
  memcpy(mine.w, &in, sizeof in);
  meet(w);
  return w.in[buffer];
}
inline int from_lane(int kind, int value, int source) {
  const packet* p = exchange(kind, value);
  if (p[source].kind != kind) {
    fprintf(stderr, "lane %d reads lane %d, which is elsewhere\n", lane(), source);
    abort();
  }
  return int(p[source].w[0]);
}
inline void start() {
  body();
  fibers[current].done = true;
  leave(waves[current / kWave]);
  leave(all);
  for (;;) yield();
}
inline void run(int grid, int count, const void* args, bool backwards, std::function<void()> f) {
  threads = count;
  blocks = grid;
  arguments = args;
  body = std::move(f);
  for (block = 0; block < grid; ++block) {
    for (auto& w : waves) w.alive = w.arrived = 0;
    all.alive = count;
    all.arrived = 0;
    for (int i = 0; i < count; ++i) {
      fiber& x = fibers[i];
      x.done = x.waiting = false;
      x.stack.resize(128 << 10);
      getcontext(&x.context);
      x.context.uc_stack.ss_sp = x.stack.data();
      x.context.uc_stack.ss_size = x.stack.size();
      x.context.uc_link = nullptr;
      makecontext(&x.context, start, 0);
      ++waves[i / kWave].alive;
    }
    int each = count < kWave ? count : kWave;
    for (int left = count; left > 0;)
      for (int w = 0; w < count / each; ++w)
        for (bool going = true; going;) {   // a wave runs until it waits for the others
          going = false;
          for (int i = 0; i < each; ++i) {
            current = (backwards ? count / each - 1 - w : w) * each + i;
            fiber& x = fibers[current];
            if (x.done) continue;
            swapcontext(&home, &x.context);
            left -= x.done;
            going |= !x.done && !x.waiting;
          }
        }
  }
}

using short4 = short __attribute__((ext_vector_type(4)));
using half4 = _Float16 __attribute__((ext_vector_type(4)));
using float4 = float __attribute__((ext_vector_type(4)));
using short16 = short __attribute__((ext_vector_type(16)));
using half16 = _Float16 __attribute__((ext_vector_type(16)));
using float8 = float __attribute__((ext_vector_type(8)));
inline float number(const packet& p, int kind, int at, int e) {   // element e of the operand that begins at word `at`
  if (kind == 2) return __builtin_bit_cast(float, p.w[at + e]);
  uint16_t b = uint16_t(p.w[at + e / 2] >> (16 * (e % 2)));
  return kind == 0 ? __builtin_bit_cast(float, uint32_t(b) << 16) : float(__builtin_bit_cast(_Float16, b));
}
// A[i][k]: lane i + 16 (k / (K/4)), element k % (K/4); B[k][j] likewise with j; D[i][j]: lane j + 16 (i/4), register i % 4
template <int kKind, int K, class V> float4 mfma(V a, V b, float4 c) {
  struct { V a, b; } in{a, b};
  const packet* p = exchange(100 + kKind, in);
  constexpr int kEach = K / 4, kWords = sizeof(V) / 4;
  for (int r = 0; r < 4; ++r) {
    int i = lane() / 16 * 4 + r, j = lane() % 16;
    float s = c[r];
    for (int k = 0; k < K; ++k) s += number(p[i + 16 * (k / kEach)], kKind, 0, k % kEach) * number(p[j + 16 * (k / kEach)], kKind, kWords, k % kEach);
    c[r] = s;
  }
  return c;
}
// A[i][k]: lanes i and i + 16, element k; B[k][j] likewise; D[i][j]: lane j + 16 (i % 2), register i / 2
template <int kKind, class V> float8 wmma(V a, V b, float8 c) {
  struct { V a, b; } in{a, b};
  const packet* p = exchange(200 + kKind, in);
  for (int l = 0; l < 16; ++l)
    if (memcmp(p[l].w, p[l + 16].w, 64)) {
      fprintf(stderr, "wmma: halves of the wave hold different operands\n");
      abort();
    }
  for (int r = 0; r < 8; ++r) {
    int i = 2 * r + lane() / 16, j = lane() % 16;
    float s = c[r];
    for (int k = 0; k < 16; ++k) s += number(p[i], kKind, 0, k) * number(p[j], kKind, 8, k);
    c[r] = s;
  }
  return c;
}
inline int dpp(int v, int control) { return from_lane(control, v, (lane() & ~3) + (control >> (2 * (lane() & 3)) & 3)); }
inline int swizzle(int v, int control) {
  int source = ((lane() & 31 & (control & 31)) | (control >> 5 & 31)) ^ (control >> 10 & 31);
  return from_lane(control, v, (lane() & ~31) + source);
}
inline uint32_t perm(uint32_t hi, uint32_t lo, uint32_t select) {
  uint64_t both = uint64_t(hi) << 32 | lo;
  uint32_t r = 0;
  for (int i = 0; i < 4; ++i) r |= uint32_t(both >> (8 * (select >> (8 * i) & 7)) & 0xff) << (8 * i);
  return r;
}

// device memory: `bytes` that end at a page nobody may touch, and begin behind one
inline char* memory(size_t bytes, size_t shift) {   // shift: bytes between the end and the guard
  size_t pages = (bytes + shift + 4095) / 4096 + 2;
  char* p = static_cast<char*>(mmap(nullptr, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(p, 4096, PROT_NONE);
  mprotect(p + (pages - 1) * 4096, 4096, PROT_NONE);
  memset(p + 4096, 0xff, (pages - 2) * 4096);
  return p + (pages - 1) * 4096 - shift - bytes;
}
}  // namespace emu

#define WW_OPAQUE_SCALAR(x) (void)0
#define WW_OPAQUE_VECTOR(x) (void)0
#define __builtin_amdgcn_workitem_id_x() emu::current
#define __builtin_amdgcn_workgroup_id_x() emu::block
#define __builtin_amdgcn_grid_size_x() (emu::blocks * emu::threads)
#define __builtin_amdgcn_kernarg_segment_ptr() emu::arguments
#define __builtin_amdgcn_fence(...) (void)0
#define __builtin_amdgcn_sched_barrier(x) (void)0
#define __builtin_amdgcn_s_barrier() emu::meet(emu::all)
#define __builtin_amdgcn_readfirstlane(x) (x)
#define __builtin_amdgcn_exp2f(x) emu_exp2(x)
inline float emu_exp2(float x) { return x < -126.f ? 0.f : std::exp2(x); }
#define __builtin_amdgcn_logf(x) std::log2(x)
#define __builtin_amdgcn_rcpf(x) (1.f / (x))
#define __builtin_amdgcn_mov_dpp(v, control, rows, banks, bound) emu::dpp(v, control)
#define __builtin_amdgcn_ds_swizzle(v, control) emu::swizzle(v, control)
#define __builtin_amdgcn_ds_bpermute(address, v) emu::from_lane(1000, v, (address) / 4 % emu::kWave)
#define __builtin_amdgcn_perm(hi, lo, select) emu::perm(hi, lo, select)
#define __builtin_amdgcn_mfma_f32_16x16x4f32(a, b, c, x, y, z) emu::mfma<2, 4>(a, b, c)
#define __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, x, y, z) emu::mfma<0, 16>(a, b, c)
#define __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, x, y, z) emu::mfma<1, 16>(a, b, c)
#define __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, c) emu::wmma<0>(a, b, c)
#define __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c) emu::wmma<1>(a, b, c)

// Kernels of another style than warpwave's: calls, private arrays, loops that a compiler may or may not unroll, divergent branches, division, 64-bit
// integers. Every operation is exact or correctly rounded, so that each level of optimisation gives the same bits.
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
typedef unsigned int u32;
typedef unsigned long long u64;

__device__ inline u32 item() { return __builtin_amdgcn_workitem_id_x(); }
__device__ inline u32 group() { return __builtin_amdgcn_workgroup_id_x(); }
__device__ inline void meet() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

static __device__ __attribute__((noinline)) float polynomial(float x, u32 n) {
  float r = 1;
  for (u32 i = 0; i < n; ++i) r = r * x + (float)i;
  return r;
}

// in: floats. Neighbours through shared memory, an array in private memory, a call, a division
extern "C" __global__ void floats(const float* in, float* out) {
  __shared__ float shared[128];
  u32 t = item(), i = group() * 128 + t;
  float held[8];
  for (u32 k = 0; k < 8; ++k) held[k] = in[i] * (float)(k + 1);
  shared[t] = held[i & 7];
  meet();
  float r = polynomial(shared[127 - t], t & 7);
  if (r > 100.f) r = r / 3.f;
  else if (t & 1) r = __builtin_sqrtf(__builtin_fabsf(r)) - (float)(t / 3u) * 0.5f;
  else r = 1.f / (r + 2.5f);
  out[i] = r;
}

// in: words. Mixing in 64 bits, division by a variable, a loop whose length differs by lane
extern "C" __global__ void integers(const u32* in, u32* out) {
  u32 i = group() * 128 + item(), x = in[i];
  u64 h = 0x9e3779b97f4a7c15ull ^ x;
  for (u32 k = 0; k < (x & 15); ++k) {
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9ull + k;
    h = h << (x & 31) | h >> (64 - (x & 31 ? x & 31 : 64) & 63);
  }
  u32 d = (x >> 8 & 0xff) + 1;
  int s = (int)x / (int)d - (int)x % (int)d;
  u64 q = h / (d + 7u) + h % 1000003u;
  out[i] = (u32)(h >> 32) ^ (u32)h ^ (u32)s ^ (u32)q ^ (u32)(q >> 32);
}

// in: words. Narrow types, clamps, bit counts, a switch
extern "C" __global__ void narrow(const u32* in, u32* out) {
  u32 i = group() * 128 + item(), x = in[i];
  signed char a = (signed char)x;
  short b = (short)(x >> 8);
  _Float16 f = (_Float16)(float)(short)(x >> 16);
  int r;
  switch (x & 7) {
    case 0: r = a * b; break;
    case 1: r = __builtin_popcount(x) + __builtin_clz(x | 1); break;
    case 2: r = (int)(float)f; break;
    case 3: r = a > b ? a : b; break;
    case 4: r = (int)((float)f * 0.25f); break;
    case 5: r = (unsigned char)(x >> 3) + (unsigned short)(x >> 5); break;
    default: r = (int)(x * 2654435761u >> 7); break;
  }
  out[i] = (u32)r;
}

// The machine instructions of row ops: global accesses under a predicate, shuffles, barriers, cluster exchange.  Logic is in rows.h.
//
// Loads are plain ld.global, not .nc: an op may write the row that it has read.  Volatile keeps them in the order of the text, before the
// stores that follow.
#pragma once
#include <warpwave/cuda/base.h>
namespace ww::cuda {

// r = B bytes at p where `in`, else unchanged.  Plain loads: with L1::no_allocate a sum of 2^28 floats took 776 us in place of 734 (H200, 2026-12-01).
#define WW_LD(VEC, REGS, P, IN) "{\n.reg .pred q;\nsetp.ne.b32 q, " IN ", 0;\n@q ld.global" VEC " " REGS ", [" P "];\n}"
template <int B> WW_FN void load_bytes(uint32_t* r, const char* p, bool in) {
  static_assert(B == 16 || B == 8 || B == 4 || B == 2);
  if constexpr (B == 16) {
    asm volatile(WW_LD(".v4.b32", "{%0, %1, %2, %3}", "%4", "%5") : "+r"(r[0]), "+r"(r[1]), "+r"(r[2]), "+r"(r[3]) : "l"(p), "r"(int(in)));
  } else if constexpr (B == 8) {
    asm volatile(WW_LD(".v2.b32", "{%0, %1}", "%2", "%3") : "+r"(r[0]), "+r"(r[1]) : "l"(p), "r"(int(in)));
  } else if constexpr (B == 4) {
    asm volatile(WW_LD(".b32", "%0", "%1", "%2") : "+r"(r[0]) : "l"(p), "r"(int(in)));
  } else {
    asm volatile("{\n.reg .pred q;\n.reg .b16 h;\ncvt.u16.u32 h, %0;\nsetp.ne.b32 q, %2, 0;\n@q ld.global.b16 h, [%1];\ncvt.u32.u16 %0, h;\n}"
                 : "+r"(r[0]) : "l"(p), "r"(int(in)));
  }
}
#undef WW_LD

#define WW_ST(VEC, P, REGS, IN) "{\n.reg .pred q;\nsetp.ne.b32 q, " IN ", 0;\n@q st.global" VEC " [" P "], " REGS ";\n}"
template <int B> WW_FN void store_bytes(char* p, const uint32_t* r, bool in) {
  static_assert(B == 16 || B == 8 || B == 4 || B == 2);
  if constexpr (B == 16) {
    asm volatile(WW_ST(".v4.b32", "%0", "{%1, %2, %3, %4}", "%5") ::"l"(p), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(int(in)) : "memory");
  } else if constexpr (B == 8) {
    asm volatile(WW_ST(".v2.b32", "%0", "{%1, %2}", "%3") ::"l"(p), "r"(r[0]), "r"(r[1]), "r"(int(in)) : "memory");
  } else if constexpr (B == 4) {
    asm volatile(WW_ST(".b32", "%0", "%1", "%2") ::"l"(p), "r"(r[0]), "r"(int(in)) : "memory");
  } else {
    asm volatile("{\n.reg .pred q;\n.reg .b16 h;\ncvt.u16.u32 h, %1;\nsetp.ne.b32 q, %2, 0;\n@q st.global.b16 [%0], h;\n}" ::"l"(p), "r"(r[0]), "r"(int(in))
                 : "memory");
  }
}
#undef WW_ST
// r = 16 bytes of shared memory
WW_FN void load_shared(uint32_t* r, const char* p) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(uint32_t(__cvta_generic_to_shared(p))) : "memory");
}
// Adds 1 to a counter in shared memory and gives what it was; what the warps that counted before had read and written is done
WW_FN int count_in(int* p) {
  int r;
  asm volatile("atom.acq_rel.cta.shared::cta.add.u32 %0, [%1], 1;" : "=r"(r) : "r"(uint32_t(__cvta_generic_to_shared(p))) : "memory");
  return r;
}

// x, of which the compiler does not know what it is: what is worked out of it stays where it is asked for
WW_FN int64_t opaque(int64_t x) {
  asm volatile("" : "+l"(x));
  return x;
}
WW_FN void forget(uint32_t& x) { asm volatile("" : "+r"(x)); }
WW_FN uint32_t funnel_right(uint32_t lo, uint32_t hi, int bits) { return __funnelshift_r(lo, hi, bits); }
WW_FN uint32_t low_halves(uint32_t lo, uint32_t hi) { return __byte_perm(lo, hi, 0x5410); }
WW_FN float shuffle_xor(unsigned mask, float x, int lane_bits) { return __shfl_xor_sync(mask, x, lane_bits); }
WW_FN float max_nan(float a, float b) {   // NaN, where one is NaN
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
WW_FN int thread_of_block() { return int(threadIdx.x); }
WW_FN void barrier(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

// Which block of its cluster, of how many; which cluster.  Without a cluster launch, and before sm_90: 0 of 1, the block.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
WW_FN int cluster_rank() {
  int r;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
WW_FN int cluster_size() {
  int r;
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(r));
  return r;
}
WW_FN unsigned cluster_index() {
  unsigned r;
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(r));
  return r;
}
WW_FN void cluster_started() { asm volatile("barrier.cluster.arrive.relaxed.aligned;"); }   // orders no memory: saves a fence
WW_FN void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
WW_FN uint32_t shared_address(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }
// A mailbox: an mbarrier that counts bytes.  One arrival completes a phase, once the bytes announced have come.
WW_FN void open_mailbox(uint64_t* m) { asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(m)) : "memory"); }
WW_FN void publish_mailboxes() { asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory"); }
WW_FN void expect_mail(uint64_t* m, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(m)), "r"(bytes) : "memory");
}
WW_FN void await_mail(uint64_t* m, int parity) {
  uint32_t done;
  do {
    asm volatile("{\n.reg .pred q;\nmbarrier.try_wait.parity.shared.b64 q, [%1], %2;\nselp.b32 %0, 1, 0, q;\n}"
                 : "=r"(done) : "r"(shared_address(m)), "r"(parity) : "memory");
  } while (!done);
}
// slot = x, y and 8 bytes into mailbox m, both of block `rank` of the cluster, where `in`: a predicate keeps the warp together
WW_FN void post_peer(float* slot, uint64_t* m, int rank, float x, float y, bool in) {
  uint32_t to, box;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(shared_address(slot)), "r"(in ? rank : 0));
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(box) : "r"(shared_address(m)), "r"(in ? rank : 0));
  asm volatile("{\n.reg .pred q;\nsetp.ne.b32 q, %4, 0;\n@q st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];\n}"
               ::"r"(to), "r"(__float_as_uint(x)), "r"(__float_as_uint(y)), "r"(box), "r"(int(in)) : "memory");
}
// `bytes` from p to shared memory, counted by mailbox m: all multiples of 16
WW_FN void fetch_bytes(char* to, const void* p, int bytes, uint64_t* m) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)), "l"(p), "r"(bytes),
               "r"(shared_address(m)) : "memory");
}
#else
WW_FN constexpr int cluster_rank() { return 0; }
WW_FN constexpr int cluster_size() { return 1; }
WW_FN unsigned cluster_index() { return blockIdx.x; }
WW_FN void cluster_started() {}
WW_FN void cluster_wait() {}
WW_FN void open_mailbox(uint64_t*) {}
WW_FN void publish_mailboxes() {}
WW_FN void expect_mail(uint64_t*, int) {}
WW_FN void await_mail(uint64_t*, int) {}
WW_FN void post_peer(float*, uint64_t*, int, float, float, bool) {}
WW_FN void fetch_bytes(char*, const void*, int, uint64_t*) {}
#endif

}  // namespace ww::cuda

//! Gate by silu: SwiGLU.

mod reference;

crate::gate::gate! {
    /// `out = gate / (1 + exp(-gate)) * up`, rounded once: f32, f16, bf16 (f64 on the CPU), any strides; `out` may be written over `gate` or `up`.
    /// A packed tensor `[..., 2n]` is given as two views of pitch 2n: `gate=bf16[T,n]:2n,1`, `up=bf16[T,n]:2n,1+n`.
    /// silu(-inf) = 0, which times an infinity is NaN. Shazeer, 2020.
    SiluMul, "silu_mul", "ops/gate.h", FORWARD, &[]
}

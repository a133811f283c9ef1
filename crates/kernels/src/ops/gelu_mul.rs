//! Gate by gelu: GeGLU.

mod reference;

crate::gate::gate! {
    /// `out = gelu(gate) * up`, rounded once, by one of the two forms of [`Gelu`](super::gelu::Gelu): f32, f16, bf16 (f64 on the CPU), any strides;
    /// `out` may be written over `gate` or `up`. gelu(-inf) = 0, which times an infinity is NaN.
    /// A packed tensor `[..., 2n]` is given as two views of pitch 2n: `gate=bf16[T,n]:2n,1`, `up=bf16[T,n]:2n,1+n`.
    /// Shazeer, 2020.
    GeluMul, "gelu_mul", "ops/gate.h", FORWARD, crate::activation::APPROXIMATE
}

//! Gradient of gelu.

mod reference;

crate::activation::activation! {
    /// `dx = dy f'(x)`, f one of the two forms of [`Gelu`](super::gelu::Gelu): f32, f16, bf16 (f64 on the CPU), any strides, in place.
    GeluBwd, "gelu_bwd", "ops/activation.h", BACKWARD, crate::activation::APPROXIMATE, exact false
}

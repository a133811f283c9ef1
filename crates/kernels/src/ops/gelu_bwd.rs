//! Gradient of gelu.

mod reference;
pub(crate) use reference::{gelu_slope, gelu_tanh_slope};

crate::activation::activation! {
    /// `dx = dy f'(x)`, f one of the two forms of [`Gelu`](super::gelu::Gelu): f32, f16, bf16 (f64 on the CPU), any strides, in place.
    GeluBwd, "gelu_bwd", "ops/activation.h", BACKWARD, crate::activation::APPROXIMATE, exact false
}

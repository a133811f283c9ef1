//! Gradient of silu.

mod reference;
pub(crate) use reference::silu_slope;

crate::activation::activation! {
    /// `dx = dy (s + x s (1 - s))` with `s = 1 / (1 + exp(-x))`: f32, f16, bf16 (f64 on the CPU), any strides, in place.
    SiluBwd, "silu_bwd", "ops/activation.h", BACKWARD, &[], exact false
}

//! Gradient of relu.

mod reference;

crate::activation::activation! {
    /// `dx = dy` where `x > 0` (or NaN), 0 elsewhere, by a select: f32, f16, bf16 (f64 on the CPU), any strides, in place.
    ReluBwd, "relu_bwd", "ops/activation.h", BACKWARD, &[], exact true
}

//! Gradient of relu_squared.

mod reference;

crate::activation::activation! {
    /// `dx = 2 max(x, 0) dy`: f32, f16, bf16 (f64 on the CPU), any strides, in place.
    ReluSquaredBwd, "relu_squared_bwd", "ops/activation.h", BACKWARD, &[], exact true
}

//! Rectified linear unit.

mod reference;

crate::activation::activation! {
    /// `out = max(x, 0)`: f32, f16, bf16 (f64 on the CPU), any strides, in place. relu(NaN) = NaN.
    Relu, "relu", "ops/activation.h", FORWARD, &[], exact true
}

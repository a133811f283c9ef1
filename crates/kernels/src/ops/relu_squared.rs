//! Squared rectified linear unit.

mod reference;

crate::activation::activation! {
    /// `out = max(x, 0)²`: f32, f16, bf16 (f64 on the CPU), any strides, in place. So, et al., "Primer", 2021.
    ReluSquared, "relu_squared", "ops/activation.h", FORWARD, &[], exact true
}

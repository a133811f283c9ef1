//! Gaussian error linear unit.

mod reference;
pub(crate) use reference::{gelu, gelu_tanh, normal_cdf, normal_error, tanh_argument, tanh_error};

crate::activation::activation! {
    /// `out = x Φ(x)`, Φ the normal distribution, or with `approximate=tanh` `x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2`: f32, f16, bf16 (f64 on the CPU), any strides, in place. gelu(-inf) = 0.
    /// Hendrycks and Gimpel, 2016.
    Gelu, "gelu", "ops/activation.h", FORWARD, crate::activation::APPROXIMATE, exact false
}

//! Sigmoid linear unit.

mod reference;
pub(crate) use reference::{logistic, logistic_error, silu};

crate::activation::activation! {
    /// `out = x / (1 + exp(-x))`: f32, f16, bf16 (f64 on the CPU), any strides, in place. silu(-inf) = 0. Also called swish; Elfwing, Uchibe and Doya, 2017.
    Silu, "silu", "ops/activation.h", FORWARD, &[], exact false
}

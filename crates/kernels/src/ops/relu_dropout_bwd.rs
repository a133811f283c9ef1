//! Gradient of relu and dropout.

mod reference;

crate::pointwise::pointwise! {
    /// `dx = dy / (1 - p)` where `x > 0` (or NaN) and [`relu_dropout`](crate::ops::relu_dropout::ReluDropout) with the same `p`, `seed`, `offset` and
    /// `first` kept the element, 0 elsewhere, by selects: f32, f16, bf16 (f64 on the CPU), any strides, in place.
    ReluDropoutBwd, "relu_dropout_bwd", "ops/dropout.h", dropout, GATED, DRAW
}

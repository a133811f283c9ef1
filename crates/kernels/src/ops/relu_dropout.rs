//! Relu and dropout.

mod reference;

crate::pointwise::pointwise! {
    /// `out = max(x, 0) / (1 - p)` where an element is kept, 0 where it is dropped, in one pass: f32, f16, bf16 (f64 on the CPU), any strides, in
    /// place. relu(NaN) = NaN, where it is kept. `relu=false`: [`dropout`](crate::ops::dropout::Dropout), which says what is kept.
    ReluDropout, "relu_dropout", "ops/dropout.h", dropout, FORWARD, RELU_DRAW
}

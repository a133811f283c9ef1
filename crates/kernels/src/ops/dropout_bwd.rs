//! Gradient of dropout.

mod reference;

crate::pointwise::pointwise! {
    /// `dx = dy / (1 - p)` where [`dropout`](crate::ops::dropout::Dropout) with the same `p`, `seed`, `offset` and `first` kept the element, 0 elsewhere:
    /// f32, f16, bf16 (f64 on the CPU), any strides, in place. The mask is drawn anew, not read.
    DropoutBwd, "dropout_bwd", "ops/dropout.h", dropout, GRADIENT, DRAW
}

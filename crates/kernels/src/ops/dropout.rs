//! Dropout.

mod reference;
pub(crate) use reference::kept;

crate::pointwise::pointwise! {
    /// `out = x / (1 - p)` where an element is kept, 0 where it is dropped: f32, f16, bf16 (f64 on the CPU), any strides, in place. The quotient is
    /// a product with 1/(1 - p) as a float32 (float64 for f64), so that it is within three roundings.
    ///
    /// Element number i of the tensor, counted row-major from `first` on whatever its strides, is kept where word i mod 4 of Philox4x32-10 with key
    /// `seed` and counter (i / 4, `offset`) is at least round(p 2^32): the mask depends on nothing else, neither on the device nor on how a tensor
    /// is split. `p=0` changes nothing, `p=1` gives zeros; a dropped infinity or NaN is 0.
    ///
    /// Srivastava et al., 2014; Salmon et al., 2011.
    Dropout, "dropout", "ops/dropout.h", dropout, FORWARD, DRAW
}

use std::ops::Range;
use warpwave_core::{Approx, DType, Problem, Source};

/// Relative error of the logistic function of `v` where its digits are kept (see below), u the unit roundoff of the accumulation type: two units
/// in the last place of exp2, squared, 8u; of the reciprocal, 4u; the products 4u; all doubled for what the target's library adds less often.
/// An exponent that is rounded before exp2 takes it adds 1.3u|v|, in 16-bit types alone.
pub(crate) fn logistic_error(dtype: DType, v: f64) -> f64 {
    let rounded = if dtype.size() == 2 { 2.0 * v.abs().min(1e3) } else { 0.0 };
    dtype.accumulator().unit_roundoff() * (24.0 + rounded)
}

/// x / (1 + exp(-v)); the exponential in two parts, since x may lift a product of the two out of the subnormals.
pub(crate) fn logistic(x: f64, v: f64) -> f64 {
    if v < 0.0 { x * (v / 2.0).exp() * (v / 2.0).exp() / (1.0 + v.exp()) } else { x / (1.0 + (-v).exp()) }
}

/// x / (1 + exp(-x)); the limit 0 at -inf. Error: that of the logistic function, and results below the subnormals.
pub(crate) fn silu(dtype: DType, x: f64) -> (f64, f64) {
    let value = if x == f64::NEG_INFINITY { 0.0 } else { logistic(x, x) };
    (value, logistic_error(dtype, x) * value.abs() + 4.0 * dtype.accumulator().min_subnormal())
}

/// silu of each element.
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], ranges: &[Range<u64>]) -> Vec<Approx> {
    crate::activation::each(p, inputs, ranges, |dtype, x, _| silu(dtype, x))
}

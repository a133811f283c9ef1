use std::ops::Range;
use warpwave_core::{Approx, Problem, Source};

/// The square of the larger of x and 0. Error: one rounding of the product.
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], ranges: &[Range<u64>]) -> Vec<Approx> {
    crate::activation::each(p, inputs, ranges, |dtype, x, _| {
        let value = if x <= 0.0 { 0.0 } else { x * x };
        let sum = dtype.accumulator();
        (value, sum.unit_roundoff() * value + sum.min_subnormal())
    })
}

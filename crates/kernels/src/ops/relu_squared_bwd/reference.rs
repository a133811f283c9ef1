use std::ops::Range;
use warpwave_core::{Approx, Problem, Source};

/// Twice x dy where x is positive. Error: one rounding of the product, doubled where it is subnormal.
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], ranges: &[Range<u64>]) -> Vec<Approx> {
    crate::activation::each(p, inputs, ranges, |dtype, x, dy| {
        let value = if x <= 0.0 { 0.0 } else { 2.0 * x * dy };
        let sum = dtype.accumulator();
        (value, sum.unit_roundoff() * value.abs() + 2.0 * sum.min_subnormal())
    })
}

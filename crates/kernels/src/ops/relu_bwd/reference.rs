use std::ops::Range;
use warpwave_core::{Approx, Problem, Source};

/// dy where x is positive or NaN. No error: nothing is computed.
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], ranges: &[Range<u64>]) -> Vec<Approx> {
    crate::activation::each(p, inputs, ranges, |_, x, dy| (if x > 0.0 || x.is_nan() { dy } else { 0.0 }, 0.0))
}

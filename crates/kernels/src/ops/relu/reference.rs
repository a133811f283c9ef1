use std::ops::Range;
use warpwave_core::{Approx, Problem, Source};

/// The larger of x and 0; NaN stays. No error: nothing is computed.
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], ranges: &[Range<u64>]) -> Vec<Approx> {
    crate::activation::each(p, inputs, ranges, |_, x, _| (if x.is_nan() { x } else { x.max(0.0) }, 0.0))
}

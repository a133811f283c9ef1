use std::ops::Range;
use warpwave_core::{Approx, Source};

/// `x + y`. No error is allowed beyond one rounding: a float32 sum of two 16-bit values, rounded again, is the sum rounded once (Figueroa, 1995).
pub(super) fn reference(inputs: &[Source<'_>], ranges: &[Range<u64>]) -> Vec<Approx> {
    ranges.iter().flat_map(Clone::clone).map(|i| Approx { value: inputs[0].get(i) + inputs[1].get(i), error: 0.0 }).collect()
}

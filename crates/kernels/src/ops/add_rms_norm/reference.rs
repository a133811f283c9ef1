use crate::ops::rms_norm;
use std::ops::Range;
use warpwave_core::{Approx, Problem, Source};

/// Output 3 is the norm of the sum, output 4 the sum itself: a float32 sum of two 16-bit values, rounded again, is the sum rounded once
/// (Figueroa, 1995), so no error is allowed beyond one rounding.
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], output: usize, ranges: &[Range<u64>]) -> Vec<Approx> {
    if output == 3 {
        return rms_norm::reference_of(p, &inputs[0], Some(&inputs[1]), &inputs[2], ranges);
    }
    ranges.iter().flat_map(Clone::clone).map(|i| Approx { value: inputs[0].get(i) + inputs[1].get(i), error: 0.0 }).collect()
}

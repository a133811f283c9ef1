use crate::ops::dropout::kept;
use std::ops::Range;
use warpwave_core::{Approx, Problem, Source};

/// dy / (1 - p) where the forward kept the element.
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], ranges: &[Range<u64>]) -> Vec<Approx> {
    kept(p, ranges, |i| inputs[0].get(i))
}

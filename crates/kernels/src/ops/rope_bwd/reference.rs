use crate::ops::rope::turned;
use std::ops::Range;
use warpwave_core::{Approx, Problem, Source};

/// Turned back.
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], ranges: &[Range<u64>]) -> Vec<Approx> {
    turned(p, inputs, ranges, -1.0)
}

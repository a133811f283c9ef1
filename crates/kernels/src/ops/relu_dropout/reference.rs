use crate::ops::dropout::kept;
use std::ops::Range;
use warpwave_core::{Approx, Problem, Source};

/// The larger of x and 0, over 1 - p, where it is kept; NaN stays.
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], ranges: &[Range<u64>]) -> Vec<Approx> {
    let relu = p.flag("relu");
    kept(p, ranges, |i| {
        let x = inputs[0].get(i);
        if relu && x <= 0.0 { 0.0 } else { x }
    })
}

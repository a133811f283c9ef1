use std::ops::Range;
use warpwave_core::{Approx, Problem, Source};

/// The value, everywhere.
pub(super) fn reference(p: &Problem, _: &[Source<'_>], ranges: &[Range<u64>]) -> Vec<Approx> {
    ranges.iter().flat_map(Clone::clone).map(|_| Approx { value: p.float("value"), error: 0.0 }).collect()
}

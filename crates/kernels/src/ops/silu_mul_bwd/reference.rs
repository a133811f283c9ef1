use crate::ops::silu::silu;
use crate::ops::silu_bwd::silu_slope;
use std::ops::Range;
use warpwave_core::{Approx, Problem, Source};

/// dy up silu'(gate), dy silu(gate).
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], output: usize, ranges: &[Range<u64>]) -> Vec<Approx> {
    crate::gate::reference(p, inputs, output, ranges, [silu, silu_slope])
}

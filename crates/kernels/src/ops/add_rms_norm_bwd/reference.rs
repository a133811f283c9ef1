use crate::ops::rms_norm_bwd::reference_of;
use std::ops::Range;
use warpwave_core::{Approx, Problem, Source};

/// rms_norm_bwd's gradients; the residual's own joins dx, which rounds once more.
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], output: usize, ranges: &[Range<u64>]) -> Vec<Approx> {
    let (Some(x), [saved, dy, joins, w, ..]) = (p.operand("x"), inputs) else { return Vec::new() };
    let of_w = output == 5;
    let mut all = reference_of(p, saved, dy, w, of_w, ranges);
    if !of_w {
        let u = x.dtype.accumulator().unit_roundoff();
        for (a, i) in all.iter_mut().zip(ranges.iter().flat_map(Clone::clone)) {
            let value = a.value + joins.get(i);
            *a = Approx { value, error: if value.is_finite() { a.error + 2.0 * u * value.abs() } else { 0.0 } };
        }
    }
    all
}

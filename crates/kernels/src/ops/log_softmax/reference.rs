use crate::ops::softmax;
use std::ops::Range;
use warpwave_core::{Approx, Problem, Source, exact_sum};

/// Log-softmax in float64, row by row.
///
/// Error, u the accumulator's unit roundoff: that of the sum (see softmax) divided by it, the logarithm's two units in the last place, and the rounding of the two
/// differences, u·(|x - max| + |log sum| + |value|).
pub(super) fn reference(p: &Problem, x: &Source<'_>, ranges: &[Range<u64>]) -> Vec<Approx> {
    let Some(desc) = p.operand("x") else {
        return Vec::new();
    };
    let Some(axis) = softmax::axis(p, desc.rank()) else {
        return Vec::new();
    };
    let u = desc.dtype.accumulator().unit_roundoff();
    let n = desc.shape[axis];
    let step: u64 = desc.shape[axis + 1..].iter().product();
    // neighbours along a faster dimension belong to `step` rows
    let mut rows = vec![(u64::MAX, 0.0, 0.0, 0.0); step.max(1) as usize];
    ranges
        .iter()
        .flat_map(Clone::clone)
        .map(|i| {
            let first = i / (n * step) * (n * step) + i % step;
            let row = &mut rows[(i % step) as usize];
            if row.0 != first {
                let at = |j: u64| x.get(first + j * step);
                let max = (0..n).map(at).fold(f64::NEG_INFINITY, f64::max);
                let sum = exact_sum((0..n).map(|j| (at(j) - max).exp()));
                let spread: f64 = (0..n).map(at).filter(|v| *v > f64::NEG_INFINITY).map(|v| (v - max).exp() * (max - v)).sum();
                *row = (first, max, sum, spread / sum);
            }
            let (_, max, sum, spread) = *row;
            let d = x.get(i) - max;
            let value = d - sum.ln();
            let error = u * (3.0 * spread + 8.0 + 4.0 * (n as f64).sqrt() + 4.0 * sum.ln().abs() + d.abs() + value.abs());
            Approx { value, error: if value.is_finite() { error } else { 0.0 } }
        })
        .collect()
}

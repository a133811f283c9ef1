use std::ops::Range;
use warpwave_core::{Approx, DType, Problem, Source, exact_sum};

/// Softmax in float64, row by row.
///
/// Error of an element p, u the accumulator's unit roundoff: the exponent (x - max)·log2 e carries 3u·|x - max|, exp2 two units in the last place, the sum the mean of
/// its terms' errors and 4·√n·u of its own; results below the smallest normal number may flush to 0.
pub(super) fn reference(p: &Problem, x: &Source<'_>, ranges: &[Range<u64>]) -> Vec<Approx> {
    let Some(desc) = p.operand("x") else {
        return Vec::new();
    };
    let Some(axis) = super::axis(p, desc.rank()) else {
        return Vec::new();
    };
    let u = desc.dtype.accumulator().unit_roundoff();
    let least = if desc.dtype == DType::F64 { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) };
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
                let term = |v: f64| (v - max).exp();
                let sum = exact_sum((0..n).map(|j| term(at(j))));
                let spread: f64 = (0..n).map(at).filter(|&v| term(v) > 0.0).map(|v| term(v) * (max - v)).sum();
                *row = (first, max, sum, spread / sum);
            }
            let (_, max, sum, spread) = *row;
            let d = x.get(i) - max;
            let value = d.exp() / sum;
            let error = if value > 0.0 { value * u * (3.0 * d.abs() + 3.0 * spread + 8.0 + 4.0 * (n as f64).sqrt()) } else { 0.0 };
            Approx { value, error: error + least }
        })
        .collect()
}

use std::ops::Range;
use warpwave_core::{Approx, DType, Problem, Source, exact_sum};

/// dx = y·(dy - c), c = sum(y·dy), row by row.
///
/// Error, u the accumulator's unit roundoff: c drifts by (4·√n + 2)·u of its absolute sum; the difference and the product round once each.
/// Products below the smallest normal number may vanish.
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], ranges: &[Range<u64>]) -> Vec<Approx> {
    let (Some(desc), [dy, y, ..]) = (p.operand("y"), inputs) else { return Vec::new() };
    let Some(axis) = super::axis(p, desc.rank()) else { return Vec::new() };
    let u = desc.dtype.accumulator().unit_roundoff();
    let least = if desc.dtype == DType::F64 { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) };
    let n = desc.shape[axis];
    let step: u64 = desc.shape[axis + 1..].iter().product();
    // neighbours along a faster dimension belong to `step` rows
    let mut rows = vec![(u64::MAX, 0.0, 0.0); step.max(1) as usize];
    ranges
        .iter()
        .flat_map(Clone::clone)
        .map(|i| {
            let first = i / (n * step) * (n * step) + i % step;
            let row = &mut rows[(i % step) as usize];
            if row.0 != first {
                let terms = || (0..n).map(|j| y.get(first + j * step) * dy.get(first + j * step));
                let size: f64 = terms().map(f64::abs).sum();
                *row = (first, exact_sum(terms()), size * (4.0 * (n as f64).sqrt() + 2.0) * u + least * n as f64);
            }
            let (_, c, drift) = *row;
            let (a, d) = (y.get(i), dy.get(i));
            let value = a * (d - c);
            let error = a.abs() * (drift + 2.0 * u * (d.abs() + c.abs())) + 2.0 * u * value.abs() + least;
            Approx { value, error: if error.is_finite() { error } else { 0.0 } }
        })
        .collect()
}

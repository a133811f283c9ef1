use crate::ops::rms_norm::inverse_root;
use std::ops::Range;
use warpwave_core::{Approx, DType, Problem, Source, exact_sum};

/// dx = (g - h·mean(g·h)) · root with h = x·root, g = dy·(w + shift); dw = the sum over rows of dy·h.
///
/// Error, u the accumulator's unit roundoff, e = (2·√n + 8)·u that of the root and of h: the mean of g·h drifts by (4·√n + 4)·u + e of its
/// absolute sum, which h hands on; g, the difference and the products round eight times. A sum over m rows drifts by 4·√m·u of its absolute sum,
/// where each term is off by e.
pub(crate) fn reference(p: &Problem, x: &Source<'_>, dy: &Source<'_>, w: &Source<'_>, of_w: bool, ranges: &[Range<u64>]) -> Vec<Approx> {
    let Some(desc) = p.operand("x") else { return Vec::new() };
    let acc = desc.dtype.accumulator();
    let n = desc.shape.last().copied().unwrap_or(1);
    let rows = desc.shape.iter().rev().skip(1).product::<u64>();
    let eps = if acc == DType::F64 { p.float("eps") } else { f64::from(p.float("eps") as f32) };
    let shift = f64::from(p.float("shift") as f32);
    let least = if acc == DType::F64 { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) };
    let u = acc.unit_roundoff();
    let drift = (n as f64).sqrt() * u;
    let off = 2.0 * drift + 8.0 * u;
    let root_of = |r: u64| inverse_root((0..n).map(|j| x.get(r * n + j)), n, eps);
    let approx = |value: f64, error: f64| Approx { value, error: if value.is_finite() { error } else { 0.0 } };
    let elements = ranges.iter().flat_map(Clone::clone);
    if of_w {
        let roots: Vec<f64> = (0..rows).map(root_of).collect();
        return elements
            .map(|j| {
                let term = |r: u64| dy.get(r * n + j) * (x.get(r * n + j) * roots[r as usize]);
                let size: f64 = (0..rows).map(|r| term(r).abs()).sum();
                approx(exact_sum((0..rows).map(term)), size * (4.0 * (rows as f64).sqrt() * u + off) + least * (rows + 1) as f64)
            })
            .collect();
    }
    let (mut row, mut root, mut mean, mut mean_error) = (u64::MAX, 0.0, 0.0, 0.0);
    let gradient = |i: u64| dy.get(i) * (w.get(i % n) + shift);
    elements
        .map(|i| {
            if row != i / n {
                row = i / n;
                root = root_of(row);
                let term = |j: u64| gradient(row * n + j) * (x.get(row * n + j) * root);
                mean = exact_sum((0..n).map(term)) / n as f64;
                mean_error = (0..n).map(|j| term(j).abs()).sum::<f64>() / n as f64 * (4.0 * drift + 4.0 * u + off) + least;
            }
            let (g, h) = (gradient(i), x.get(i) * root);
            let inner = g - h * mean;
            let error = g.abs() * 8.0 * u + h.abs() * (mean_error + mean.abs() * (off + 8.0 * u)) + inner.abs() * off + least;
            approx(inner * root, error * root + least)
        })
        .collect()
}

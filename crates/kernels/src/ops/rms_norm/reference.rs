use std::ops::Range;
use warpwave_core::{Approx, DType, Problem, Source, exact_sum};

/// x (with a residual: their sum, rounded to the accumulator) over the root of its mean square and eps, times the weight; row by row.
///
/// Error, u the accumulator's unit roundoff: a sum of n squares drifts by 4·√n·u of itself, its root by half of that; products, root and quotient
/// round six times; a sum with the residual and the weight's shift once each.
pub(crate) fn reference(p: &Problem, x: &Source<'_>, residual: Option<&Source<'_>>, w: &Source<'_>, ranges: &[Range<u64>]) -> Vec<Approx> {
    let Some(desc) = p.operand("x") else { return Vec::new() };
    let acc = desc.dtype.accumulator();
    let n = desc.shape.last().copied().unwrap_or(1);
    let at = |i: u64| residual.map_or_else(|| x.get(i), |r| acc.round(x.get(i) + r.get(i)));
    let has_weight = p.operand("w").is_some();
    let eps = if acc == DType::F64 { p.float("eps") } else { f64::from(p.float("eps") as f32) };
    let shift = f64::from(p.float("shift") as f32);
    let (mut row, mut root) = (u64::MAX, 0.0);
    let u = acc.unit_roundoff();
    let least = if acc == DType::F64 { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) };
    ranges
        .iter()
        .flat_map(Clone::clone)
        .map(|i| {
            if row != i / n {
                row = i / n;
                root = inverse_root((0..n).map(|j| at(row * n + j)), n, eps);
            }
            let weight = if has_weight { w.get(i % n) + shift } else { 1.0 };
            let value = at(i) * root * weight;
            let error = value.abs() * u * (2.0 * (n as f64).sqrt() + 9.0) + least * weight.abs().max(1.0);
            Approx { value, error: if value.is_finite() { error } else { 0.0 } }
        })
        .collect()
}

/// 1 / sqrt(mean of squares + eps) in float64, also where squares leave its range.
pub(crate) fn inverse_root(row: impl Iterator<Item = f64> + Clone, n: u64, eps: f64) -> f64 {
    let largest = row.clone().map(f64::abs).fold(0.0, f64::max);
    let scale = if largest.is_finite() && (largest > 1e100 || (eps == 0.0 && largest < 1e-100 && largest > 0.0)) { largest } else { 1.0 };
    let mean = exact_sum(row.map(|x| (x / scale) * (x / scale))) / n as f64;
    let under = mean + eps / scale / scale;
    if under == 0.0 { 0.0 } else { 1.0 / under.sqrt() / scale }
}

use crate::ops::rms_norm::inverse_root;
use std::ops::Range;
use warpwave_core::{Approx, DType, Problem, Source, exact_sum};

/// The centred row over its root mean square (and eps), times gamma, plus beta; row by row.
///
/// Error, u the accumulator's unit roundoff: the mean, corrected by the mean of what it leaves, drifts by 4·√n·u of the mean distance from it (and by
/// the square of that, of its own size) and moves every centred value so, and the variance by its square; a sum of n squares drifts by 4·√n·u of itself, its root by half; products, root, quotient and sum round a few times.
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], ranges: &[Range<u64>]) -> Vec<Approx> {
    let Some(desc) = p.operand("x") else { return Vec::new() };
    let acc = desc.dtype.accumulator();
    let n = desc.shape.last().copied().unwrap_or(1);
    let x = &inputs[0];
    let weight = |name: &str, source: &Source<'_>, j: u64, absent: f64| if p.operand(name).is_some() { source.get(j) } else { absent };
    let eps = if acc == DType::F64 { p.float("eps") } else { f64::from(p.float("eps") as f32) };
    let u = acc.unit_roundoff();
    let least = if acc == DType::F64 { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) };
    let root_n = (n as f64).sqrt();
    let (mut row, mut mean, mut drift, mut root) = (u64::MAX, 0.0, 0.0, 0.0);
    ranges
        .iter()
        .flat_map(Clone::clone)
        .map(|i| {
            if row != i / n {
                row = i / n;
                let of_row = (0..n).map(|j| x.get(row * n + j));
                mean = exact_sum(of_row.clone()) / n as f64;
                let size = |f: &dyn Fn(f64) -> f64| exact_sum(of_row.clone().map(|v| f(v).abs())) / n as f64;
                let once = u * (4.0 * root_n + 4.0);
                drift = once * size(&|v| v - mean) + once * once * size(&|v| v);
                root = inverse_root(of_row.map(|v| v - mean), n, eps);
            }
            let centred = x.get(i) - mean;
            let (gamma, beta) = (weight("gamma", &inputs[1], i % n, 1.0), weight("beta", &inputs[2], i % n, 0.0));
            let scaled = centred * root * gamma;
            let value = scaled + beta;
            // a mean that is off by d adds d² to the mean square: the root shrinks by the factor 1 / sqrt(1 + (d·root)²)
            let shrink = drift * root * drift * root;
            let error = (drift * root * gamma).abs()
                + scaled.abs() * (u * (2.0 * root_n + 9.0) + shrink.min(1.0))
                + beta.abs() * u
                + least * gamma.abs().max(1.0);
            // a row that is constant but for rounding, without eps: what rounding left is what is normalised, to at most √n
            let error = if root == 0.0 || drift * root >= 1.0 { error + 2.0 * root_n * gamma.abs() } else { error };
            // the product with gamma may leave the accumulator's range although beta would bring it back
            let error = if scaled.abs() > f64::from(f32::MAX) * 0.99 && acc == DType::F32 { f64::INFINITY } else { error };
            Approx { value, error: if value.is_finite() { error } else { 0.0 } }
        })
        .collect()
}

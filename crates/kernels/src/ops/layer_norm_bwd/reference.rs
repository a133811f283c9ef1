use crate::ops::rms_norm::inverse_root;
use std::ops::Range;
use warpwave_core::{Approx, DType, Problem, Source, exact_sum};

/// What a row gives: its mean, 1 / deviation, how far the centred values may be off, and by which factor the root.
#[derive(Clone, Copy, Default)]
struct Row {
    mean: f64,
    root: f64,
    /// Of h: absolute, from the drift of the mean.
    off: f64,
    /// Of h: relative.
    scale: f64,
    g: f64,
    g_off: f64,
    gh: f64,
    gh_off: f64,
}

/// dx = (g - mean(g) - h·mean(g·h)) · root with h = (x - mean)·root, g = dy·gamma; dgamma = the sum over rows of dy·h, dbeta that of dy.
///
/// Error, u the accumulator's unit roundoff: the mean, corrected, drifts by (4·√n + 4)·u of the mean distance from it, and moves h by that times root;
/// the root is off by (2·√n + 9)·u and by the square of that drift. Means of g and of g·h drift by (4·√n + 4)·u of their absolute sums, the latter
/// also by what h is off; both join products that round eight times. Sums over m rows drift by 4·√m·u of their absolute sums, where terms are off as
/// h is.
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], output: usize, ranges: &[Range<u64>]) -> Vec<Approx> {
    let (Some(desc), [x, dy, gamma, ..]) = (p.operand("x"), inputs) else { return Vec::new() };
    let acc = desc.dtype.accumulator();
    let n = desc.shape.last().copied().unwrap_or(1);
    let rows = desc.shape.iter().rev().skip(1).product::<u64>();
    let eps = if acc == DType::F64 { p.float("eps") } else { f64::from(p.float("eps") as f32) };
    let u = acc.unit_roundoff();
    let least = if acc == DType::F64 { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) };
    let once = u * (4.0 * (n as f64).sqrt() + 4.0);
    let measure = |r: u64| {
        let values = (0..n).map(|j| x.get(r * n + j));
        let mean = exact_sum(values.clone()) / n as f64;
        let size = |f: &dyn Fn(f64) -> f64| exact_sum(values.clone().map(|v| f(v).abs())) / n as f64;
        let drift = once * size(&|v| v - mean) + 2.0 * once * once * size(&|v| v);
        let root = inverse_root(values.clone().map(|v| v - mean), n, eps);
        // a row that is constant but for rounding, without eps: what rounding left is what is normalised, to at most √n
        let off = if root == 0.0 || drift * root >= 1.0 { 2.0 * (n as f64).sqrt() } else { drift * root };
        Row { mean, root, off, scale: u * (2.0 * (n as f64).sqrt() + 9.0) + (off * off).min(1.0), ..Row::default() }
    };
    let approx = |value: f64, error: f64| Approx { value, error: if value.is_finite() { error } else { 0.0 } };
    let elements = ranges.iter().flat_map(Clone::clone);
    if output > 3 {
        let all: Vec<Row> = if output == 4 { (0..rows).map(measure).collect() } else { vec![Row::default(); rows as usize] };
        return elements
            .map(|j| {
                let h = |r: u64| if output == 4 { (x.get(r * n + j) - all[r as usize].mean) * all[r as usize].root } else { 1.0 };
                let term = |r: u64| dy.get(r * n + j) * h(r);
                let drift = 4.0 * (rows as f64).sqrt() * u;
                let off = |r: u64| dy.get(r * n + j).abs() * all[r as usize].off + term(r).abs() * (drift + u + all[r as usize].scale);
                approx(exact_sum((0..rows).map(term)), (0..rows).map(off).sum::<f64>() + least * (rows + 1) as f64)
            })
            .collect();
    }
    let mut row = (u64::MAX, Row::default());
    elements
        .map(|i| {
            let g = |j: u64| dy.get(j) * gamma.get(j % n);
            if row.0 != i / n {
                let r = i / n;
                let mut m = measure(r);
                let h = |j: u64| (x.get(r * n + j) - m.mean) * m.root;
                let mean = |f: &dyn Fn(u64) -> f64| exact_sum((0..n).map(f)) / n as f64;
                let g_size = mean(&|j| g(r * n + j).abs());
                let gh_size = mean(&|j| (g(r * n + j) * h(j)).abs());
                (m.g, m.g_off) = (mean(&|j| g(r * n + j)), g_size * once + least);
                (m.gh, m.gh_off) = (mean(&|j| g(r * n + j) * h(j)), gh_size * (once + m.scale) + g_size * m.off + least);
                row = (r, m);
            }
            let m = row.1;
            let h = (x.get(i) - m.mean) * m.root;
            let inner = g(i) - m.g - h * m.gh;
            let error = (g(i).abs() + m.g.abs() + (h * m.gh).abs()) * 8.0 * u
                + m.g_off
                + h.abs() * (m.gh_off + m.gh.abs() * m.scale)
                + m.off * (m.gh.abs() + m.gh_off)
                + inner.abs() * (m.scale + 8.0 * u)
                + least;
            approx(inner * m.root, error * m.root + least)
        })
        .collect()
}
